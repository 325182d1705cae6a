from __future__ import annotations

import textwrap
import time

import pytest

from kzoo_core.contract.layout import BENCHMARK_PATH
from kzoo_core.contract.metas import read_metas
from kzoo_core.contract.records import Direction, MetricMeta, TestCaseMeta
from kzoo_core.errors import Problem
from tests.packages import valid_package

NAME = "KERNEL_ZOO_TEST_CASE_METAS"
METRICS = '[{"name": "t", "unit": "ms", "direction": "lower_better"}]'
CASE = f'{{"test_case_id": "n4", "params": {{}}, "primary_metric": "t", "metrics": {METRICS}}}'
META = TestCaseMeta("n4", {}, "t", (MetricMeta("t", "ms", Direction.LOWER),))


def read(source: str) -> tuple[tuple[TestCaseMeta, ...] | None, list[Problem]]:
    return read_metas(textwrap.dedent(source).encode())


def metas(source: str) -> tuple[TestCaseMeta, ...]:
    found, problems = read(source)
    assert problems == []
    assert found is not None
    return found


def problems(source: str) -> list[Problem]:
    found, told = read(source)
    assert found is None
    assert all(problem.file == BENCHMARK_PATH for problem in told)
    return told


def only_problem(source: str) -> Problem:
    (problem,) = problems(source)
    return problem


def not_static(line: int, column: int, found: str, hint: str) -> Problem:
    return Problem(
        code="metas_not_static",
        message=f"{NAME} cannot be read without running {BENCHMARK_PATH}: it needs {found}",
        file=BENCHMARK_PATH,
        line=line,
        column=column,
        found=found,
        expected="literals, constants of this file, comprehensions and f-strings",
        hint=hint,
    )


# How authors write them.

MERGED = f"""\
M = {METRICS}
D = dict(test_case_id='n4', params={{}})
{NAME} = [D | {{'primary_metric': M[0]['name'], 'metrics': M}}]
"""
COMPREHENDED = f"""\
CASES = {{'n4': {{}}}}
{NAME} = [
    {{'test_case_id': name, 'params': params, 'primary_metric': 't', 'metrics': {METRICS}}}
    for name, params in CASES.items()
]
"""


def test_the_literal_of_the_guide_is_read_in_source_order() -> None:
    source = """\
    KERNEL_ZOO_TEST_CASE_METAS = [
        {
            "test_case_id": "small_b1",
            "params": {"batch": 1, "shape": (1, 16)},
            "primary_metric": "primary_latency_ms",
            "metrics": [
                {"name": "primary_latency_ms", "unit": "ms", "direction": "lower_better"},
                {"name": "tflops", "unit": "TFlops", "direction": "higher_better"},
            ],
            "tolerance": {"correctness_atol": 1e-4},
            "work": {"flops": 524288, "bytes": 49152},
        },
        {"test_case_id": "a", "params": {}, "primary_metric": "t",
         "metrics": [{"name": "t", "unit": "", "direction": "higher_better"}]},
    ]
    """
    assert metas(source) == (
        TestCaseMeta(
            test_case_id="small_b1",
            params={"batch": 1, "shape": [1, 16]},
            primary_metric="primary_latency_ms",
            metrics=(
                MetricMeta("primary_latency_ms", "ms", Direction.LOWER),
                MetricMeta("tflops", "TFlops", Direction.HIGHER),
            ),
            tolerance={"correctness_atol": 1e-4},
            work={"flops": 524288, "bytes": 49152},
        ),
        TestCaseMeta("a", {}, "t", (MetricMeta("t", "", Direction.HIGHER),)),
    )


@pytest.mark.parametrize(
    "source",
    [
        f"{NAME}: list[dict] = [{CASE}]",
        f"{NAME}: list[dict]\n{NAME} = [{CASE}]",
        f"A = B = [{CASE}]\n{NAME} = B",
        f"{NAME}, OTHER = [{CASE}], 3",
        f"{NAME} = []\n{NAME} += [{CASE}]",
        f"{NAME} = 3\n{NAME} = [{CASE}]",
        f"import numpy as np\nX = np.zeros(3)\nfor i in range(3):\n    X[i] = 1\n{NAME} = [{CASE}]",
        MERGED,
        COMPREHENDED,
        f"SIZES = [4]\n{NAME} = [{{**{CASE}, 'test_case_id': f'n{{size}}'}} for size in SIZES]",
        f"\ufeff{NAME} = [{CASE}]",
        f"A = []\nB = A\nA += [{CASE}]\n{NAME} = B",
        f"D = {CASE}\nE = D\nD |= {{'test_case_id': 'n4'}}\n{NAME} = [E]",
    ],
)
def test_every_way_to_write_a_constant_is_read(source: str) -> None:
    assert metas(source) == (META,)


def test_the_rest_of_the_file_may_do_what_it_likes() -> None:
    source = f"""\
    import os, sys
    from pathlib import Path
    ROOT = Path(__file__).resolve().parent
    sys.path.insert(0, str(ROOT))
    try:
        import yaml
    except ImportError:
        yaml = None
    with open(os.devnull) as stream:
        TEXT = stream.read()
    if os.environ.get("X"):
        N = 1
    RESULTS = []
    for _ in range(3):
        RESULTS.append(_)
    {NAME} = [{CASE}]
    class Case: pass
    def main() -> None:
        {NAME}.append(1)
    pattern = "\\d"
    """
    assert metas(source) == (META,)


def test_a_number_may_be_changed_on_the_way() -> None:
    (meta,) = metas(f"N = 1\nN += 2\n{NAME} = [{{**{CASE}, 'params': {{'n': N}}}}]")
    assert meta.params == {"n": 3}


def test_the_package_of_the_tests_is_read() -> None:
    source = valid_package().files[BENCHMARK_PATH].data
    found, told = read_metas(source)
    assert told == []
    assert [meta.test_case_id for meta in found or ()] == ["n4", "n8"]


# What cannot be read.


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            f"from cases import {NAME}",
            not_static(
                1,
                1,
                f"{NAME}, which is imported in line 1",
                "put the constants into this file",
            ),
        ),
        (
            f"import numpy as np\n\n{NAME} = [np.float32(1)]",
            not_static(
                3, 31, "np, which is imported in line 1", "put the constants into this file"
            ),
        ),
        (
            f"def case(n):\n    return n\n\n{NAME} = [case(4)]",
            not_static(
                4,
                31,
                "a call of case()",
                "put its result there as a literal, or build it by a comprehension",
            ),
        ),
        (
            f"class Case:\n    pass\n\n{NAME} = Case",
            not_static(
                4, 30, "Case, which is defined in line 1", "put the value there as a literal"
            ),
        ),
        (
            f"import json\n{NAME} = json.load(open('cases.json'))",
            not_static(
                2, 30, "json, which is imported in line 1", "put the constants into this file"
            ),
        ),
        (
            f"{NAME} = []\nfor n in (4, 8):\n    {NAME}.append(n)\n",
            not_static(
                2,
                1,
                f"a loop that changes {NAME}",
                "write one list: [{…} for name, params in CASES.items()]",
            ),
        ),
        (
            f"{NAME} = []\n{NAME}.extend([1])\n",
            not_static(
                2,
                1,
                f"a statement that changes {NAME}",
                "write one list: [{…} for name, params in CASES.items()]",
            ),
        ),
        (
            f"BASE = {{}}\nBASE['x'] = 1\n{NAME} = [BASE]\n",
            not_static(
                2,
                1,
                "a statement that changes BASE",
                "write one list: [{…} for name, params in CASES.items()]",
            ),
        ),
        (
            f"import os\nif os.environ:\n    {NAME} = [1]\nelse:\n    {NAME} = []\n",
            not_static(
                2,
                1,
                f"{NAME}, which depends on a condition in line 2",
                "assign it once, outside of if and try",
            ),
        ),
        (
            f"for N in (1, 2):\n    pass\n{NAME} = [N]\n",
            not_static(
                3,
                31,
                "N, which a loop sets in line 1",
                "write one list: [{…} for name, params in CASES.items()]",
            ),
        ),
        (
            f"with open('x') as N:\n    pass\n{NAME} = [N]\n",
            not_static(
                3,
                31,
                "N, which a statement sets that has to run, in line 1",
                "assign a literal or a comprehension",
            ),
        ),
        (
            f"N = input()\n{NAME} = [N]\n",
            not_static(1, 5, "a call of input()", "put its result there as a literal"),
        ),
        (
            f"A, B = [1]\n{NAME} = [A]\n",
            not_static(1, 1, "1 values for 2 names", "write the values out as literals"),
        ),
        (
            f"{NAME} = [x for x in range(10 ** 9)]",
            not_static(
                1,
                42,
                "more work than reading constants may take",
                "write the values out as literals",
            ),
        ),
        (
            f"try:\n    pass\nexcept OSError as {NAME}:\n    pass\n",
            not_static(
                1,
                1,
                f"{NAME}, which depends on a condition in line 1",
                "assign it once, outside of if and try",
            ),
        ),
        (
            f"{NAME} = [1]\ndel {NAME}\n",
            not_static(
                2,
                1,
                f"{NAME}, which a statement sets that has to run, in line 2",
                "assign a literal or a comprehension",
            ),
        ),
    ],
)
def test_what_has_to_run_is_refused_at_its_line_with_the_rewrite(
    source: str, expected: Problem
) -> None:
    assert only_problem(source) == expected


def test_a_file_without_metas_is_refused() -> None:
    assert only_problem("import sys\n") == Problem(
        code="metas_missing",
        message=f"{BENCHMARK_PATH} does not define {NAME}",
        file=BENCHMARK_PATH,
        found=f"no {NAME} at module level",
        expected=f"{NAME}: a list with one dict for each test case",
    )


def test_a_file_that_does_not_parse_is_refused_with_its_line() -> None:
    assert only_problem(f"{NAME} = [\n    1,\ndef main(): pass\n") == Problem(
        code="python_syntax",
        message=f"{BENCHMARK_PATH} is not Python: '[' was never closed",
        file=BENCHMARK_PATH,
        line=1,
        column=30,
        found=f"{NAME} = [",
        expected="a file that Python can compile",
    )


# What is read, and is no list of metas.


@pytest.mark.parametrize(
    ("value", "code", "found", "expected"),
    [
        ("3", "metas_not_a_list", "3", "a list of dicts"),
        (f"({CASE},)", "metas_not_a_list", "a list of 1", "a list of dicts"),
        ("{}", "metas_not_a_list", "a mapping of 0", "a list of dicts"),
        ("[]", "metas_empty", "an empty list", "at least one test case"),
    ],
)
def test_metas_are_a_list_that_is_not_empty(
    value: str, code: str, found: str, expected: str
) -> None:
    assert only_problem(f"\n{NAME} = {value}") == Problem(
        code=code,
        message=f"{NAME} is {found}; expected {expected}",
        file=BENCHMARK_PATH,
        pointer="",
        line=2,
        found=found,
        expected=expected,
    )


def test_what_json_cannot_say_is_refused_where_it_stands() -> None:
    source = f"""\
    {NAME} = [
        {{**{CASE}, "params": {{1: 2}}}},
        {{**{CASE}, "params": {{"x": [{{3}}], "y": float("nan")}}}},
    ]
    """
    assert problems(source) == [
        Problem(
            code="metas_not_json",
            message=f"{NAME}[0].params is a mapping with the key 1; expected string keys",
            file=BENCHMARK_PATH,
            pointer="/0/params",
            line=2,
            found="a mapping with the key 1",
            expected="string keys",
            hint='quote the key: "1"',
        ),
        Problem(
            code="metas_not_json",
            message=f"{NAME}[1].params.x[0] is a set; expected a value of JSON",
            file=BENCHMARK_PATH,
            pointer="/1/params/x/0",
            line=3,
            found="a set",
            expected="a value of JSON",
        ),
        Problem(
            code="non_finite_number",
            message=f"{NAME}[1].params.y is nan; expected a finite number",
            file=BENCHMARK_PATH,
            pointer="/1/params/y",
            line=3,
            found="nan",
            expected="a finite number",
        ),
    ]


def test_metas_are_bounded_in_depth_and_size() -> None:
    deep = "a = 1\n" + "a = [a]\n" * 20 + f"{NAME} = a\n"
    assert only_problem(deep).found == "nested too deeply"
    wide = "a = [1] * 10\n" + "a = [a] * 10\n" * 8 + f"{NAME} = a\n"
    assert only_problem(wide).found == "larger than metas may be"


def test_each_entry_is_held_against_its_schema_with_its_line() -> None:
    source = f"""\
    {NAME} = [
        {CASE},
        {{"test_case_id": "n 8", "params": [], "primary_metric": "t", "work": {{}},
          "metrics": [{{"name": "t", "unit": "ms", "direction": "lower"}}], "extra": 1}},
        3,
    ]
    """
    assert [(p.code, p.pointer, p.line) for p in problems(source)] == [
        ("unknown_field", "/1/extra", 3),
        ("bad_format", "/1/test_case_id", 3),
        ("wrong_type", "/1/params", 3),
        ("not_one_of", "/1/metrics/0/direction", 3),
        ("too_few", "/1/work", 3),
        ("wrong_type", "/2", 5),
    ]
    assert problems(source)[3].message == (
        f'{NAME}[1]: metrics[0].direction is "lower"; expected one of: lower_better, higher_better'
    )
    assert problems(source)[3].hint == "did you mean lower_better?"


def test_the_primary_metric_is_one_of_the_metrics() -> None:
    source = f"{NAME} = [{CASE} | {{'primary_metric': 'q'}}]"
    assert only_problem(source) == Problem(
        code="primary_metric_unknown",
        message=f'{NAME}[0].primary_metric is "q"; expected one of its metrics: t',
        file=BENCHMARK_PATH,
        pointer="/0/primary_metric",
        line=1,
        found='"q"',
        expected="one of its metrics: t",
    )


def test_a_metric_is_declared_once() -> None:
    source = f"M = {METRICS}\n{NAME} = [{CASE} | {{'metrics': M * 2}}]"
    assert only_problem(source) == Problem(
        code="duplicate_metric",
        message=f'{NAME}[0].metrics[1].name is "t" again; expected every metric once',
        file=BENCHMARK_PATH,
        pointer="/0/metrics/1/name",
        line=2,
        found='"t" again',
        expected="every metric once",
    )


def test_a_test_case_is_declared_once() -> None:
    assert only_problem(f"{NAME} = [{CASE},\n {CASE}]") == Problem(
        code="duplicate_test_case",
        message=f'{NAME}[1].test_case_id is "n4" again; expected every test case once',
        file=BENCHMARK_PATH,
        pointer="/1/test_case_id",
        line=2,
        found='"n4" again',
        expected="every test case once",
    )


# Hostile files.


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "(" * 100_000,
        "x = " + "-" * 100_000 + "1",
        "x = a" + ".b" * 100_000,
        "x = " + "lambda: " * 50_000 + "1",
        "if 1: pass\n" + "elif 1: pass\n" * 50_000,
        "x = '\0'",
    ],
)
def test_source_that_brings_parsers_down_is_a_syntax_problem(source: str) -> None:
    assert only_problem(source).code == "python_syntax"


def test_source_that_is_not_utf8_is_told_with_its_line() -> None:
    found, told = read_metas(b"# ok\n# \xe9\n")
    assert found is None
    assert [(problem.code, problem.line, problem.found) for problem in told] == [
        ("not_utf8", 2, "byte 0xe9")
    ]


def test_a_long_chain_of_names_is_followed_in_linear_time() -> None:
    chain = f"a0 = [{CASE}]\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(20_000))
    begun = time.process_time()
    assert metas(f"{chain}{NAME} = a20000\n") == (META,)
    assert time.process_time() - begun < 5


def test_a_list_that_holds_itself_is_refused() -> None:
    assert only_problem(f"A = [1]\nA += [A]\n{NAME} = A\n").code == "metas_not_json"
