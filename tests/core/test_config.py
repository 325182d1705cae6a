"""Settings: four places in order, and errors that say where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kzoo_core.config import nearest, resolve, setting
from kzoo_core.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Settings of a program that exists in this test alone."""

    port: int = setting(8000, about="Where to listen.", env="SAMPLE_PORT", at_least=0)
    lease_s: float = setting(90.0, about="How long.", at_least=1)
    host: str = setting("127.0.0.1", about="Which address.", env="SAMPLE_HOST")
    repo: Path | None = setting(None, about="Which repository.")
    open: bool = setting(False, about="Whether.", env="SAMPLE_OPEN")
    features: tuple[str, ...] = setting((), about="Which features.")


def test_flags_beat_the_environment_beats_the_file_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("port: 1\nhost: file\nlease_s: 5\nfeatures: [a, b]\n")
    resolved = resolve(
        Sample,
        flags={"port": 3, "host": None, "repo": "~/x"},
        environment={"SAMPLE_PORT": "2", "SAMPLE_HOST": "env", "SAMPLE_OPEN": "yes"},
        file=file,
    )
    assert resolved.settings == Sample(
        port=3,
        host="env",
        lease_s=5.0,
        repo=Path("~/x").expanduser(),
        open=True,
        features=("a", "b"),
    )
    assert dict(resolved.origin) == {
        "port": "flag --port",
        "host": "environment SAMPLE_HOST",
        "lease_s": f"file {file}",
        "repo": "flag --repo",
        "open": "environment SAMPLE_OPEN",
        "features": f"file {file}",
    }


def test_nothing_given_means_defaults_and_an_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("")
    resolved = resolve(Sample, flags={}, environment={}, file=tmp_path / "c.yaml")
    assert resolved.settings == Sample()
    assert set(resolved.origin.values()) == {"default"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("prot: 1\n", "unknown setting 'prot'", "did you mean 'port'?"),
        ("zzzzzz: 1\n", "unknown setting 'zzzzzz'", "see 'config show'"),
        ("port: many\n", "port is 'many', expected a whole number", None),
        ("port: 1.5\n", "port is 1.5, expected a whole number", None),
        ("port: true\n", "port is True, expected a whole number", None),
        ("lease_s: 0\n", "lease_s is 0.0, expected at least 1", None),
        ("open: maybe\n", "open is 'maybe', expected true or false", None),
        ("- port\n", "holds a list, not a mapping", "write one 'setting: value' a line"),
        ("port: [\n", "is not YAML", None),
    ],
)
def test_a_bad_file_is_refused_with_its_name_the_key_and_what_was_expected(
    tmp_path: Path, text: str, message: str, hint: str | None
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        resolve(Sample, flags={}, environment={}, file=file)
    assert caught.value.code == "CONFIG_ERROR"
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read the configuration file .*none\.yaml"):
        resolve(Sample, flags={}, environment={}, file=tmp_path / "none.yaml")


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(BadInput, match="environment SAMPLE_PORT: port is 'x', expected a whole"):
        resolve(Sample, flags={}, environment={"SAMPLE_PORT": "x"}, file=None)


def test_the_nearest_word_is_offered_only_when_it_is_near() -> None:
    assert nearest("hsot", {"host", "port"}) == "host"
    assert nearest("qqq", {"host", "port"}) is None
