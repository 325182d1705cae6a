"""What a file of a package may be called (D9): one name, one meaning, on every machine."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from kzoo_core.contract.quoting import printable
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_GIT_NAMES = frozenset({".git", "git~1"})
_APPLE_HINT = "macOS puts it there: set COPYFILE_DISABLE=1 when making the archive"


def name_problem(name: str, *, path_bytes: int) -> Problem | None:
    """Say what is wrong with a path whose leading ``./`` is taken off, or ``None``.

    ``name`` may hold surrogates where its bytes are not UTF-8.
    """
    for code, broken, what, expected, hint in _RULES:
        if broken(name):
            return Problem(
                code=code,
                message=f"{printable(name, 120)} {what}",
                file=printable(name, 240),
                found=printable(ascii(name), 120),
                expected=expected,
                hint=hint,
            )
    size = len(name.encode("utf-8"))
    if size > path_bytes:
        return Problem(
            code="path_too_long",
            message=f"{printable(name, 120)} is a path of {size} bytes",
            file=printable(name, 240),
            found=f"{size} bytes",
            expected=f"at most {path_bytes} bytes",
        )
    return None


def _not_utf8(name: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in name)


def _has_control(name: str) -> bool:
    if name.isascii():
        return not name.isprintable()
    return any(unicodedata.category(character) in _UNSEEN for character in name)


_UNSEEN = frozenset({"Cc", "Cf", "Co", "Zl", "Zp"})

_Rule = tuple[str, "Callable[[str], bool]", str, str, str | None]
_RULES: tuple[_Rule, ...] = (
    (
        "name_not_utf8",
        lambda name: not name.isascii() and _not_utf8(name),
        "is a name that is not UTF-8",
        "UTF-8 names",
        None,
    ),
    (
        "name_control_character",
        _has_control,
        "holds a control or invisible character",
        "names that can be seen as they are",
        None,
    ),
    (
        "name_backslash",
        lambda name: "\\" in name,
        "holds a backslash",
        "POSIX paths, separated by '/'",
        None,
    ),
    (
        "name_absolute",
        lambda name: name.startswith("/"),
        "is an absolute path",
        "paths below the kernel_id",
        "give tf.add an arcname that begins with the kernel_id",
    ),
    (
        "name_parent",
        lambda name: ".." in name.split("/"),
        "climbs out with '..'",
        "paths below the kernel_id",
        None,
    ),
    (
        "name_not_plain",
        lambda name: any(segment in {"", "."} for segment in name.split("/")),
        "has an empty or '.' segment",
        "plain relative paths",
        None,
    ),
    (
        "apple_double",
        lambda name: any(segment.startswith("._") for segment in name.split("/")),
        "is an AppleDouble file",
        "sources only",
        _APPLE_HINT,
    ),
    (
        "git_directory",
        lambda name: any(segment.casefold() in _GIT_NAMES for segment in name.split("/")),
        "is named like git's own directory",
        "sources without their repository",
        "leave .git out of the archive",
    ),
)


def twin_problems(paths: Iterable[str]) -> list[Problem]:
    """Return a problem for each two names that some machine would take for one.

    Names are compared after NFKC and case folding, directories included; a path that is a file here
    and a directory there is one too. ``paths`` are those of files, each once.
    """
    first: dict[str, str] = {}
    files = dict.fromkeys(paths)
    problems: list[Problem] = []
    for path in files:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            prefix = "/".join(parts[:length])
            if length < len(parts) and prefix in files:
                problems.append(_twin("file_and_directory", prefix, path))
                break
            other = first.setdefault(_folded(prefix), prefix)
            if other != prefix:
                problems.append(_twin("name_twin", other, prefix))
                break
    return problems


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _twin(code: str, first: str, second: str) -> Problem:
    one, other = printable(first, 120), printable(second, 120)
    told = {
        "file_and_directory": f"{one} is a file and, in {other}, a directory",
        "name_twin": f"{one} and {other} are the same name on some machines",
    }
    return Problem(
        code=code,
        message=told[code],
        file=printable(second, 240),
        found=f"{one} and {other}",
        expected="names that no file system takes for the same",
        hint="rename one of them",
    )
