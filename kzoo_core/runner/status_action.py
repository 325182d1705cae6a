"""The table "status to action" of the runner protocol: what each refusal means for each call.

One table for the machine and the log relay, so that a status has one meaning in the whole runner.
"""

from __future__ import annotations

from enum import StrEnum

from kzoo_core.runner.events import Call


class Action(StrEnum):
    """What a runner does about a refusal."""

    BACK_OFF = "back_off"
    """Ask again later, not before ``Retry-After``."""
    REGISTER_AGAIN = "register_again"
    """The server does not know the token: register once more, a second time is the end."""
    STOP_ATTEMPT = "stop_attempt"
    """The attempt is not, or no longer, this runner's: stop it and drop what it made."""
    NEW_CLAIM = "new_claim"
    """This claim_id is spent: ask with a fresh one."""
    REWIND = "rewind"
    """The server lacks earlier bytes of the log: go on from where it says."""
    RESEND = "resend"
    """The server holds other bytes than were sent: send the log from its beginning."""
    CUT = "cut"
    """Too large: leave out the text and say so."""
    DELIVERED = "delivered"
    """The server has recorded the result, as a malformed one."""
    OUTDATED = "outdated"
    """This runner is too old: finish what runs, then exit 7."""
    GIVE_UP = "give_up"
    """Asking again cannot help."""


_BY_CALL = {
    (Call.REGISTER, 401): Action.GIVE_UP,
    (Call.CLAIM, 409): Action.NEW_CLAIM,
    (Call.LOG, 412): Action.RESEND,
    (Call.LOG, 413): Action.CUT,
    (Call.LOG, 416): Action.REWIND,
    (Call.RESULT, 413): Action.CUT,
    (Call.RESULT, 422): Action.DELIVERED,
}

_OF_AN_ATTEMPT = frozenset({Call.PACKAGE, Call.LOG, Call.RESULT, Call.RELEASE})

_OTHERWISE = {
    Call.REGISTER: Action.GIVE_UP,
    Call.CLAIM: Action.GIVE_UP,
    Call.PACKAGE: Action.BACK_OFF,
    Call.HEARTBEAT: Action.BACK_OFF,
    Call.LOG: Action.GIVE_UP,
    Call.RESULT: Action.GIVE_UP,
    Call.RELEASE: Action.GIVE_UP,
}


def action_for(call: Call, status: int | None) -> Action:
    """Return what to do when ``call`` is answered with ``status`` (``None``: not answered)."""
    if status is None or status in {408, 425, 429} or status >= 500:
        return Action.BACK_OFF
    if (call, status) in _BY_CALL:
        return _BY_CALL[call, status]
    if status == 426:
        return Action.OUTDATED
    if status == 401:
        return Action.REGISTER_AGAIN
    if status in {403, 404, 409, 410} and call in _OF_AN_ATTEMPT:
        return Action.STOP_ATTEMPT
    return _OTHERWISE[call]
