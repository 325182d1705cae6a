"""Reads constant Python expressions from their syntax tree, running none of the code (D4)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.quoting import printable
from kzoo_core.contract.static.operations import (
    Budget,
    NotStatic,
    Unreadable,
    attempt,
    binary,
    call_function,
    call_method,
    checked,
    compare,
    formatted,
    iterate,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_DEPTH = 80
MAX_LOOPS = 8


class Constants:
    """Reads expressions in which the names of ``names`` may be used."""

    def __init__(self, names: Mapping[str, Any], budget: Budget) -> None:
        self._names = names
        self._budget = budget
        self._scopes: list[dict[str, Any]] = []
        self._depth = 0

    def value(self, node: ast.expr) -> Any:
        """Return the value of ``node``, made of Python's plain types.

        Raises ``NotStatic`` for anything whose value is known only when the file runs.
        """
        read = _READERS.get(type(node))
        if read is None:
            raise NotStatic(node, *_UNREADABLE.get(type(node), (_kind(node), None)))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotStatic(node, "an expression nested too deeply")
        self._budget.spend(node)
        try:
            return read(self, node)
        finally:
            self._depth -= 1

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bytes | complex) or node.value is ...:
            raise NotStatic(node, f"a {type(node.value).__name__} literal")
        return checked(node, node.value, self._budget)

    def _name(self, node: ast.Name) -> Any:
        for scope in reversed(self._scopes):
            if node.id in scope:
                return scope[node.id]
        if node.id not in self._names:
            raise NotStatic(
                node,
                f"the name {printable(node.id)}, which is no constant of this file",
                "assign it a literal at the top of the file, above its use",
            )
        value = self._names[node.id]
        if isinstance(value, Unreadable):
            raise NotStatic(node, f"{printable(node.id)}, {value.what}", value.hint)
        if isinstance(value, NotStatic):
            raise value
        return value

    def _list(self, node: ast.List) -> list[Any]:
        return list(self._items(node.elts))

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _set(self, node: ast.Set) -> set[Any]:
        items = list(self._items(node.elts))
        self._budget.spend_on(node, items)
        made: set[Any] = attempt(node, set, items)
        return made

    def _items(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from iterate(node, self.value(node.value), self._budget)
            else:
                yield self.value(node)

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                attempt(value, made.update, self._mapping(value))
            else:
                self._put(key, made, self.value(key), self.value(value))
        return made

    def _mapping(self, node: ast.expr) -> dict[Any, Any]:
        value = self.value(node)
        if not isinstance(value, dict):
            raise NotStatic(node, f"** before a {type(value).__name__}")
        self._budget.spend(node, len(value))
        return value

    def _put(self, node: ast.AST, made: dict[Any, Any], key: Any, value: Any) -> None:
        self._budget.spend_on(node, key)
        attempt(node, made.__setitem__, key, value)

    def _binary(self, node: ast.BinOp) -> Any:
        return binary(node, self.value(node.left), self.value(node.right), self._budget)

    def _unary(self, node: ast.UnaryOp) -> Any:
        return unary(node, self.value(node.operand))

    def _boolean(self, node: ast.BoolOp) -> Any:
        value = self.value(node.values[0])
        for other in node.values[1:]:
            if bool(value) is isinstance(node.op, ast.Or):
                break
            value = self.value(other)
        return value

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for operation, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            if not compare(node, type(operation), left, right, self._budget):
                return False
            left = right
        return True

    def _choice(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        container = self.value(node.value)
        key = (
            self._slice(node.slice) if isinstance(node.slice, ast.Slice) else self.value(node.slice)
        )
        self._budget.spend_on(node, key if not isinstance(key, slice) else None)
        return checked(node, attempt(node, lambda: container[key]), self._budget)

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(self.value(part) if part is not None else None for part in parts))

    def _fstring(self, node: ast.JoinedStr) -> str:
        text = "".join(str(self.value(part)) for part in node.values)
        checked(node, text, self._budget)
        return text

    def _field(self, node: ast.FormattedValue) -> str:
        spec = self.value(node.format_spec) if node.format_spec is not None else ""
        return formatted(node, self.value(node.value), node.conversion, spec, self._budget)

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name):
            name = node.func.id
            if name in self._names or any(name in scope for scope in self._scopes):
                raise NotStatic(node, f"a call of {printable(name)}()", _CALL_HINT)
            args = list(self._items(node.args))
            return call_function(node, name, args, self._options(node), self._budget)
        if isinstance(node.func, ast.Attribute) and not node.keywords:
            receiver = self.value(node.func.value)
            args = list(self._items(node.args))
            return call_method(node, receiver, node.func.attr, args, self._budget)
        raise NotStatic(node, f"a call of {_kind(node.func)}", _CALL_HINT)

    def _options(self, node: ast.Call) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                options.update(self._mapping(keyword.value))
            else:
                options[keyword.arg] = self.value(keyword.value)
        if not all(isinstance(name, str) for name in options):
            raise NotStatic(node, "** before a mapping whose keys are no strings")
        return options

    def _list_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        made: list[Any] = []
        self._loop(node.generators, lambda: made.append(self.value(node.elt)))
        return made

    def _set_comprehension(self, node: ast.SetComp) -> set[Any]:
        made: set[Any] = set()

        def add() -> None:
            item = self.value(node.elt)
            self._budget.spend_on(node, item)
            attempt(node, made.add, item)

        self._loop(node.generators, add)
        return made

    def _dict_comprehension(self, node: ast.DictComp) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self._loop(
            node.generators,
            lambda: self._put(node, made, self.value(node.key), self.value(node.value)),
        )
        return made

    def _loop(self, generators: list[ast.comprehension], body: Callable[[], None]) -> None:
        if not generators:
            body()
            return
        if len(generators) > MAX_LOOPS:
            raise NotStatic(generators[0].target, "a comprehension of too many loops")
        first, *rest = generators
        for item in iterate(first.iter, self.value(first.iter), self._budget):
            scope: dict[str, Any] = {}
            bind(first.target, item, scope, self._budget)
            self._scopes.append(scope)
            try:
                if all(self.value(condition) for condition in first.ifs):
                    self._loop(rest, body)
            finally:
                self._scopes.pop()


def bind(target: ast.expr, value: Any, scope: dict[str, Any], budget: Budget) -> None:
    """Assign ``value`` to a name or to a tuple of names; raises ``NotStatic`` for other targets."""
    if isinstance(target, ast.Name):
        scope[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise NotStatic(target, f"an assignment to {_kind(target)}")
    values = list(iterate(target, value, budget))
    if len(values) != len(target.elts):
        raise NotStatic(target, f"{len(values)} values for {len(target.elts)} names")
    for part, item in zip(target.elts, values, strict=True):
        bind(part, item, scope, budget)


def _kind(node: ast.AST) -> str:
    return _KINDS.get(type(node), f"a {type(node).__name__}")


_CALL_HINT = "put its result there as a literal, or build it by a comprehension"

_KINDS: Mapping[type[ast.AST], str] = {
    ast.Attribute: "an attribute",
    ast.Await: "an await",
    ast.Call: "a call's result",
    ast.Lambda: "a lambda",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Starred: "a starred name",
    ast.Subscript: "an item of something",
    ast.Yield: "a yield",
}

_UNREADABLE: Mapping[type[ast.AST], tuple[str, str | None]] = {
    ast.Attribute: ("an attribute", "write the value itself instead of module.name"),
    ast.Lambda: ("a lambda", "write the values out, or use a comprehension"),
}

_READERS: Mapping[type[ast.expr], Callable[[Constants, Any], Any]] = {
    ast.BinOp: Constants._binary,
    ast.BoolOp: Constants._boolean,
    ast.Call: Constants._call,
    ast.Compare: Constants._compare,
    ast.Constant: Constants._constant,
    ast.Dict: Constants._dict,
    ast.DictComp: Constants._dict_comprehension,
    ast.FormattedValue: Constants._field,
    ast.GeneratorExp: Constants._list_comprehension,
    ast.IfExp: Constants._choice,
    ast.JoinedStr: Constants._fstring,
    ast.List: Constants._list,
    ast.ListComp: Constants._list_comprehension,
    ast.Name: Constants._name,
    ast.Set: Constants._set,
    ast.SetComp: Constants._set_comprehension,
    ast.Subscript: Constants._subscript,
    ast.Tuple: Constants._tuple,
    ast.UnaryOp: Constants._unary,
}
