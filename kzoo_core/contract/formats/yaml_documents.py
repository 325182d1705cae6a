"""YAML as this product reads and writes it (D8): what libyaml's safe loader says, and less.

PyYAML keeps the last of two equal keys, expands aliases without end and takes ``on`` for a key of
type bool. Those are found in the node graph before a value is made of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import yaml
from yaml.constructor import SafeConstructor

from kzoo_core.clock import format_time
from kzoo_core.contract.quoting import printable
from kzoo_core.contract.schema_problems import Place
from kzoo_core.errors import BadInput, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

LOADER = yaml.CSafeLoader
"""The one loader: what it says a document means is what it means."""

MAX_DEPTH = 32
MAX_ALIAS_GROWTH = 10_000
"""Nodes that a document may gain by writing its aliases out."""

_STRING_TAG = "tag:yaml.org,2002:str"
_MERGE_TAG = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A loaded value, and where each part of it stands."""

    value: object
    root: yaml.Node | None

    def locate(self, path: Sequence[str | int]) -> Place | None:
        """Return the place of the value at ``path``, or of the nearest one above it."""
        node = self.root
        mark = node.start_mark if node is not None else None
        for part in path:
            step = _child(node, part)
            if step is None:
                node = None
                break
            mark, node = step
        if mark is None:
            return None
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        return Place(mark.line + 1, mark.column + 1, text)


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        pairs = ((key, value) for key, value in node.value if key.value == part)
        found = next(pairs, None)
        return (found[0].start_mark, found[1]) if found else None
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    return None


def load_yaml(data: bytes, file: str) -> object:
    """Return the value of the one document in ``data``; ``file`` names it in problems.

    Times written without quotes come as ``datetime``. Raises ``BadInput`` (``VALIDATION_ERROR``)
    with every problem: not UTF-8, not YAML, tabs, several documents, a key given twice, a key that
    is no string, aliases that grow, nesting deeper than 32, a tag or value of no plain type.
    """
    return load_yaml_document(data, file).value


def load_yaml_document(data: bytes, file: str) -> YamlDocument:
    """Like ``load_yaml``, keeping where each value stands."""
    loader = LOADER(_utf8(data, file))
    try:
        root = loader.get_single_node()
        if root is None:
            return YamlDocument(None, None)
        problems = _Graph(file).problems(root)
        if problems:
            raise _refused(file, problems)
        return YamlDocument(_construct(loader, root, file), root)
    except yaml.YAMLError as error:
        raise _refused(file, [_syntax_problem(error, data, file)]) from error
    finally:
        loader.dispose()


def _utf8(data: bytes, file: str) -> bytes:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = Problem(
            code="not_utf8",
            message=f"{file} is not UTF-8 at byte {error.start}",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
            found=f"byte 0x{data[error.start]:02x}",
            expected="UTF-8 text",
        )
        raise _refused(file, [problem]) from error
    return data


def _construct(loader: yaml.CSafeLoader, root: yaml.Node, file: str) -> object:
    try:
        value: object = loader.construct_document(root)
    except ValueError as error:  # a scalar that looks like a time or a number and is none
        node = _unreadable(root)
        problem = Problem(
            code="yaml_value",
            message=f"{file} holds the value {printable(node.value)}: {printable(str(error))}",
            file=file,
            line=node.start_mark.line + 1,
            column=node.start_mark.column + 1,
            found=printable(node.value),
            expected="times and numbers that exist",
            hint="quote it if it is meant as text",
        )
        raise _refused(file, [problem]) from error
    return value


def _unreadable(root: yaml.Node) -> yaml.ScalarNode:
    """Return the scalar whose construction raises ``ValueError``."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            waiting.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.ScalarNode):
            try:
                SafeConstructor().construct_object(node)
            except ValueError:
                return node
    raise AssertionError("a value could not be constructed, yet each of its scalars can")


def _refused(file: str, problems: list[Problem]) -> BadInput:
    return BadInput(
        "VALIDATION_ERROR",
        problems[0].message if len(problems) == 1 else f"{file} has {len(problems)} problems",
        hint=problems[0].hint,
        details=tuple(problems),
    )


def _syntax_problem(error: yaml.YAMLError, data: bytes, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = printable(str(getattr(error, "problem", None) or error))
    code, hint = "yaml_syntax", None
    if mark is not None and _indented_by_tab(data, mark.line):
        code, hint = "yaml_tab", "indent with spaces: YAML allows no tabs there"
        what = f"a tab indents the line ({what})"
    elif "expected a single document" in str(error):
        code, hint = "yaml_documents", "keep one document in the file: remove the second '---'"
        what = "a second document begins"
    elif "could not determine a constructor" in what:
        code, hint = "yaml_tag", "write plain mappings, lists, strings and numbers, without tags"
    return Problem(
        code=code,
        message=f"{file} is not YAML that can be read: {what}",
        file=file,
        line=mark.line + 1 if mark is not None else None,
        column=mark.column + 1 if mark is not None else None,
        found=what,
        expected="one YAML document",
        hint=hint,
    )


def _indented_by_tab(data: bytes, line: int) -> bool:
    lines = data.split(b"\n", line + 1)
    text = lines[line] if line < len(lines) else b""
    return b"\t" in text[: len(text) - len(text.lstrip())]


class _Graph:
    """What one walk over a node graph finds; shared nodes are walked once."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []
        self._seen: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def problems(self, root: yaml.Node) -> list[Problem]:
        """Return every problem of the document."""
        size, _ = self._walk(root, 1)
        growth = size - len(self._seen)
        if growth > MAX_ALIAS_GROWTH:
            self._add(
                root,
                "yaml_alias_growth",
                "has aliases that grow out of bounds",
                found=f"{min(growth, 10**9)} nodes more when written out",
                expected=f"at most {MAX_ALIAS_GROWTH}",
                hint="write the values out where they are used",
            )
        return self._problems

    def _walk(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        """Return the number of nodes below ``node`` with aliases written out, and its height."""
        if id(node) in self._open:
            self._add(
                node,
                "yaml_alias_growth",
                "has an alias inside the value that it names",
                found="a value that contains itself",
                expected="values that end",
            )
            return 1, 1
        known = self._seen.get(id(node))
        if known is None:
            known = self._measure(node, depth)
            self._seen[id(node)] = known
        elif depth + known[1] > MAX_DEPTH:
            self._too_deep(node)
        return known

    def _measure(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if depth > MAX_DEPTH:
            self._too_deep(node)
            return 1, 0
        self._open.add(id(node))
        children = self._keys(node) if isinstance(node, yaml.MappingNode) else node.value
        size, height = 1, 0
        for child in children:
            below, tall = self._walk(child, depth + 1)
            size, height = size + below, max(height, tall + 1)
        self._open.discard(id(node))
        return size, height

    def _keys(self, node: yaml.MappingNode) -> list[yaml.Node]:
        """Check the keys of a mapping and return its values."""
        names: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if key.tag not in (_STRING_TAG, _MERGE_TAG):
                self._key_of_other_type(key)
                continue
            first = names.setdefault(key.value, key)
            if first is not key:
                line = first.start_mark.line + 1
                self._add(
                    key,
                    "yaml_duplicate_key",
                    f"gives the key {printable(key.value)} twice",
                    found=f"{printable(key.value)} again, first in line {line}",
                    expected="every key once",
                    hint="keep one of the two",
                )
        return [value for _, value in node.value]

    def _key_of_other_type(self, key: yaml.Node) -> None:
        scalar = isinstance(key, yaml.ScalarNode)
        text = printable(key.value) if scalar else "a list or mapping"
        self._add(
            key,
            "yaml_key",
            f"has the key {text}, which is no string",
            found=f"{text}, read as {key.tag.rpartition(':')[2]}",
            expected="keys that are strings",
            hint=f'quote it: "{text}"' if scalar else None,
        )

    def _too_deep(self, node: yaml.Node) -> None:
        if not any(problem.code == "yaml_depth" for problem in self._problems):
            self._add(
                node,
                "yaml_depth",
                "is nested too deeply",
                found=f"more than {MAX_DEPTH} levels",
                expected=f"at most {MAX_DEPTH} levels",
            )

    def _add(
        self,
        node: yaml.Node,
        code: str,
        what: str,
        *,
        found: str,
        expected: str,
        hint: str | None = None,
    ) -> None:
        self._problems.append(
            Problem(
                code=code,
                message=f"{self._file} {what}",
                file=self._file,
                line=node.start_mark.line + 1,
                column=node.start_mark.column + 1,
                found=found,
                expected=expected,
                hint=hint,
            )
        )


_QUOTED = re.compile(r"[0-9a-f]{7,64}|\d{4}-\d{2}-\d{2}.*|\d+\.\d+\.\d+", re.ASCII)


class _Dumper(yaml.CSafeDumper):
    """Writes times, object names and versions in quotes: every YAML reads them as strings."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _represent_string(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _QUOTED.fullmatch(text) else None
    return dumper.represent_scalar(_STRING_TAG, text, style=style)


def _represent_time(dumper: yaml.CSafeDumper, moment: datetime) -> yaml.ScalarNode:
    return dumper.represent_scalar(_STRING_TAG, format_time(moment), style='"')


_Dumper.add_representer(str, _represent_string)
_Dumper.add_representer(datetime, _represent_time)


def dump_yaml(value: object) -> bytes:
    """Return ``value`` as YAML, keys in the order given; the same value gives the same bytes."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return text.encode("utf-8")
