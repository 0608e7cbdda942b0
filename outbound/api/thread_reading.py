"""Reading threads for the API: a row, and what its messages say of it.

A thread's labels are those of its messages, its snippet is that of the newest; both
come with the row, so that a page of threads is one statement.
"""

from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)

from mailboxes.mail_selectors import seen_threads, thread_among
from mailboxes.models import Label, Message, Thread
from mailboxes.statuses import UNSEEN, Direction
from outbound.api.queries import ThreadsQuery
from outbound.serializers import Json, instant

_SEEN = Message.objects.filter(thread=OuterRef("key")).exclude(status__in=UNSEEN)
_LABELS = Label.objects.filter(message__thread=OuterRef("key")).exclude(
    message__status__in=UNSEEN
)
_CAME_IN_LAST = Q(last_inbound_at__isnull=False) & (
    Q(last_outbound_at__isnull=True) | Q(last_inbound_at__gt=F("last_outbound_at"))
)


def threads_of(identity_id: str) -> QuerySet[Any]:
    """Return the threads of a mailbox that may be seen, with what is shown of each."""
    newest = _SEEN.order_by("-received_at", "-public_id").values("snippet")[:1]
    words = _LABELS.order_by("label").values("label").distinct()
    return seen_threads(identity_id).annotate(
        is_unread=Case(When(unread_count__gt=0, then=True), default=False),
        last_direction=Case(
            When(_CAME_IN_LAST, then=Value(Direction.INBOUND.value)),
            default=Value(Direction.OUTBOUND.value),
            output_field=TextField(),
        ),
        words=ArraySubquery(words),
        newest_snippet=Subquery(newest),
    )


def threads_found(identity_id: str, query: ThreadsQuery) -> QuerySet[Any]:
    """Return the threads of a mailbox that a query asks for."""
    found = threads_of(identity_id).filter(**query.filters())
    if query.label is None:
        return found
    return found.filter(Exists(_LABELS.filter(label=query.label)))


def thread_of(identity_id: str, thread_id: str) -> Thread:
    """Return one thread with what is shown of it; raises ThreadNotFound."""
    return thread_among(threads_of(identity_id), thread_id)


def thread_json(thread: Any) -> Json:
    """Return a thread of ``threads_of`` as the API shows it (REST contract 2.5)."""
    return {
        "id": thread.public_id,
        "subject": thread.subject,
        "snippet": thread.newest_snippet or "",
        "labels": thread.words,
        "archived": thread.archived,
        "participants": thread.participants,
        "message_count": thread.message_count,
        "unread_count": thread.unread_count,
        "first_at": instant(thread.first_at),
        "last_at": instant(thread.last_at),
        "last_inbound_at": instant(thread.last_inbound_at),
        "last_direction": thread.last_direction,
        "hold": None,
    }
