"""The operations that reading a constant may need, each bounded in what it costs (D4).

Everything a hostile expression could make large is checked before it is made: lengths, digits,
exponents, field widths, and walks through values that share their parts.
"""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_STEPS = 200_000
MAX_LENGTH = 65_536
"""Characters of a string, items of a container."""
MAX_INT_BITS = 1_100
"""A little more than the largest double has."""

_WRITE_OUT = "write the values out as literals"
_SET_HINT = "use a list, or sorted(…)"


class NotStatic(Exception):
    """An expression that cannot be read without running the file: where, what, what instead."""

    def __init__(self, node: ast.AST, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.line: int = getattr(node, "lineno", 1)
        self.column: int = getattr(node, "col_offset", 0) + 1
        self.found = found
        self.hint = hint or _WRITE_OUT


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a name is bound to when only running the file could tell its value."""

    what: str
    hint: str


class Budget:
    """The steps that are left for all the expressions of one file."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._exhausted: NotStatic | None = None

    def spend(self, node: ast.AST, steps: int = 1) -> None:
        """Take ``steps`` off; when that is more than are left, raise ``NotStatic`` for good.

        What comes later raises it too, with the place where the steps went.
        """
        self._left -= steps
        if self._left < 0:
            if self._exhausted is None:
                self._exhausted = NotStatic(node, "more work than reading constants may take")
            raise self._exhausted

    def spend_on(
        self, node: ast.AST, value: object, *, times: int = 1, ordered: bool = False
    ) -> None:
        """Take off what walking through ``value`` costs, shared parts at each of their places.

        With ``ordered``, a set in it raises ``NotStatic``: its order is another in every run.
        """
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                self.spend(node, times * (1 + len(item) // 8))
            elif isinstance(item, dict):
                self.spend(node, times * (1 + 2 * len(item)))
                waiting.extend(item)
                waiting.extend(item.values())
            elif isinstance(item, list | tuple | set):
                if ordered and isinstance(item, set):
                    raise NotStatic(node, "the order of a set", _SET_HINT)
                self.spend(node, times * (1 + len(item)))
                waiting.extend(item)
            else:
                self.spend(node, times)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "dict": dict,
    "enumerate": lambda *args, **options: list(enumerate(*args, **options)),
    "float": float,
    "int": int,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "range": range,
    "reversed": lambda sequence: list(reversed(sequence)),
    "round": round,
    "set": set,
    "sorted": sorted,
    "str": str,
    "sum": lambda numbers, start=0: sum(_numbers(numbers), start),
    "tuple": tuple,
    "zip": lambda *args, strict=False: list(zip(*args, strict=strict)),
}

_METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    dict: {
        "items": lambda mapping: list(mapping.items()),
        "keys": list,
        "values": lambda mapping: list(mapping.values()),
        "get": dict.get,
        "copy": dict.copy,
    },
    list: {"copy": list.copy},
    str: {"join": str.join, "lower": str.lower, "upper": str.upper},
}

_SIGNS: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

_CONVERSIONS: Mapping[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}

_ANY_ORDER = frozenset({"all", "any", "bool", "len", "max", "min", "set", "sorted", "sum"})
"""Functions whose result does not depend on the order of what they are given."""

_PERCENT_FIELD = re.compile(r"%[^%a-zA-Z]*")
_DIGITS = re.compile(r"\d+")

_FAILURES = (TypeError, ValueError, ArithmeticError, LookupError, RecursionError)


def binary(node: ast.BinOp | ast.AugAssign, left: Any, right: Any, budget: Budget) -> Any:
    """Return ``left <op> right``; raises ``NotStatic`` for what cannot be done, or is too large."""
    kind = type(node.op)
    _check_size(node, kind, left, right)
    if isinstance(left, str) and kind is ast.Mod:
        _check_percent(node, left)
        budget.spend_on(node, right, ordered=True)
    result = attempt(node, _ARITHMETIC.get(kind), left, right)
    return checked(node, result, budget)


def unary(node: ast.UnaryOp, operand: Any) -> Any:
    """Return ``<op> operand``."""
    return attempt(node, _SIGNS[type(node.op)], operand)


def compare(node: ast.AST, kind: type[ast.cmpop], left: Any, right: Any, budget: Budget) -> bool:
    """Return whether ``left <op> right`` holds."""
    budget.spend_on(node, left)
    right = _unrolled(node, right, budget)
    budget.spend_on(node, right)
    return bool(attempt(node, _COMPARISONS[kind], left, right))


def call_function(
    node: ast.Call, name: str, args: list[Any], options: dict[str, Any], budget: Budget
) -> Any:
    """Return what one of Python's own functions gives; raises ``NotStatic`` for any other."""
    function = _FUNCTIONS.get(name)
    if function is None:
        raise NotStatic(node, f"a call of {printable(name)}()", "put its result there as a literal")
    for arg in [*args, *options.values()]:
        times = 16 if name == "sorted" else 1
        budget.spend_on(node, arg, times=times, ordered=name not in _ANY_ORDER)
    if name != "len":
        args = [_unrolled(node, arg, budget) for arg in args]
    return checked(node, attempt(node, function, *args, **options), budget)


def call_method(node: ast.Call, receiver: Any, name: str, args: list[Any], budget: Budget) -> Any:
    """Return what a method of a dict, list or string gives, if it is one that changes nothing."""
    method = _METHODS.get(type(receiver), {}).get(name)
    if method is None:
        raise NotStatic(
            node,
            f"a call of .{printable(name)}()",
            "use .items(), .keys(), .values(), .get(), .copy() or .join(), or write the value out",
        )
    for arg in [receiver, *args]:
        budget.spend_on(node, arg, ordered=True)
    return checked(node, attempt(node, method, receiver, *args), budget)


def formatted(node: ast.AST, value: Any, conversion: int, spec: str, budget: Budget) -> str:
    """Return one field of an f-string."""
    _check_widths(node, spec)
    budget.spend_on(node, value, ordered=True)
    if conversion in _CONVERSIONS:
        value = attempt(node, _CONVERSIONS[conversion], value)
    text: str = checked(node, attempt(node, format, value, spec), budget)
    return text


def iterate(node: ast.AST, value: Any, budget: Budget) -> Iterator[Any]:
    """Give the items of a container, each for one step; raises ``NotStatic`` for anything else."""
    if isinstance(value, set):
        raise NotStatic(node, "the order of a set", _SET_HINT)
    if not isinstance(value, list | tuple | dict | range | str):
        raise NotStatic(node, f"a loop over a {type(value).__name__}")
    for item in value:
        budget.spend(node)
        yield item


def attempt(node: ast.AST, operation: Callable[..., Any] | None, *args: Any, **options: Any) -> Any:
    """Call ``operation``; what it raises becomes ``NotStatic`` at ``node``."""
    if operation is None:
        raise NotStatic(node, "an operator that constants do not need")
    try:
        return operation(*args, **options)
    except _FAILURES as error:
        what = f"an operation that fails ({type(error).__name__}: {printable(str(error))})"
        raise NotStatic(node, what) from error


def checked(node: ast.AST, value: Any, budget: Budget) -> Any:
    """Return ``value`` if it is of a plain type and within bounds."""
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise NotStatic(node, f"a whole number of {value.bit_length()} bits")
    elif isinstance(value, str | list | tuple | set | dict):
        if len(value) > MAX_LENGTH:
            raise NotStatic(node, f"a {type(value).__name__} of {len(value)} items")
        budget.spend(node, 1 + len(value) // (8 if isinstance(value, str) else 1))
    elif not isinstance(value, float | range | None):
        raise NotStatic(node, f"a value of type {type(value).__name__}")
    return value


def _unrolled(node: ast.AST, value: Any, budget: Budget) -> Any:
    return list(iterate(node, value, budget)) if isinstance(value, range) else value


def _check_size(node: ast.AST, kind: type[ast.operator], left: Any, right: Any) -> None:
    """Refuse what would be large before it is made."""
    if isinstance(left, int) and isinstance(right, int):
        bits, other = left.bit_length(), abs(right)
        grown = {ast.Pow: bits * other, ast.LShift: bits + other}.get(kind, 0)
        if grown > 2 * MAX_INT_BITS:  # estimated from above; the result itself is measured
            raise NotStatic(node, "a whole number beyond a double")
    if kind is ast.Mult:
        for sequence, times in ((left, right), (right, left)):
            repeated = isinstance(sequence, str | list | tuple) and isinstance(times, int)
            if repeated and len(sequence) * times > MAX_LENGTH:
                raise NotStatic(node, f"a {type(sequence).__name__} repeated {times} times")


def _check_percent(node: ast.AST, text: str) -> None:
    for field in _PERCENT_FIELD.findall(text):
        if "(" in field:
            raise NotStatic(node, "a %(name) field", "use an f-string")
        _check_widths(node, field)


def _check_widths(node: ast.AST, spec: str) -> None:
    if "*" in spec or any(len(digits) > 3 for digits in _DIGITS.findall(spec)):
        raise NotStatic(node, "a text field wider than any text needs")


def _numbers(values: Any) -> list[int | float]:
    items = list(values)
    if not all(isinstance(item, int | float) for item in items):
        raise TypeError("sum() of something other than numbers")
    return items
