"""Constants are read as Python would compute them, or not at all, and never at a price."""

from __future__ import annotations

import ast
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.static.operations import Budget, NotStatic
from kzoo_core.contract.static.values import Constants

NAMES = {
    "SIZES": {"small": (1, 16), "large": (4, 64)},
    "BASE": {"unit": "ms", "direction": "lower_better"},
    "N": 8,
    "WORDS": ["a", "b", "c"],
}


def read(expression: str) -> object:
    node = ast.parse(expression, mode="eval").body
    return Constants(dict(NAMES), Budget()).value(node)


def by_python(expression: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as "'int' object is not subscriptable"
        return eval(expression, dict(NAMES))  # noqa: S307 - Python itself is the oracle


def refusal(expression: str) -> NotStatic:
    with pytest.raises(NotStatic) as caught:
        read(expression)
    return caught.value


@pytest.mark.parametrize(
    "expression",
    [
        "1",
        "'text' \"joined\"",
        "[1, 2.5, None, True, 'x']",
        "(1, *WORDS, 2)",
        "{'a': 1, **BASE, 'unit': 'us'}",
        "{3, 1, 2} | {4}",
        "-N + 2 * 3 ** 2 - 7 // 2 + 7 % 4",
        "1 << 20 | 3 & 6 ^ 5 >> 1",
        "1 / 4 + 1e-3",
        "+N",
        "~N",
        "not N",
        "N > 3 and 'big' or 'small'",
        "0 or '' or None",
        "1 < N <= 8 != 9",
        "'a' in WORDS and 'z' not in WORDS",
        "None is None is not True",
        "3 in range(10)",
        "'yes' if N == 8 else 'no'",
        "WORDS[0] + WORDS[-1]",
        "WORDS[::-1]",
        "WORDS[1:]",
        "SIZES['small'][1]",
        "'kernel'[2]",
        "[name for name in SIZES]",
        "[f'{name}_{a}x{b:03d}' for name, (a, b) in SIZES.items() if a > 1]",
        "{name: a * b for name, (a, b) in SIZES.items()}",
        "sorted({len(word) for word in WORDS})",
        "[x * y for x in range(3) for y in range(x) if x != y]",
        "[[x for x in range(y)] for y in range(3)]",
        "list(SIZES) + list(SIZES.keys()) + list(SIZES.values())",
        "SIZES.get('none', 3)",
        "BASE.copy() | dict(unit='us', **{'x': 1})",
        "dict([('a', 1), ('b', 2)])",
        "list(zip(WORDS, range(3), strict=True))",
        "list(enumerate(WORDS, start=1))",
        "list(reversed(WORDS))",
        "tuple(x for x in WORDS)",
        "max(WORDS), min(3, 2), sum([1, 2.5]), abs(-3), round(2.567, 2), len(WORDS)",
        "sorted([3, 1, 2], reverse=True)",
        "any([0, 1]), all([]), bool('')",
        "str(3) + str(None)",
        "int('42') + int(3.9), float('1e-3')",
        'f\'{N!r:>5}|{0.5:.3f}|{N:{N}d}|{"x"!s}|{"ü"!a}\'',
        "'%s is %d of %5.2f%%' % ('x', 3, 1.5)",
        "'x' * 3 + 2 * 'y', [0] * 3",
        "'_'.join(WORDS).upper().lower()",
        "[*range(3)]",
        "10 ** 300",
        "2.0 ** -3",
    ],
)
def test_a_constant_is_what_python_makes_of_it(expression: str) -> None:
    expected = by_python(expression)
    value = read(expression)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("expression", "found", "hint"),
    [
        (
            "unknown",
            "the name unknown, which is no constant of this file",
            "assign it a literal at the top of the file, above its use",
        ),
        ("open('x')", "a call of open()", "put its result there as a literal"),
        ("__import__('os')", "a call of __import__()", "put its result there as a literal"),
        (
            "WORDS.append('d')",
            "a call of .append()",
            "use .items(), .keys(), .values(), .get(), .copy() or .join(), or write the value out",
        ),
        (
            "'{}'.format(N)",
            "a call of .format()",
            "use .items(), .keys(), .values(), .get(), .copy() or .join(), or write the value out",
        ),
        ("N.real", "an attribute", "write the value itself instead of module.name"),
        (
            "N(3)",
            "a call of N()",
            "put its result there as a literal, or build it by a comprehension",
        ),
        (
            "WORDS[0]()",
            "a call of an item of something",
            "put its result there as a literal, or build it by a comprehension",
        ),
        (
            "SIZES.get('x', default=1)",
            "a call of an attribute",
            "put its result there as a literal, or build it by a comprehension",
        ),
        ("lambda: 1", "a lambda", "write the values out, or use a comprehension"),
        ("(x := 1)", "an assignment inside an expression", "write the values out as literals"),
        ("b'bytes'", "a bytes literal", "write the values out as literals"),
        ("1j", "a complex literal", "write the values out as literals"),
        ("...", "a ellipsis literal", "write the values out as literals"),
        ("[x for x in {1, 2}]", "the order of a set", "use a list, or sorted(…)"),
        ("list({1, 2})", "the order of a set", "use a list, or sorted(…)"),
        ("f'{ {1, 2} }'", "the order of a set", "use a list, or sorted(…)"),
        ("str([{1}])", "the order of a set", "use a list, or sorted(…)"),
        ("'%s' % ({1},)", "the order of a set", "use a list, or sorted(…)"),
        ("[x for x in 5]", "a loop over a int", "write the values out as literals"),
        ("[a for a, b in [(1, 2, 3)]]", "3 values for 2 names", "write the values out as literals"),
        (
            "[0 for WORDS[0] in [1]]",
            "an assignment to an item of something",
            "write the values out as literals",
        ),
        ("{**[1]}", "** before a list", "write the values out as literals"),
        ("dict(**{1: 2})", "** before a mapping whose keys are no strings", None),
        ("1 @ 2", "an operator that constants do not need", None),
        (
            "1 // 0",
            "an operation that fails (ZeroDivisionError: integer division or modulo by zero)",
            None,
        ),
        ("SIZES['none']", "an operation that fails (KeyError: 'none')", None),
        ("WORDS + 1", "an operation that fails (TypeError: can only concatenate list)", None),
        ("{[]: 1}", "an operation that fails (TypeError: unhashable type: 'list')", None),
        ("int('x')", "an operation that fails (ValueError: invalid literal for int)", None),
        (
            "sum([[1]], [])",
            "an operation that fails (TypeError: sum() of something other than numbers)",
            None,
        ),
        ("(-8) ** 0.5", "a value of type complex", None),
        ("'%(name)s' % SIZES", "a %(name) field", "use an f-string"),
    ],
)
def test_what_only_running_could_tell_is_refused_with_what_to_write(
    expression: str, found: str, hint: str | None
) -> None:
    error = refusal(expression)
    assert error.found.rstrip(")").startswith(found.rstrip(")"))
    assert error.hint == (hint or "write the values out as literals")
    assert (error.line, error.column >= 1) == (1, True)


DEEP = "[" * 90 + "1" + "]" * 90


@pytest.mark.parametrize(
    "expression",
    [
        "[x for x in range(10 ** 12)]",
        "[0 for a in range(999) for b in range(999)]",
        "list(range(10 ** 12))",
        "1.5 in range(10 ** 12)",
        "len(range(10 ** 300))",
        "10 ** 10 ** 10",
        "1 << 10 ** 9",
        "(10 ** 300) ** 2",
        "10 ** 300 * 10 ** 300",
        "'x' * 10 ** 9",
        "[0] * 10 ** 9",
        "10 ** 9 * (0,)",
        "'x' * 60000 + 'x' * 60000",
        "[['x' * 60000] * 60000] == [['x' * 60000] * 60000]",
        "[[0] * 60000] * 60000 < [[0] * 60000] * 60000",
        "sorted([[0] * 999] * 60000)",
        "str([[0] * 60000] * 60000)",
        "f'{[[0] * 60000] * 60000}'",
        "'_'.join(['x' * 60000] * 60000)",
        "f'{1:>100000}'",
        "f'{1:{10 ** 5}}'",
        "f'{1.5:.99999f}'",
        "'%99999d' % 1",
        "'%*d' % (10 ** 9, 1)",
        "{((0,) * 60000,) * 60000: 1}",
        "{((0,) * 60000,) * 60000}",
        "hash(1)",
        "int('9' * 60000)",
        "1" + " + 1" * 200,
        "[0" + " for a in [0]" * 9 + "]",
        DEEP,
    ],
)
def test_what_would_cost_too_much_is_refused_at_once(expression: str) -> None:
    begun = time.process_time()
    refusal(expression)
    assert time.process_time() - begun < 2


NUMBERS = st.integers(-50, 50).map(str) | st.floats(-9, 9).map(repr)
TEXTS = st.text("ab{}%d", max_size=3).map(repr)
ATOMS = NUMBERS | TEXTS | st.sampled_from(["N", "WORDS", "SIZES", "None", "True", "BASE"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(
        ["+", "-", "*", "/", "//", "%", "**", "|", "==", "<", "in", "and", "or"]
    )
    functions = st.sampled_from(
        ["len", "str", "list", "tuple", "sorted", "sum", "dict", "max", "int"]
    )
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.tuples(functions, inner).map(lambda part: f"{part[0]}({part[1]})"),
        st.tuples(inner, inner).map(lambda part: f"{part[0]}[{part[1]}]"),
        st.tuples(inner, inner).map(lambda part: f"{{{part[0]}: {part[1]}}}"),
        st.tuples(inner, inner).map(lambda part: f"[{part[0]} for N in {part[1]}]"),
        st.tuples(inner, inner, inner).map(lambda part: f"({part[0]} if {part[1]} else {part[2]})"),
        inner.map(lambda part: f"-{part}"),
    )


@given(st.recursive(ATOMS, combined, max_leaves=8))
def test_any_expression_is_read_as_python_would_or_refused(expression: str) -> None:
    try:
        value = read(expression)
    except NotStatic as error:
        assert error.found  # noqa: PT017 - either outcome is right
        return
    expected = by_python(expression)
    assert repr(value) == repr(expected)
