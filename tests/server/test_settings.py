from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.errors import BadInput
from kzoo_core.queue.settings import QueueSettings
from kzoo_server import configuration
from kzoo_server.app import system_settings
from kzoo_server.settings import ServerSettings, is_loopback, load

if TYPE_CHECKING:
    from kzoo_core.config import Resolved

UNITS = ("_s", "_bytes", "_limit", "_default", "_max")
COUNTS = ("max_", "keep_", "attempts_")
WITHOUT_UNIT = {"port"}


def resolved(
    flags: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    file: Path | None = None,
) -> Resolved[ServerSettings]:
    return load(
        flags=flags or {},
        environment=environment or {},
        file=file,
        default_state=Path("/home/alice/.local/state/kernel_zoo"),
    )


def refusal(flags: dict[str, Any]) -> BadInput:
    with pytest.raises(BadInput) as refused:
        resolved(flags)
    assert refused.value.code == "CONFIG_ERROR"
    return refused.value


def test_the_defaults_are_loopback_port_8000_and_the_repository_beside_the_platform() -> None:
    settings = resolved().settings
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.repo == Path("../kernel_data")
    assert settings.state == Path("/home/alice/.local/state/kernel_zoo")
    assert settings.index == Path("/home/alice/.local/state/kernel_zoo/index.json")
    assert (settings.heartbeat_s, settings.lease_s, settings.confirm_s) == (15, 90, 30)


def test_every_number_has_its_unit_in_its_name() -> None:
    for field in dataclasses.fields(ServerSettings):
        if field.type in {"int", "float"} and field.name not in WITHOUT_UNIT:
            assert field.name.endswith(UNITS) or field.name.startswith(COUNTS), field.name
            assert field.metadata["at_least"] is not None, field.name


def test_every_bound_of_the_queue_is_a_setting_with_the_same_default() -> None:
    queue = system_settings(resolved().settings).queue
    assert queue == QueueSettings()
    changed = {
        field.name: getattr(ServerSettings(), field.name) + 1
        for field in dataclasses.fields(QueueSettings)
        if hasattr(ServerSettings(), field.name)
    }
    settings = ServerSettings(state=Path("/s"), wait_max_s=61, log_head_bytes=1, **changed)
    queue = system_settings(settings).queue
    for field in dataclasses.fields(QueueSettings):
        assert getattr(queue, field.name) != field.default, field.name


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("port: 1\nhost: 127.0.0.3\nlease_s: 45\n")
    found = resolved({"port": "3"}, {"KERNEL_ZOO_PORT": "2", "KERNEL_ZOO_HOST": "127.0.0.2"}, file)
    assert found.settings.port == 3
    assert found.settings.host == "127.0.0.2"
    assert found.settings.lease_s == 45
    assert found.origin["port"] == "flag --port"
    assert found.origin["host"] == "environment KERNEL_ZOO_HOST"
    assert found.origin["lease_s"] == f"file {file}"
    assert found.origin["confirm_s"] == "default"


def test_the_index_follows_the_state_directory_unless_it_is_named() -> None:
    settings = resolved({"state": "/var/zoo"}).settings
    assert settings.index_path == Path("/var/zoo/index.json")
    named = resolved(environment={"KERNEL_ZOO_INDEX_PATH": "/srv/index.json"}).settings
    assert named.index_path == Path("/srv/index.json")
    assert named.state_directory == Path("/home/alice/.local/state/kernel_zoo")


def test_settings_that_were_not_loaded_have_no_state_directory() -> None:
    with pytest.raises(ValueError, match="not made by load"):
        _ = ServerSettings().state_directory


def test_an_address_that_others_reach_is_refused_with_the_flag_that_allows_it() -> None:
    error = refusal({"host": "0.0.0.0"})  # noqa: S104 - the very thing that is refused
    assert error.message == (
        "flag --host: host is '0.0.0.0', expected a loopback address: in open mode everyone who "
        "reaches the port can submit under any name"
    )
    assert error.hint == (
        "keep 127.0.0.1 behind a proxy that knows its users, or accept the risk with "
        "--expose-unauthenticated"
    )
    allowed = resolved({"host": "10.0.0.1", "expose_unauthenticated": True})
    assert allowed.settings.host == "10.0.0.1"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - the very thing that is told apart
        ("::", False),
        ("localhost.evil.example", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"port": "65536"}, "flag --port: port is 65536, expected at most 65535"),
        ({"port": "-1"}, "flag --port: port is -1, expected at least 0"),
        (
            {"log_format": "xml"},
            "flag --log-format: log_format is 'xml', expected one of: text json",
        ),
        (
            {"log_level": "loud"},
            "flag --log-level: log_level is 'loud', expected one of: debug info warning error",
        ),
        (
            {"page_default": "2000"},
            "page_default is 2000, expected at most page_max, which is 1000",
        ),
        (
            {"wait_default_s": "90"},
            "wait_default_s is 90, expected at most wait_max_s, which is 60",
        ),
        ({"lease_s": "soon"}, "flag --lease-s: lease_s is 'soon', expected a number"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(flags: dict[str, Any], message: str) -> None:
    assert refusal(flags).message == message


def test_the_configuration_is_shown_as_the_file_that_would_make_it(tmp_path: Path) -> None:
    found = resolved({"port": "9000"})
    text = configuration.show(found, origin=False, as_json=False)
    assert "port: 9000\n" in text
    assert 'repo: "../kernel_data"\n' in text
    assert "ready_file: null\n" in text
    file = tmp_path / "again.yaml"
    file.write_text(text)
    assert resolved(file=file).settings == found.settings


def test_the_origin_of_every_setting_is_shown_beside_it() -> None:
    found = resolved({"port": "9000"}, {"KERNEL_ZOO_STATE_PATH": "/var/zoo"})
    lines = configuration.show(found, origin=True, as_json=False).splitlines()
    assert len(lines) == len(dataclasses.fields(ServerSettings))
    shown = {line.partition(":")[0]: line.partition("# ")[2] for line in lines}
    assert shown["port"] == "flag --port"
    assert shown["state"] == "environment KERNEL_ZOO_STATE_PATH"
    assert shown["lease_s"] == "default"


def test_json_has_values_and_where_asked_origins() -> None:
    found = resolved({"port": "9000"})
    assert json.loads(configuration.show(found, origin=False, as_json=True))["port"] == 9000
    assert json.loads(configuration.show(found, origin=True, as_json=True))["port"] == {
        "value": 9000,
        "origin": "flag --port",
    }
