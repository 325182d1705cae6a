"""A kernel repository, a server and runners as real processes, one set for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import Zoo, zoo_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person raise the load of the load test."""
    parser.addoption("--load", type=int, default=40, help="submissions of the end-to-end load test")


@pytest.fixture
def zoo(tmp_path: Path) -> Iterator[Zoo]:
    """Give an empty kernel repository; the test starts what it needs."""
    with zoo_in(tmp_path) as started:
        started.init()
        yield started
