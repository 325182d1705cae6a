"""Follows one module-level name through a file's assignments to its constant value (D4).

Only what the name depends on is read: the rest of the file may import, compute and open what it
likes. Where a needed name is changed by code that would have to run, reading stops at that line.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.static.operations import Budget, NotStatic, Unreadable, binary
from kzoo_core.contract.static.values import Constants, bind

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHANGING_METHODS = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_bound(tree: ast.Module, name: str) -> bool:
    """Whether any statement at module level gives ``name`` a value."""
    return any(name in _bound(statement) for statement in tree.body)


def constant(tree: ast.Module, name: str) -> Any:
    """Return the value that ``name`` has at the end of the module, in plain types.

    The name has to be bound. Raises ``NotStatic`` at the line that cannot be read without running
    the file.
    """
    bound = [(statement, _bound(statement)) for statement in tree.body]
    needed = _needed(bound, name)
    budget = Budget()
    names: dict[str, Any] = {}
    for statement, own in bound:
        changed = _changed(statement) & needed
        if changed:
            raise _changes(statement, min(changed))
        if own & needed:
            _assign(statement, own & needed, names, budget)
    return Constants(names, budget).value(_use(bound, name))


def _use(bound: list[tuple[ast.stmt, set[str]]], name: str) -> ast.Name:
    """Return the name as an expression, standing where the module last bound it."""
    last = next(statement for statement, own in reversed(bound) if name in own)
    return ast.copy_location(ast.Name(name, ast.Load()), last)


def last_assignment(tree: ast.Module, name: str) -> ast.expr | None:
    """Return the expression that was last assigned to ``name`` alone at module level."""
    found = None
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            found = statement.value
    return found


def _needed(bound: list[tuple[ast.stmt, set[str]]], name: str) -> set[str]:
    """Return ``name`` and every name that its value is made of."""
    binding: dict[str, list[ast.stmt]] = {}
    for statement, own in bound:
        for one in own:
            binding.setdefault(one, []).append(statement)
    needed: set[str] = set()
    seen: set[int] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in needed:
            continue
        needed.add(current)
        for statement in binding.get(current, ()):
            if id(statement) not in seen:
                seen.add(id(statement))
                waiting.extend(_loaded(statement))
    return needed


def _assign(statement: ast.stmt, own: set[str], names: dict[str, Any], budget: Budget) -> None:
    """Take one statement's names in; what cannot be read is kept as what using it says."""
    constants = Constants(names, budget)
    try:
        if isinstance(statement, ast.Assign):
            value = constants.value(statement.value)
            for target in statement.targets:
                bind(target, value, names, budget)
        elif isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                bind(statement.target, constants.value(statement.value), names, budget)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            _augment(statement, statement.target, constants, names, budget)
        else:
            names.update(dict.fromkeys(own, _unreadable(statement)))
    except NotStatic as error:
        names.update(dict.fromkeys(own, error))


def _augment(
    statement: ast.AugAssign,
    target: ast.Name,
    constants: Constants,
    names: dict[str, Any],
    budget: Budget,
) -> None:
    left = constants.value(ast.copy_location(ast.Name(target.id, ast.Load()), target))
    result = binary(statement, left, constants.value(statement.value), budget)
    if isinstance(left, list) and isinstance(result, list):
        left[:] = result  # in place, as Python does: other names for the list see it
    elif isinstance(left, dict) and isinstance(result, dict):
        left.update(result)
    else:
        names[target.id] = result


def _unreadable(statement: ast.stmt) -> Unreadable:
    line = f"in line {statement.lineno}"
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return Unreadable(f"which is imported {line}", "put the constants into this file")
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return Unreadable(f"which is defined {line}", "put the value there as a literal")
    if isinstance(statement, ast.For | ast.While):
        return Unreadable(f"which a loop sets {line}", _COMPREHENSION_HINT)
    if isinstance(statement, ast.If | ast.Try):
        hint = "assign it once, outside of if and try"
        return Unreadable(f"which depends on a condition {line}", hint)
    hint = "assign a literal or a comprehension"
    return Unreadable(f"which a statement sets that has to run, {line}", hint)


_COMPREHENSION_HINT = "write one list: [{…} for name, params in CASES.items()]"


def _changes(statement: ast.stmt, name: str) -> NotStatic:
    if isinstance(statement, ast.For | ast.While):
        return NotStatic(statement, f"a loop that changes {name}", _COMPREHENSION_HINT)
    return NotStatic(statement, f"a statement that changes {name}", _COMPREHENSION_HINT)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that running ``statement`` gives a value at module level."""
    names: set[str] = set()
    for node in _module_level(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def _changed(statement: ast.stmt) -> set[str]:
    """Return the names whose values ``statement`` changes in place."""
    names: set[str] = set()
    for node in _module_level(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names |= _root(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGING_METHODS
        ):
            names |= _root(node.func)
    return names


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _loaded(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _module_level(statement: ast.stmt) -> Iterator[ast.AST]:
    """Walk a statement, but not into scopes of its own."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _OWN_SCOPE):
            continue
        if isinstance(node, _COMPREHENSIONS):
            continue
        waiting.extend(ast.iter_child_nodes(node))
