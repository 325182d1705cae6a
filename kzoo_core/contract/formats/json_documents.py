"""JSON as this product reads it (D15): exactly one document, and nothing that JSON does not have.

Python's ``json`` takes ``NaN`` and keeps the last of two equal keys; both are refused here, and the
error quotes the place, because an author sees only it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.quoting import EXCERPT_CHARACTERS, printable
from kzoo_core.errors import BadInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64

_SPACE = " \t\n\r"
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_COLON = re.compile(r"[ \t\n\r]*:")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_PLAIN_INT = 300
"""Digits up to which a whole number surely fits a double."""


class NotOneDocument(BadInput):
    """The bytes are not exactly one JSON document."""


class NonFiniteNumber(BadInput):
    """The document holds NaN, an infinity or a number beyond a double."""


def load_json(data: bytes, *, max_bytes: int) -> object:
    """Return the value of the one JSON document in ``data``.

    Raises ``NotOneDocument`` (``NOT_ONE_JSON_DOCUMENT``: empty, larger than ``max_bytes``, not
    UTF-8, bad syntax, stray text, a second document, a key given twice, deeper than 64) and
    ``NonFiniteNumber`` (``NON_FINITE_NUMBER``); their one problem says line, column and what stands
    there. What is no JSON at all is said before a number that is not finite.
    """
    text = _text(data, max_bytes)
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text):
        raise _not_json("json_empty", "there is no document", found="nothing")
    reader = _Reader()
    value, end = _decode(reader, text, start)
    rest = len(text) - len(text[end:].lstrip(_SPACE))
    if rest < len(text):
        raise _behind(text, rest)
    if reader.duplicate is not None:
        raise _at(
            text,
            _second_key(text),
            "json_duplicate_key",
            f"the key {printable(reader.duplicate)} is given twice",
            expected="every key once",
        )
    _check_shape(value)
    if reader.non_finite:
        raise _non_finite(text)
    return value


def _text(data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise _not_json(
            "json_too_large",
            f"the document has {len(data)} bytes",
            found=f"{len(data)} bytes",
            expected=f"at most {max_bytes} bytes",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_json(
            "not_utf8",
            f"the document is not UTF-8 at byte {error.start}",
            found=f"byte 0x{data[error.start]:02x}",
            expected="UTF-8 text",
        ) from error


class _Reader:
    """The decoder's hooks: they note what JSON does not have and let the reading go on."""

    def __init__(self) -> None:
        self.duplicate: str | None = None
        self.non_finite = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._mapping,
            parse_float=self._float,
            parse_int=self._int,
            parse_constant=self._constant,
        )

    def read(self, text: str, start: int) -> tuple[object, int]:
        """Decode the document that begins at ``start``; return it and where it ends."""
        return self._decoder.raw_decode(text, start)

    def _mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs) and self.duplicate is None:
            self.duplicate = _first_repeated([name for name, _ in pairs])
        return mapping

    def _float(self, text: str) -> float:
        value = float(text)
        self.non_finite |= math.isinf(value)
        return value

    def _int(self, text: str) -> float:
        if len(text) > _LONGEST_PLAIN_INT and math.isinf(float(text)):
            self.non_finite = True
            return math.inf
        return int(text)

    def _constant(self, text: str) -> float:
        self.non_finite = True
        return float(text.replace("Infinity", "inf"))


def _first_repeated(names: list[str]) -> str:
    times = Counter(names)
    return next(name for name in names if times[name] > 1)


def _decode(reader: _Reader, text: str, start: int) -> tuple[object, int]:
    try:
        return reader.read(text, start)
    except json.JSONDecodeError as error:
        if error.pos > start:
            raise _at(text, error.pos, "json_syntax", f"the JSON breaks: {error.msg}") from error
        mark = text.startswith("\ufeff")
        what = "a byte order mark" if mark else "text that is no JSON"
        raise _at(text, start, "json_stray_text", f"the document begins with {what}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _behind(text: str, rest: int) -> NotOneDocument:
    if text[rest] in "{[":
        return _at(text, rest, "json_two_documents", "a second document follows the first")
    return _at(text, rest, "json_stray_text", "text follows the document")


def _check_shape(value: object) -> None:
    """Refuse what later steps cannot carry: deep nesting, and text that UTF-8 cannot write."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str) and _SURROGATE.search(item):
                raise _not_json(
                    "json_syntax",
                    "a string holds half of a surrogate pair",
                    found=printable(ascii(item)),
                    expected="text that UTF-8 can write",
                )
        if not below:
            return
        level = below
    raise _too_deep()


def _too_deep() -> NotOneDocument:
    return _not_json(
        "json_depth",
        "the document is nested too deeply",
        found=f"more than {MAX_DEPTH} levels",
        expected=f"at most {MAX_DEPTH} levels",
    )


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return _TOKEN.finditer(text)


def _second_key(text: str) -> int:
    """Return where the first key that was there before stands, in text whose syntax is good."""
    scopes: list[set[str]] = []
    for token in _tokens(text):
        word = token[0]
        if word in "{[":
            scopes.append(set())
        elif word in "}]":
            scopes.pop()
        elif word[0] == '"' and _COLON.match(text, token.end()):
            key = json.loads(word)
            if key in scopes[-1]:
                return token.start()
            scopes[-1].add(key)
    raise AssertionError("a key is given twice, yet no second one is there")


def _non_finite(text: str) -> NonFiniteNumber:
    token = next(token for token in _tokens(text) if _is_non_finite(token[0]))
    line, column = _line_and_column(text, token.start())
    problem = Problem(
        code="non_finite_number",
        message=f"the document holds {printable(token[0], 40)} in line {line}, column {column}",
        line=line,
        column=column,
        found=_excerpt(text, token.start()),
        expected="finite numbers",
    )
    return NonFiniteNumber("NON_FINITE_NUMBER", problem.message, details=(problem,))


def _is_non_finite(word: str) -> bool:
    if word in {"NaN", "Infinity", "-Infinity"}:
        return True
    return word[0] in "-0123456789" and math.isinf(float(word))


def _at(
    text: str,
    position: int,
    code: str,
    what: str,
    *,
    expected: str = "exactly one JSON document",
) -> NotOneDocument:
    line, column = _line_and_column(text, position)
    return _not_json(
        code,
        f"{what} in line {line}, column {column}",
        found=_excerpt(text, position),
        expected=expected,
        line=line,
        column=column,
    )


def _not_json(
    code: str,
    message: str,
    *,
    found: str,
    expected: str = "exactly one JSON document",
    line: int | None = None,
    column: int | None = None,
) -> NotOneDocument:
    problem = Problem(
        code=code,
        message=message,
        line=line,
        column=column,
        found=found,
        expected=expected,
    )
    return NotOneDocument("NOT_ONE_JSON_DOCUMENT", message, details=(problem,))


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _excerpt(text: str, position: int) -> str:
    start = max(0, position - EXCERPT_CHARACTERS // 4)
    return printable(text[start : start + EXCERPT_CHARACTERS])
