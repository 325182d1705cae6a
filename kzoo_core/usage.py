"""What every command of the product does alike with wrong usage: exit code 3 (D7)."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

USAGE = 3
"""Usage, IO, connection or authorisation: nothing was decided. argparse's own 2 would say that a
package breaks rules of the contract."""


class CommandParser(argparse.ArgumentParser):
    """``argparse`` that leaves with 3 on wrong usage; flags are never abbreviated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Print usage and error, and leave."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"error: {message}\n")
