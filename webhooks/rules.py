"""What may be asked of an endpoint, by whom, and when it is on. Pure.

REST contract, section 6; security, section 5.
"""

from collections.abc import Sequence
from typing import Final

from core.errors import FieldError, InvalidRequest, PermissionDenied
from mailboxes.callers import Caller
from mailboxes.scopes import Scope
from webhooks.catalogue import EVENT_TYPES, EVERYTHING, asks_for_mail
from webhooks.statuses import DisabledReason

NEEDED: Final = sorted([str(Scope.MESSAGES_READ), str(Scope.WEBHOOKS_MANAGE)])


def known_types(events: Sequence[str]) -> list[str]:
    """Return types of events, each once; raises InvalidRequest that lists the unknown.

    ``*`` stands for every type.
    """
    errors = [
        FieldError(f"events[{n}]", "No such type of event.")
        for n, one in enumerate(events)
        if one != EVERYTHING and one not in EVENT_TYPES
    ]
    if errors:
        raise InvalidRequest("Some types of event are not known.", errors=errors)
    return list(dict.fromkeys(events))


def check_may_hear(events: Sequence[str], *, caller: Caller) -> None:
    """Raise PermissionDenied when mail is told of and the key may not read any."""
    if asks_for_mail(events) and Scope.MESSAGES_READ not in caller.scopes:
        raise PermissionDenied(
            "Endpoints that are told of messages take messages:read as well.",
            details={"required": NEEDED},
        )


def switched(
    reason: DisabledReason | None, *, has_new_url: bool, enabled: bool | None
) -> DisabledReason | None:
    """Return why an endpoint is off after a change; None: it is on.

    A new URL is off until a test of it is answered 2xx, whatever the reason was before;
    nothing else turns it on. Who turns off what is off leaves the first reason. Raises
    InvalidRequest at ``enabled``.
    """
    if has_new_url:
        reason = DisabledReason.URL_CHANGED
    if enabled is None:
        return reason
    if not enabled:
        return reason or DisabledReason.MANUAL
    if reason == DisabledReason.URL_CHANGED:
        message = "The url was changed: a test that is answered 2xx turns it on."
        raise InvalidRequest(
            message,
            errors=[FieldError("enabled", message)],
            details={"reason": str(reason)},
        )
    return None
