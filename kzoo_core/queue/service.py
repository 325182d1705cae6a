"""The queue as the server uses it: one object, put together from the sides that callers see."""

from __future__ import annotations

from kzoo_core.queue.attempts import Attempts
from kzoo_core.queue.claiming import Claiming
from kzoo_core.queue.intake import Intake
from kzoo_core.queue.reading import Reading
from kzoo_core.queue.verdicts import Verdicts


class SubmissionQueue(Intake, Claiming, Attempts, Verdicts, Reading):
    """The async owner of one state directory.

    ``start`` before anything else, ``sweep`` every few seconds, ``close`` at the end; ``failed``
    tells when the process has to stop. All of it belongs to one event loop; what touches the disk
    runs in one thread of its own.
    """
