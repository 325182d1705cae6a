"""The two scripts that a runner starts: what can be told of them without running (D6, D7).

Covers the rows of the authoring guides' checklists on build_test_env.py and benchmark.py that a
syntax tree can answer. The others (same bytes at every build, one JSON document on standard output,
no accepted failure, finite values) are answered by the run and the verdict.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import BUILD_PATH
from kzoo_core.contract.static.module import is_bound
from kzoo_core.errors import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUILD_ENV = "build_env"

_RANDOM_MODULES = ("random", "np.random", "numpy.random")
_SEEDED_BY = frozenset({"seed", "default_rng", "Random", "RandomState", "Generator", "PCG64"})
_ALWAYS_DIFFERENT = frozenset(
    {"os.urandom", "time.time", "time.time_ns", "uuid.uuid4", "datetime.now", "datetime.utcnow"}
)
_NEEDS_A_SEED = frozenset({"default_rng", "Random", "RandomState"})


def script_problems(tree: ast.Module, file: str) -> list[Problem]:
    """Say whether starting ``file`` as a script does anything, and only then."""
    if any(_is_main_guard(statement) for statement in tree.body):
        return []
    calls = [node for node in tree.body if isinstance(node, ast.Expr | ast.If | ast.For | ast.With)]
    works = any(isinstance(node, ast.Call) for statement in calls for node in ast.walk(statement))
    guard = 'if __name__ == "__main__":'
    return [
        Problem(
            code="no_main_guard",
            severity=Severity.WARNING if works else Severity.ERROR,
            message=(
                f"{file} does its work whenever it is imported"
                if works
                else f"{file} does nothing when it is started as a script"
            ),
            file=file,
            found=f"no {guard}",
            expected=f"{guard} raise SystemExit(main(sys.argv))",
            hint="runners start it as: python FILE WORKDIR",
        )
    ]


def work_directory_problems(sources: Iterable[bytes]) -> list[Problem]:
    """Warn when no Python source names one of the places that a build writes to."""
    texts = list(sources)
    places = ("inputs", "expected", "build_manifest.json")
    unnamed = [place for place in places if not any(place.encode() in text for text in texts)]
    if not unnamed:
        return []
    named = ", ".join(f"<workdir>/{place}" for place in unnamed)
    return [
        Problem(
            code="work_directory_layout",
            severity=Severity.WARNING,
            message=f"nothing in the package names {named}",
            file=BUILD_PATH,
            found=f"no mention of {', '.join(unnamed)}",
            expected="inputs/, expected/ and build_manifest.json below the work directory",
            hint="write inputs/<case>_*.npy, expected/<case>_*.npy and build_manifest.json",
        )
    ]


def build_env_problems(tree: ast.Module, file: str = BUILD_PATH) -> Iterator[Problem]:
    """Say whether ``build_env(workdir)`` is there and can be called with the work directory."""
    signature = f"def {_BUILD_ENV}(workdir: Path) -> None"
    if not is_bound(tree, _BUILD_ENV):
        yield Problem(
            code="build_env_missing",
            message=f"{file} does not define {_BUILD_ENV}",
            file=file,
            found=f"no {_BUILD_ENV} at module level",
            expected=signature,
        )
        return
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if statement.name == _BUILD_ENV and not _takes_one(statement):
            yield Problem(
                code="build_env_signature",
                message=f"{file}: {_BUILD_ENV} cannot be called with the work directory alone",
                file=file,
                line=statement.lineno,
                found=f"{_BUILD_ENV}({ast.unparse(statement.args)})"[:80],
                expected=signature,
            )


def _takes_one(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    takes = function.args
    positional = [*takes.posonlyargs, *takes.args]
    required = len(positional) - len(takes.defaults)
    named = any(default is None for default in takes.kw_defaults)
    room = bool(positional) or takes.vararg is not None
    return isinstance(function, ast.FunctionDef) and room and required <= 1 and not named


def random_problems(tree: ast.Module, file: str = BUILD_PATH) -> Iterator[Problem]:
    """Warn of calls that give something else at every build."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [(call, _dotted(call.func)) for call in calls]
    seeded = {name.rpartition(".")[0] for _, name in names if name.endswith(".seed")}
    for call, name in names:
        if _differs(call, name, seeded):
            yield Problem(
                code="unseeded_random",
                severity=Severity.WARNING,
                message=f"{file} calls {name}(), which gives something else at every build",
                file=file,
                line=call.lineno,
                found=f"{name}()",
                expected="the same bytes at every build",
                hint="draw from numpy.random.default_rng(SEED) with a constant SEED",
            )


def _differs(call: ast.Call, name: str, seeded: set[str]) -> bool:
    module, _, function = name.rpartition(".")
    if name in _ALWAYS_DIFFERENT or module == "secrets":
        return True
    if function in _NEEDS_A_SEED and (module in _RANDOM_MODULES or not module):
        return not call.args and not call.keywords
    return module in _RANDOM_MODULES and function not in _SEEDED_BY and module not in seeded


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return ""


def _is_main_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    sides = [statement.test.left, *statement.test.comparators]
    name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    main = any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)
    return name and main
