"""The one place where deliveries and their message move, and what moves with them.

Everything here runs under the mailbox's row, then the message's: outcomes of a call,
provider events, a person's answer. Units are charged by the statement that first moves
a delivery to an accepted status, so that any order and any repetition charges once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from core.database import execute, fetch_all
from delivery import announcements
from delivery.models import OutboundState
from delivery.rollup import roll_up
from delivery.statuses import ACCEPTED, DeliveryStatus
from mailboxes.models import Message
from mailboxes.services import NewEvent, lock_mailbox, publish
from mailboxes.statuses import Direction, MessageStatus
from quota import services as quota

DETAIL_LENGTH = 512

GIVEN_UP: Final = {
    MessageStatus.FAILED: DeliveryStatus.FAILED,
    MessageStatus.REJECTED: DeliveryStatus.REJECTED,
}
"""Statuses of a message that come with a reason, and the deliveries that have it."""


@dataclass(frozen=True, slots=True)
class DeliveryChange:
    """One recipient's new status, with what was said of it: all that is shown then."""

    address: str
    status: DeliveryStatus
    reason: str | None = None
    smtp_code: str | None = None
    enhanced_code: str | None = None
    smtp_response: str | None = None
    bounce_type: Literal["hard", "soft"] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """Which deliveries moved, and how many units that charged."""

    addresses: tuple[str, ...] = ()
    charged: int = 0


def lock_message(message_id: str) -> Message | None:
    """Lock an outbound message's mailbox, then the message, and read it.

    Joins the caller's transaction. The read is a statement of its own, after the one
    that waited.
    """
    found = Message.objects.filter(
        public_id=message_id, direction=Direction.OUTBOUND
    ).values_list("identity_id", flat=True)
    identity_id = found.first()
    if identity_id is None or not lock_mailbox(identity_id):
        return None
    return message_held(message_id)


def message_held(message_id: str) -> Message | None:
    """Lock and read a message whose mailbox the caller's transaction holds already."""
    return (
        Message.objects.select_for_update(no_key=True, of=("self",))
        .select_related("thread")
        .filter(public_id=message_id)
        .first()
    )


def move(
    message: Message,
    changes: Sequence[DeliveryChange],
    *,
    from_: Collection[DeliveryStatus],
    now: datetime,
) -> Moved:
    """Move deliveries that stand in one of the given states; others are left alone.

    Joins the caller's transaction, which holds the message.
    """
    if not changes:
        return Moved()
    rows = fetch_all(
        "WITH before AS (SELECT address, charged_at FROM deliveries"
        " WHERE message_pk = %(message)s AND status = ANY(%(from)s) FOR NO KEY UPDATE)"
        " UPDATE deliveries d SET status = c.status,"
        " reason = c.reason, smtp_code = c.smtp_code,"
        " enhanced_code = c.enhanced_code, smtp_response = c.smtp_response,"
        " bounce_type = c.bounce_type, updated_at = %(now)s,"
        " charged_at = CASE WHEN d.charged_at IS NULL AND c.status = ANY(%(accepted)s)"
        " THEN %(now)s ELSE d.charged_at END"
        " FROM before, unnest(%(addresses)s::text[], %(statuses)s::text[],"
        " %(reasons)s::text[], %(codes)s::text[], %(enhanced)s::text[],"
        " %(responses)s::text[], %(bounces)s::text[])"
        " AS c (address, status, reason, smtp_code, enhanced_code, smtp_response,"
        " bounce_type)"
        " WHERE d.message_pk = %(message)s AND d.address = before.address"
        " AND d.address = c.address"
        " RETURNING d.address, before.charged_at IS NULL AND d.charged_at IS NOT NULL",
        {
            "message": message.key,
            "now": now,
            "from": [str(status) for status in from_],
            "accepted": [str(status) for status in ACCEPTED],
            "addresses": [change.address for change in changes],
            "statuses": [str(change.status) for change in changes],
            "reasons": [change.reason for change in changes],
            "codes": [change.smtp_code for change in changes],
            "enhanced": [change.enhanced_code for change in changes],
            "responses": [trimmed(change.smtp_response) for change in changes],
            "bounces": [change.bounce_type for change in changes],
        },
    )
    return Moved(
        addresses=tuple(sorted(address for address, _ in rows)),
        charged=sum(1 for _, charged in rows if charged),
    )


def statuses_of(message: Message) -> list[DeliveryStatus]:
    """Return the statuses of a message's deliveries."""
    found = message.deliveries.values_list("status", flat=True)
    return [DeliveryStatus(status) for status in found]


def settle_status(
    message: Message,
    *,
    charged: int,
    now: datetime,
    status: MessageStatus | None = None,
    reason: str | None = None,
    detail: str | None = None,
    retry_at: datetime | None = None,
) -> list[NewEvent]:
    """Roll the message up (or set the given status) and do what follows from it.

    Leaving the queue ends its queue row, its thread lock and its hold; units charged
    are spent, and while recipients stay queued (until ``retry_at``) theirs stay held.
    Returns the events to publish. Joins the caller's transaction, which holds the
    message; the quota row is locked last.
    """
    before = MessageStatus(message.status)
    rows = list(message.deliveries.values_list("status", "charged_at"))
    statuses = [DeliveryStatus(status) for status, _ in rows]
    after = status or roll_up(before, statuses)
    if reason is None and after in GIVEN_UP:
        reason = _reason_among(message, GIVEN_UP[after])
    keep = statuses.count(DeliveryStatus.QUEUED) if after == before else 0
    left_queue = before == MessageStatus.QUEUED and after != before
    if after != before:
        _write_status(message, before, after, reason=reason, now=now)
    if left_queue:
        OutboundState.objects.filter(message=message).delete()
        release_thread(message)
    if left_queue or charged:
        quota.settle(
            message.tenant_id,
            ref=message.public_id,
            consume=charged,
            keep=keep,
            until=retry_at,
            is_first=0 < charged == sum(at is not None for _, at in rows),
        )
    if after == before:
        return []
    return announcements.of_status(message, leaves_queue=left_queue, detail=detail)


def keep_held(message: Message, *, until: datetime | None = None) -> None:
    """Hold a unit for each recipient who still waits, until then; give back the rest.

    Joins the caller's transaction; the quota row is locked last.
    """
    waiting = statuses_of(message).count(DeliveryStatus.QUEUED)
    quota.settle(
        message.tenant_id, ref=message.public_id, consume=0, keep=waiting, until=until
    )


def _reason_among(message: Message, status: DeliveryStatus) -> str | None:
    """Return why the recipients of this status ended so, as far as one says it."""
    said = message.deliveries.filter(status=status, reason__isnull=False)
    return said.order_by("-updated_at").values_list("reason", flat=True).first()


def _write_status(
    message: Message,
    before: MessageStatus,
    after: MessageStatus,
    *,
    reason: str | None,
    now: datetime,
) -> None:
    unchanged = Message.objects.filter(key=message.key, status=before)
    if not unchanged.update(status=after, reason=reason, updated_at=now):
        raise RuntimeError(f"{message.public_id} changed under its own lock")
    message.status, message.reason, message.updated_at = after, reason, now


def name_provider(message: Message) -> None:
    """Name the provider of a send whose end nobody heard: that of its last call.

    Joins the caller's transaction, which holds the message, and saves it.
    """
    if message.provider is None:
        calls = message.attempts.order_by("-n")
        message.provider = calls.values_list("provider", flat=True).first()


def release_thread(message: Message) -> None:
    """Let go of the thread's lock, if this message holds it; joins the caller's."""
    execute(
        "UPDATE threads SET lock_owner = NULL, lock_until = NULL"
        " WHERE pk = %(thread)s AND lock_owner = %(owner)s",
        {"thread": message.thread_id, "owner": message.public_id},
    )


def announce(message: Message, events: Sequence[NewEvent], *, now: datetime) -> None:
    """Publish events of a message; joins the caller's, which holds its mailbox."""
    publish(
        events, tenant_id=message.tenant_id, identity_id=message.identity_id, now=now
    )


def trimmed(text: str | None) -> str | None:
    """Return a provider's words as they are stored: data, cut to 512 characters."""
    return text.replace("\x00", "")[:DETAIL_LENGTH] if text else None
