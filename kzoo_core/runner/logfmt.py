"""The runner's own log: one line an event on stderr, as ``key=value`` that people and grep read."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import TextIO

_PLAIN = re.compile(r"[^\s\"=\x00-\x1f\x7f]+")


def fields(**values: object) -> dict[str, object]:
    """Return what a log call takes as ``extra``; values that are ``None`` are left out."""
    return {"fields": {key: value for key, value in values.items() if value is not None}}


class LogfmtFormatter(logging.Formatter):
    """``time=… level=… event="…"`` and the fields; whatever is not a plain word is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, with a traceback's lines behind it when there is one."""
        moment = datetime.fromtimestamp(record.created, UTC)
        pairs = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        line = " ".join(f"{key}={_quoted(value)}" for key, value in pairs.items())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def logger_to(stream: TextIO, *, name: str) -> logging.Logger:
    """Return a logger of its own that writes to ``stream`` and to nothing else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogfmtFormatter())
    logger = logging.getLogger(name)
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
