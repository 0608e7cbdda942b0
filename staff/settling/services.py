"""A settlement's three steps: made for a preview, started, and gone on with.

Each send is settled in a transaction of its own, together with the settlement's cursor
and counts: a crash loses nothing, and of two who go on at once each send is one's.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import structlog
from django.db import OperationalError, connection, transaction

from core.acting import acting
from core.clock import database_now
from core.database import execute, fetch_all
from core.ids import is_id, new_id
from delivery.changes import lock_message
from delivery.services import resolve
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import Evidence
from staff.models import Settlement
from staff.settling.asked import Asked
from staff.settling.doubts import keys_of
from staff.statuses import SettlementState

MOST: Final = 5_000
"""Sends of one settlement; what is over waits for the next."""

BATCH: Final = 20
"""Sends that one request settles: a few hundred milliseconds."""

KEPT: Final = timedelta(days=1)
"""How long a preview waits for its answer."""

Outcome = Literal["sent", "not_sent"]
End = Literal["settled", "overtaken", "changed"]

log = structlog.get_logger()


def prepare(asked: Asked, *, user_id: int, until: datetime) -> tuple[Settlement, bool]:
    """Remember which sends a filter means now; tell whether it means more than these.

    Nothing else is changed. One statement reads and one writes.
    """
    keys, has_more = keys_of(asked, most=MOST)
    made = _remember(keys, asked.kept(), user_id=user_id, until=until)
    return made, has_more


def prepare_ticked(
    message_ids: Sequence[str], *, user_id: int, until: datetime
) -> Settlement:
    """Remember sends that were ticked one by one; what is not there is left out."""
    asked = [given for given in message_ids[:MOST] if is_id(given, "msg")]
    ticked = Message.objects.filter(public_id__in=asked)
    keys = list(ticked.values_list("key", flat=True))
    return _remember(keys, {}, user_id=user_id, until=until)


def _remember(
    keys: Sequence[int], asked: dict[str, str], *, user_id: int, until: datetime
) -> Settlement:
    _forget_left_previews()
    return Settlement.objects.create(
        id=new_id("stl"), user_id=user_id, keys=sorted(keys), filter=asked, until=until
    )


def _forget_left_previews() -> None:
    """Delete a few of the previews that nobody answered in a day."""
    execute(
        "DELETE FROM staff_settlements WHERE id IN (SELECT id FROM staff_settlements"
        " WHERE state = 'preview' AND created_at < %(before)s"
        " ORDER BY created_at LIMIT 10)",
        {"before": database_now() - KEPT},
    )


def start(
    settlement_id: str, *, user_id: int, outcome: Outcome, reason: str, now: datetime
) -> bool:
    """Take the answer and the reason; False if it has them already, or is not there.

    From here on it is this person's.
    """
    preview = Settlement.objects.filter(id=settlement_id, state=SettlementState.PREVIEW)
    changed = preview.update(
        state=SettlementState.RUNNING,
        outcome=outcome,
        reason=reason,
        user_id=user_id,
        started_at=now,
    )
    return changed == 1


def go_on(settlement_id: str, *, most: int = BATCH) -> None:
    """Settle the next sends, and end the settlement after the last one.

    Safe to call twice and at the same time, and after a crash. Not for use within a
    transaction.
    """
    running = Settlement.objects.filter(id=settlement_id, state=SettlementState.RUNNING)
    settlement = running.defer("keys", "overtaken", "changed").first()
    if settlement is None:
        return
    reason = f"{settlement.reason} ({settlement.id})"
    for key, message_id in _next(settlement_id, most=most):
        with acting(str(settlement.user_id), reason=reason):
            _settle(settlement, key, message_id)
    execute(
        "UPDATE staff_settlements SET state = 'done', finished_at = %(now)s"
        " WHERE id = %(id)s AND state = 'running'"
        " AND cursor >= (SELECT coalesce(max(key), 0) FROM unnest(keys) AS key)",
        {"id": settlement_id, "now": database_now()},
    )


def _next(settlement_id: str, *, most: int) -> list[tuple[int, str | None]]:
    rows = fetch_all(
        "SELECT key, m.id FROM staff_settlements s CROSS JOIN unnest(s.keys) AS key"
        " LEFT JOIN messages m ON m.pk = key"
        " WHERE s.id = %(id)s AND key > s.cursor ORDER BY key LIMIT %(most)s",
        {"id": settlement_id, "most": most},
    )
    return [(key, message_id) for key, message_id in rows]


def _settle(settlement: Settlement, key: int, message_id: str | None) -> None:
    try:
        with transaction.atomic(durable=True):
            if _take(settlement.id, key):
                _count(settlement.id, key, _answer(settlement, message_id))
    except OperationalError as error:  # a row that somebody holds for too long
        if not connection.is_usable():
            raise
        log.warning("settlement_skipped", message_id=message_id, exc_info=error)
        with transaction.atomic(durable=True):
            if _take(settlement.id, key):
                _count(settlement.id, key, "changed")


def _take(settlement_id: str, key: int) -> bool:
    """Move the cursor onto a send; False if somebody else has, who was faster.

    The settlement's row is locked before a mailbox, and by nothing but this.
    """
    return (
        execute(
            "UPDATE staff_settlements SET cursor = %(key)s"
            " WHERE id = %(id)s AND cursor < %(key)s AND state = 'running'",
            {"id": settlement_id, "key": key},
        )
        == 1
    )


def _answer(settlement: Settlement, message_id: str | None) -> End:
    """Give one send the answer, unless it is another doubt than was shown, or none."""
    message = lock_message(message_id) if message_id is not None else None
    if message is None:
        return "changed"
    doubtful = message.deliveries.filter(status=DeliveryStatus.UNCERTAIN)
    began = list(doubtful.values_list("updated_at", flat=True))
    if not began:
        return "changed" if message.evidence == Evidence.PERSON else "overtaken"
    if max(began) > settlement.until:
        return "changed"
    outcome: Outcome = "sent" if settlement.outcome == "sent" else "not_sent"
    resolve(message.public_id, outcome=outcome)
    return "settled"


def _count(settlement_id: str, key: int, end: End) -> None:
    execute(
        "UPDATE staff_settlements SET"
        " settled = settled + (%(end)s = 'settled')::int,"
        " overtaken = CASE WHEN %(end)s = 'overtaken'"
        " THEN overtaken || %(key)s::bigint ELSE overtaken END,"
        " changed = CASE WHEN %(end)s = 'changed'"
        " THEN changed || %(key)s::bigint ELSE changed END"
        " WHERE id = %(id)s",
        {"id": settlement_id, "key": key, "end": end},
    )
