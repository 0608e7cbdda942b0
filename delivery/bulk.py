"""Many uncertain sends settled by one answer, each in a transaction of its own.

A transaction holds one mailbox (architecture, section 3, "Locks"), and a send that an
event has settled meanwhile must not take the others along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import structlog
from django.db import OperationalError, connection, transaction

from core.database import fetch_all
from core.errors import MessageNotFound, PylotaError, Unavailable
from delivery.errors import NotUncertain
from delivery.services import resolve
from mailboxes.models import Message
from mailboxes.statuses import UNSEEN, MessageStatus

MOST: Final = 500
"""Sends that one call settles."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one send; its status as it is now, and why nothing was changed."""

    message_id: str
    status: MessageStatus | None = None
    refusal: PylotaError | None = None


def resolve_each(
    message_ids: Sequence[str],
    *,
    tenant_id: str,
    outcome: Literal["sent", "not_sent"],
    actor_key_id: str | None = None,
) -> list[Answered]:
    """Settle each of these sends, once, and say what became of it; in their order.

    One that is not this tenant's is not there. Not for use within a transaction: what
    is settled stays so, whatever becomes of the rest.
    """
    wanted = list(dict.fromkeys(message_ids))
    own = Message.objects.filter(tenant_id=tenant_id, public_id__in=wanted)
    seen = set(own.exclude(status__in=UNSEEN).values_list("public_id", flat=True))
    return [
        _resolve_one(message_id, outcome, actor_key_id)
        if message_id in seen
        else Answered(message_id, refusal=MessageNotFound("No such message."))
        for message_id in wanted
    ]


def uncertain_between(
    since: datetime,
    until: datetime,
    *,
    tenant_id: str,
    identity_id: str | None = None,
    domain: str | None = None,
) -> tuple[list[str], bool]:
    """Return the sends that came into doubt in this time, and whether there are more.

    The oldest doubts first, at most ``MOST``; of one identity, or from one domain, if
    that is asked for.
    """
    rows = fetch_all(
        "SELECT m.id FROM deliveries d JOIN messages m ON m.pk = d.message_pk"
        " WHERE d.tenant_id = %(tenant)s AND d.status = 'uncertain'"
        " AND d.updated_at >= %(since)s AND d.updated_at < %(until)s"
        " AND (%(identity)s::text IS NULL OR m.identity_id = %(identity)s)"
        " AND (%(domain)s::text IS NULL"
        " OR split_part(m.from_address, '@', 2) = %(domain)s)"
        " GROUP BY m.id ORDER BY min(d.updated_at), m.id LIMIT %(limit)s",
        {
            "tenant": tenant_id,
            "since": since,
            "until": until,
            "identity": identity_id,
            "domain": domain,
            "limit": MOST + 1,
        },
    )
    found = [row[0] for row in rows]
    return found[:MOST], len(found) > MOST


def _resolve_one(
    message_id: str, outcome: Literal["sent", "not_sent"], actor_key_id: str | None
) -> Answered:
    try:
        with transaction.atomic(durable=True):
            settled = resolve(message_id, outcome=outcome, actor_key_id=actor_key_id)
    except NotUncertain as refusal:
        found = Message.objects.filter(public_id=message_id)
        status = MessageStatus(found.values_list("status", flat=True).get())
        return Answered(message_id, status, refusal)
    except OperationalError as error:  # a row that somebody holds for too long
        if not connection.is_usable():
            raise
        log.warning("resolve_failed", message_id=message_id, exc_info=error)
        return Answered(message_id, refusal=Unavailable("It is being worked on."))
    return Answered(message_id, MessageStatus(settled.status))
