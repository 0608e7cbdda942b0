"""Taking in the copies that are queued: one transaction each."""

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from core.clock import database_now
from inbound.arrival import (
    LOOK_AGAIN_AFTER,
    Decision,
    Destination,
    Drop,
    TakeIn,
    Wait,
    decide,
)
from inbound.filing import file_letter
from inbound.letter import Letter
from inbound.models import InboundJob
from inbound.selectors import destination_of
from inbound.statuses import JobState
from inbound.twins import is_duplicate
from mailboxes.models import Tenant
from mailboxes.services import lock_mailbox, raise_alert
from mailboxes.statuses import TenantMode

RETRY_AFTER = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)

log = structlog.get_logger()


def pending_job(job_id: str) -> InboundJob | None:
    """Return a copy that is to be taken in; None if that is done."""
    return InboundJob.objects.filter(id=job_id, state=JobState.PENDING).first()


@transaction.atomic(durable=True)
def take_in(job_id: str, letter: Letter, *, identity_id: str) -> JobState | None:
    """Take a copy into a mailbox, under its lock; None if another worker has.

    Whether there still is such a mailbox, and whether the sender is a test tenant, is
    asked in statements after the one that waited.
    """
    lock_mailbox(identity_id)
    pending = InboundJob.objects.select_for_update(no_key=True).filter(
        id=job_id, state=JobState.PENDING
    )
    if (job := pending.first()) is None:
        return None
    now = database_now()
    destination = destination_of(job.recipient)
    decision = _decision(job, destination, identity_id=identity_id, now=now)
    match decision:
        case Wait():
            return _put_off(job, until=now + LOOK_AGAIN_AFTER)
        case Drop():
            return _end(job, JobState.DROPPED, reason=decision.reason)
        case TakeIn():
            assert destination is not None  # noqa: S101  decide() found it
    if is_duplicate(letter, identity_id=identity_id):
        return _end(job, JobState.DUPLICATE)
    is_own = job.tenant_id == destination.tenant_id
    file_letter(letter, destination, is_own_tenant=is_own, now=now)
    return _end(job, JobState.RECEIVED)


@transaction.atomic(durable=True)
def drop(job_id: str, reason: str) -> JobState | None:
    """End a copy that has nowhere to go; None if that is done."""
    if (job := pending_job(job_id)) is None:
        return None
    return _end(job, JobState.DROPPED, reason=reason)


@transaction.atomic(durable=True)
def put_off_failed(job_id: str) -> None:
    """Alert that a copy cannot be taken in, and try again, ever more rarely.

    It is no longer counted as rung: so many may be, and copies that fail for good would
    in the end keep every other one from being rung.
    """
    if (job := pending_job(job_id)) is None:
        return
    wait = min(RETRY_AFTER * 2 ** min(job.attempts, 10), LONGEST_WAIT)
    _put_off(job, until=database_now() + wait)
    raise_alert("inbound_copy_failed", subject=job_id)


def _decision(
    job: InboundJob, destination: Destination | None, *, identity_id: str, now: datetime
) -> Decision:
    if destination is not None and destination.identity_id != identity_id:
        destination = None  # the address has changed hands since
    sender = Tenant.objects.filter(id=job.tenant_id, mode=TenantMode.TEST)
    if not sender.exists():
        raise_alert("loopback_of_a_live_tenant", subject=job.source_message_id)
        return Drop("not_a_test_tenant")
    return decide(destination, now=now)


def _put_off(job: InboundJob, *, until: datetime) -> JobState:
    InboundJob.objects.filter(id=job.id, state=JobState.PENDING).update(
        due_at=until, rung_at=None, attempts=job.attempts + 1
    )
    return JobState.PENDING


def _end(job: InboundJob, state: JobState, *, reason: str | None = None) -> JobState:
    InboundJob.objects.filter(id=job.id, state=JobState.PENDING).update(
        state=state, reason=reason, due_at=None, rung_at=None
    )
    log.info("copy_ended", job_id=job.id, code=reason or str(state))
    return state
