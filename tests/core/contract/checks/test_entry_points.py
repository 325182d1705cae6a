from __future__ import annotations

import ast
import textwrap

import pytest

from kzoo_core.contract.checks.entry_points import (
    build_env_problems,
    random_problems,
    script_problems,
    work_directory_problems,
)
from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH
from kzoo_core.errors import Problem, Severity

GUARD = 'if __name__ == "__main__":'


def tree(source: str) -> ast.Module:
    return ast.parse(textwrap.dedent(source))


@pytest.mark.parametrize(
    "source",
    [
        'def main(): pass\nif __name__ == "__main__":\n    main()\n',
        "if '__main__' == __name__: raise SystemExit(0)\n",
    ],
)
def test_a_main_guard_makes_a_script(source: str) -> None:
    assert script_problems(tree(source), BENCHMARK_PATH) == []


def test_a_file_that_does_nothing_as_a_script_is_an_error() -> None:
    source = "import sys\nN = int('3')\ndef main(): pass\nif N == 3: pass\n"
    assert script_problems(tree(source), BENCHMARK_PATH) == [
        Problem(
            code="no_main_guard",
            message=f"{BENCHMARK_PATH} does nothing when it is started as a script",
            file=BENCHMARK_PATH,
            found=f"no {GUARD}",
            expected=f"{GUARD} raise SystemExit(main(sys.argv))",
            hint="runners start it as: python FILE WORKDIR",
        )
    ]


@pytest.mark.parametrize(
    "source", ["def main(): pass\nmain()\n", "import sys\nif len(sys.argv) == 2:\n    main()\n"]
)
def test_work_without_a_guard_is_a_warning(source: str) -> None:
    assert script_problems(tree(source), BENCHMARK_PATH) == [
        Problem(
            code="no_main_guard",
            severity=Severity.WARNING,
            message=f"{BENCHMARK_PATH} does its work whenever it is imported",
            file=BENCHMARK_PATH,
            found=f"no {GUARD}",
            expected=f"{GUARD} raise SystemExit(main(sys.argv))",
            hint="runners start it as: python FILE WORKDIR",
        )
    ]


@pytest.mark.parametrize(
    "source",
    [
        "def build_env(workdir): pass",
        "def build_env(workdir, *, seed=1): pass",
        "def build_env(workdir, extra=None): pass",
        "def build_env(workdir=None, /): pass",
        "def build_env(*args): pass",
        "from common import build_env",
        "build_env = make",
    ],
)
def test_build_env_takes_the_work_directory(source: str) -> None:
    assert list(build_env_problems(tree(source))) == []


def test_a_build_without_build_env_is_an_error() -> None:
    assert list(build_env_problems(tree("def build(workdir): pass"))) == [
        Problem(
            code="build_env_missing",
            message=f"{BUILD_PATH} does not define build_env",
            file=BUILD_PATH,
            found="no build_env at module level",
            expected="def build_env(workdir: Path) -> None",
        )
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def build_env(): pass", "build_env()"),
        ("def build_env(a, b): pass", "build_env(a, b)"),
        ("def build_env(a, *, seed): pass", "build_env(a, *, seed)"),
        ("async def build_env(a): pass", "build_env(a)"),
    ],
)
def test_build_env_that_cannot_be_called_so_is_an_error(source: str, found: str) -> None:
    assert list(build_env_problems(tree(f"\n{source}"))) == [
        Problem(
            code="build_env_signature",
            message=f"{BUILD_PATH}: build_env cannot be called with the work directory alone",
            file=BUILD_PATH,
            line=2,
            found=found,
            expected="def build_env(workdir: Path) -> None",
        )
    ]


@pytest.mark.parametrize(
    "call",
    [
        "os.urandom(8)",
        "time.time()",
        "uuid.uuid4()",
        "secrets.token_bytes(8)",
        "random.random()",
        "np.random.randn(3)",
        "numpy.random.rand(3)",
        "np.random.default_rng()",
        "default_rng()",
        "random.Random()",
    ],
)
def test_what_differs_at_every_build_is_a_warning(call: str) -> None:
    name = call.partition("(")[0]
    assert list(random_problems(tree(f"\nx = {call}"))) == [
        Problem(
            code="unseeded_random",
            severity=Severity.WARNING,
            message=f"{BUILD_PATH} calls {name}(), which gives something else at every build",
            file=BUILD_PATH,
            line=2,
            found=f"{name}()",
            expected="the same bytes at every build",
            hint="draw from numpy.random.default_rng(SEED) with a constant SEED",
        )
    ]


@pytest.mark.parametrize(
    "source",
    [
        "rng = np.random.default_rng(SEED)\nrng.standard_normal(3)",
        "rng = random.Random(SEED)\nrng.random()",
        "np.random.seed(0)\nnp.random.randn(3)",
        "random.seed(1)\nrandom.random()",
        "np.random.Generator(np.random.PCG64(1))",
        "time.perf_counter()",
        "(lambda: 1)()",
        "torch.rand(3)",
    ],
)
def test_seeded_random_is_fine(source: str) -> None:
    assert list(random_problems(tree(source))) == []


def test_a_build_names_where_it_writes() -> None:
    named = [b"inputs = workdir / 'inputs'", b"'expected'", b'"build_manifest.json"']
    assert work_directory_problems(named) == []
    assert work_directory_problems([b"inputs"]) == [
        Problem(
            code="work_directory_layout",
            severity=Severity.WARNING,
            message=(
                "nothing in the package names <workdir>/expected, <workdir>/build_manifest.json"
            ),
            file=BUILD_PATH,
            found="no mention of expected, build_manifest.json",
            expected="inputs/, expected/ and build_manifest.json below the work directory",
            hint="write inputs/<case>_*.npy, expected/<case>_*.npy and build_manifest.json",
        )
    ]
