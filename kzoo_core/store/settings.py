"""The git settings of a repository that this product owns, and the formats it can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dulwich.config import ConfigFile

from kzoo_core import durable
from kzoo_core.errors import BadInput, Broken

if TYPE_CHECKING:
    from pathlib import Path

OWN_SETTINGS = (
    # Whatever git itself writes here (a push, a commit in the checkout) reaches the disk too.
    # (core.fsyncObjectFiles would make every git command print that it is deprecated.)
    ("core", "fsync", "committed,loose-object,reference"),
    # Packs are gathered between commits, see gather.py; a repack in the middle of one is not.
    ("gc", "auto", "0"),
    ("receive", "autogc", "false"),
    ("maintenance", "auto", "false"),
)

_SERVED_EXTENSIONS = {b"refstorage": b"files", b"objectformat": b"sha1"}


def own_settings(git_directory: Path) -> list[str]:
    """Set ``OWN_SETTINGS`` where they differ, durably; return a sentence for what was changed.

    Lines are added at the end of the file, where git lets them win: a person's own lines and
    comments stay as they are.
    """
    path = git_directory / "config"
    config = _read(path)
    missing = [
        (section, name, value)
        for section, name, value in OWN_SETTINGS
        if _value(config, section, name) != value
    ]
    if not missing:
        return []
    text = path.read_bytes()
    if not text.endswith(b"\n"):
        text += b"\n"
    for section, name, value in missing:
        text += f"[{section}]\n\t{name} = {value}\n".encode()
    durable.write_file(path, text)
    changed = ", ".join(f"{section}.{name}" for section, name, _ in missing)
    return [f"set {changed} in {path}"]


def check_format(git_directory: Path, *, opened_as_bare: bool) -> None:
    """Refuse what cannot be served: another ref or object format, a checkout's inside.

    Raises ``BadInput`` with code ``REPOSITORY_UNSUPPORTED``, or ``Broken`` with code
    ``REPOSITORY_UNREADABLE`` when the configuration does not parse.
    """
    config = _read(git_directory / "config")
    for name, value in config.items((b"extensions",)):
        served = _SERVED_EXTENSIONS.get(name.lower())
        if served is not None and value.lower() != served:
            raise BadInput(
                "REPOSITORY_UNSUPPORTED",
                f"{git_directory} has extensions.{name.decode()} = {value.decode()}",
                hint=f"serve a repository with {name.decode()} = {served.decode()}",
            )
    if opened_as_bare and not config.get_boolean((b"core",), b"bare", default=True):
        raise BadInput(
            "REPOSITORY_UNSUPPORTED",
            f"{git_directory} is the inside of a checkout",
            hint=f"name the checkout itself: {git_directory.parent}",
        )


def _read(path: Path) -> ConfigFile:
    try:
        return ConfigFile.from_path(str(path), expand_includes=False)
    except (OSError, ValueError) as error:
        raise Broken(
            "REPOSITORY_UNREADABLE",
            f"cannot read {path}: {error}",
            hint="git config --list in the repository names the line",
        ) from error


def _value(config: ConfigFile, section: str, name: str) -> str | None:
    try:
        return config.get((section.encode(),), name.encode()).decode("utf-8", "replace")
    except KeyError:
        return None
