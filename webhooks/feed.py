"""Reading the feed: what has a place in it, as far as a key reaches."""

from typing import Final

from django.db.models import QuerySet

from core.errors import CursorExpired, PermissionDenied
from mailboxes.callers import Caller
from mailboxes.models import Event, told_message
from mailboxes.scopes import Scope
from webhooks.catalogue import EVENT_TYPES, PLATFORM_ONLY, is_mail

NOT_OF_MAIL: Final = sorted(one for one in EVENT_TYPES if not is_mail(one))
"""What anybody may read who may read events: named, so that an index answers it."""


def events_in_reach(caller: Caller) -> QuerySet[Event]:
    """Return the events that a key may know of; everything else is not there.

    Without ``messages:read`` those of messages are left out.
    """
    found = Event.objects.filter(position__isnull=False)
    if caller.tenant_id is not None:
        found = found.filter(tenant_id=caller.tenant_id)
        found = found.exclude(type__in=PLATFORM_ONLY)
    if caller.identity_id is not None:
        found = found.filter(identity_id=caller.identity_id)
    if Scope.MESSAGES_READ not in caller.scopes:
        found = found.filter(type__in=NOT_OF_MAIL)
    return found


def check_type(event_type: str, *, caller: Caller) -> None:
    """Raise PermissionDenied for a type that the key's scopes leave out."""
    if is_mail(event_type) and Scope.MESSAGES_READ not in caller.scopes:
        required = sorted(map(str, (Scope.MESSAGES_READ, Scope.WEBHOOKS_READ)))
        raise PermissionDenied(
            f"The key lacks the scope {Scope.MESSAGES_READ}.",
            details={"required": required},
        )


def after(found: QuerySet[Event], event_id: str) -> QuerySet[Event]:
    """Return those of some events that come after one of them.

    Raises CursorExpired, alike for an event that is no longer kept, one out of reach
    and one that never was.
    """
    place = found.filter(id=event_id).values_list("position", flat=True).first()
    if place is None:
        raise CursorExpired("There is no such event any more.")
    return found.filter(position__gt=place)


def of_message(found: QuerySet[Event], message_id: str) -> QuerySet[Event]:
    """Return those of some events that tell of one message."""
    return found.annotate(told_message=told_message()).filter(told_message=message_id)
