from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from kzoo_core.errors import Retryable
from kzoo_core.lifecycle.system import System
from kzoo_server.housekeeping import free_bytes
from tests.server.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Serve


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (Retryable("DISK_FULL", "the disk is full"), "sweep.refused"),
        (LookupError("a bug"), "sweep.failed"),
    ],
)
async def test_a_sweep_that_fails_is_logged_and_tried_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, error: Exception, event: str
) -> None:
    swept = 0

    async def fails(_: System) -> None:
        nonlocal swept
        swept += 1
        raise error

    monkeypatch.setattr(System, "sweep", fails)
    with capture_logs() as lines:
        served = await serve(sweep_s=0.02)
        await eventually(lambda: swept >= 3)
    assert {line["event"] for line in lines if line["event"].startswith("sweep")} == {event}
    assert (await served.api.get("/readyz")).status == 200


async def test_the_disk_of_a_directory_that_is_not_there_yet_is_known(tmp_path: Path) -> None:
    assert await free_bytes(tmp_path / "not" / "yet") > 0
