"""Claims that ran out: found without a lock, ended one transaction each."""

from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.points import reach
from core.sweeps import one_by_one
from delivery.changes import lock_message
from delivery.models import OutboundState
from outbound.settling import lapse

BATCH = 500


def sweep_claims() -> int:
    """Turn claims older than the claim age into uncertain sends; return how many.

    Safe beside anything: each is looked at again under its locks, and a claim that has
    been recorded meanwhile is left alone. One that cannot be ended keeps no other.
    """
    age = timedelta(seconds=settings.PM_CLAIM_SECONDS)
    overdue = OutboundState.objects.filter(claimed_at__lte=database_now() - age)
    ids = overdue.order_by("claimed_at").values_list("message__public_id", flat=True)
    listed = list(ids[:BATCH])
    reach("claim_alarm.listed")
    return one_by_one("claim_alarm", listed, partial(_end_claim, age))


@transaction.atomic(durable=True)
def _end_claim(age: timedelta, message_id: str) -> bool:
    message = lock_message(message_id)
    if message is None:
        return False
    state = OutboundState.objects.filter(message=message).first()
    now = database_now()
    if state is None or state.claimed_at is None or now - state.claimed_at < age:
        return False
    reach("claim_alarm.judged")
    lapse(message, state, now=now)
    return True
