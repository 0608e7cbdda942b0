"""One message, one call: taking a claim and recording its end."""

from collections.abc import Callable

import pytest
from django.db import connection

from core import objects
from core.clock import database_now
from delivery.models import Attempt, OutboundState
from domains.models import Domain
from domains.statuses import DomainState
from mailboxes.models import Alert, AuditRow, Identity, Tenant
from mailboxes.services import pause_identity
from mailboxes.statuses import MessageStatus
from mailboxes.tenant_services import suspend_tenant
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.alerts import report_stuck
from outbound.transports.base import (
    Accepted,
    ClaimLost,
    Phase,
    RecipientRefusal,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    UncertainReason,
    Unknown,
)
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, accepted, work

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B, C = "a@example.net", "b@example.net", "c@example.net"


def test_an_accepted_call_submits_charges_and_says_so(
    scripted: ScriptedTransport,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert message.provider == "smtp"
    assert message.provider_message_id == (
        f"smtp:relay.example.net:{message.rfc_message_id}"
    )
    assert statuses(message) == {A: "submitted", B: "submitted"}
    assert not OutboundState.objects.filter(message=message).exists()
    assert events_of(message) == ["message.sent"]
    assert_units_add_up(message)


def test_a_second_ring_of_a_sent_message_makes_no_call(
    scripted: ScriptedTransport,
) -> None:
    message = QueuedMessageFactory.create()

    for _ in range(3):
        work(message.public_id, scripted)

    assert len(scripted.calls) == 1


def test_a_claimed_message_is_not_claimed_again() -> None:
    message = QueuedMessageFactory.create()

    assert claims.claim(message.public_id) is not None
    assert claims.claim(message.public_id) is None
    assert Attempt.objects.count() == 1


def test_an_unknown_outcome_is_uncertain_and_never_called_again(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    scripted.answers = [Unknown(UncertainReason.TIMEOUT, "no reply within 60 s")]

    claim = work(message.public_id, scripted)
    later(90_000)
    work(message.public_id, scripted)

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN
    assert claim is not None
    assert message.reason == "transport_timeout"
    assert Attempt.objects.get().phase == "connecting"  # as far as it got
    assert len(scripted.calls) == 1
    assert events_of(message) == ["message.uncertain"]
    assert_units_add_up(message)


def test_a_claim_that_runs_out_is_uncertain_by_the_alarm(later: Later) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    assert claims.claim(message.public_id) is not None

    assert sweep_claims() == 0
    later(301)

    assert sweep_claims() == 1
    message.refresh_from_db()
    attempt = Attempt.objects.get()
    assert message.status == MessageStatus.UNCERTAIN
    assert message.reason == "transport_connection_lost"
    assert (attempt.phase, attempt.result) == ("worker_lost", "uncertain")
    assert "connecting" in (attempt.detail or "")
    assert statuses(message) == {A: "uncertain"}
    assert_units_add_up(message)


def test_a_ring_that_finds_an_old_claim_ends_it_and_makes_no_call(later: Later) -> None:
    message = QueuedMessageFactory.create()
    claims.claim(message.public_id)
    later(301)

    assert claims.claim(message.public_id) is None

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN


def test_a_late_acceptance_reconciles_the_uncertain_send(later: Later) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B, C))
    claim = claims.claim(message.public_id)
    assert claim is not None
    later(301)
    sweep_claims()

    claims.record(
        claim,
        Accepted(
            "smtp:relay:1",
            refused=(RecipientRefusal(B, "550", "no such user"),),
            deferred=(C,),
        ),
    )

    message.refresh_from_db()
    assert message.provider_message_id == "smtp:relay:1"
    assert message.provider == "smtp"
    assert message.flags == ["reconciled"]
    assert message.evidence == "late_outcome"
    assert statuses(message) == {A: "submitted", B: "rejected", C: "failed"}
    assert message.status == MessageStatus.SUBMITTED
    assert not OutboundState.objects.filter(message=message).exists()
    assert events_of(message) == ["message.uncertain", "message.reconciled"]
    assert_units_add_up(message)


@pytest.mark.parametrize(
    "result",
    [
        Rejected(RejectReason.PROVIDER_VALIDATION, "550", "no"),
        RetryLater(RetryClass.RELAY, "451"),
        Unknown(UncertainReason.CONNECTION_LOST, "reset"),
    ],
    ids=["rejected", "retry", "unknown"],
)
def test_any_other_late_outcome_is_evidence_and_changes_no_status(
    later: Later, result: Rejected | RetryLater | Unknown
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    claim = claims.claim(message.public_id)
    assert claim is not None
    later(301)
    sweep_claims()

    claims.record(claim, result)

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN
    assert statuses(message) == {A: "uncertain"}
    assert Attempt.objects.get().finished_at is not None
    assert not OutboundState.objects.filter(message=message).exists()


def test_an_outcome_recorded_twice_moves_everything_once() -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))
    claim = claims.claim(message.public_id)
    assert claim is not None

    claims.record(claim, accepted(claim.outgoing))
    claims.record(claim, accepted(claim.outgoing))

    assert events_of(message) == ["message.sent"]
    assert_units_add_up(message)


def test_a_rejected_call_rejects_every_recipient_and_charges_nobody(
    scripted: ScriptedTransport,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))
    scripted.answers = [
        Rejected(
            RejectReason.SENDER_DOMAIN_UNAVAILABLE,
            "535",
            "bad login",
            issue="smtp_auth_failed",
        )
    ]

    work(message.public_id, scripted)

    message.refresh_from_db()
    domain = Domain.objects.get()
    assert message.status == MessageStatus.REJECTED
    assert message.reason == "sender_domain_unavailable"
    assert events_of(message) == ["message.rejected"]
    assert [issue["code"] for issue in domain.issues] == ["smtp_auth_failed"]
    assert domain.next_check_at <= database_now()
    assert_units_add_up(message)


def test_a_message_that_must_wait_is_not_claimed_before_its_retry_is_due(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    scripted.answers = [RetryLater(RetryClass.RELAY, "451", "later")]
    work(message.public_id, scripted)

    work(message.public_id, scripted)  # an old ring, in mid back-off
    assert len(scripted.calls) == 1
    state = OutboundState.objects.get()
    assert state.retry_at == state.dispatch_at
    assert state.backoff_n == 1
    later(70)
    work(message.public_id, scripted)

    message.refresh_from_db()
    assert len(scripted.calls) == 2
    assert message.status == MessageStatus.SUBMITTED
    assert_units_add_up(message)


def test_a_message_still_refused_after_a_day_fails(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    scripted.answers = [RetryLater(RetryClass.RELAY, "451", "later")]
    later(24 * 3600 - 10)

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert message.status == MessageStatus.FAILED
    assert message.reason == "quota_exhausted"
    assert events_of(message) == ["message.failed"]
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


def test_recipients_are_decided_one_by_one_and_only_the_deferred_tried_again(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B, C))
    scripted.answers = [
        Accepted(
            "smtp:relay:1",
            refused=(RecipientRefusal(B, "550", "5.1.1 unknown"),),
            deferred=(C,),
        )
    ]
    work(message.public_id, scripted)

    message.refresh_from_db()
    assert message.status == MessageStatus.QUEUED
    assert statuses(message) == {A: "submitted", B: "rejected", C: "queued"}
    assert events_of(message) == []
    assert_units_add_up(message)
    later(70)
    work(message.public_id, scripted)

    message.refresh_from_db()
    assert scripted.calls[1].recipients == (C,)
    assert statuses(message) == {A: "submitted", B: "rejected", C: "submitted"}
    assert message.status == MessageStatus.SUBMITTED
    assert events_of(message) == ["message.sent"]
    assert_units_add_up(message)


def test_a_retry_whose_worker_dies_leaves_the_rest_uncertain(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))
    scripted.answers = [Accepted("smtp:relay:1", deferred=(B,))]
    work(message.public_id, scripted)
    later(70)
    assert claims.claim(message.public_id) is not None
    later(301)

    sweep_claims()

    message.refresh_from_db()
    assert statuses(message) == {A: "submitted", B: "uncertain"}
    assert message.status == MessageStatus.UNCERTAIN
    assert_units_add_up(message)


@pytest.mark.parametrize("stopped", ["paused", "suspended"])
def test_a_partly_sent_message_of_whom_the_system_stopped_fails_its_rest(
    scripted: ScriptedTransport, later: Later, stopped: str
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))
    scripted.answers = [Accepted("smtp:relay:1", deferred=(B,))]
    work(message.public_id, scripted)
    if stopped == "paused":
        pause_identity(message.identity_id)
    else:
        suspend_tenant(message.tenant_id)
    later(70)

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert len(scripted.calls) == 1
    assert statuses(message) == {A: "submitted", B: "failed"}
    assert message.status == MessageStatus.SUBMITTED
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


@pytest.mark.parametrize("stopped", ["paused", "suspended", "deleting"])
def test_an_unsent_message_of_whom_the_system_stopped_is_canceled(
    scripted: ScriptedTransport, stopped: str
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    if stopped == "paused":
        pause_identity(message.identity_id)
    elif stopped == "suspended":
        suspend_tenant(message.tenant_id)
    else:
        Identity.objects.update(status="deleting")

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert scripted.calls == []
    assert message.status == MessageStatus.CANCELED
    assert statuses(message) == {A: "queued"}
    assert events_of(message)[-1] == "message.canceled"
    row = AuditRow.objects.get(action="message.cancel")
    assert row.details is not None
    assert stopped.removesuffix("ing").removesuffix("d") in row.details["reason"]
    assert_units_add_up(message)


@pytest.mark.parametrize(
    ("state", "fallback", "status", "reason"),
    [
        (DomainState.REMOVED, True, "rejected", "sender_domain_unavailable"),
        (DomainState.REMOVING, True, "rejected", "sender_domain_unavailable"),
        (DomainState.FAILING, False, "failed", "domain_failing_no_fallback"),
        (DomainState.SUSPENDED, False, "failed", "domain_failing_no_fallback"),
        (DomainState.PENDING, True, "queued", None),
        (DomainState.VERIFYING, True, "queued", None),
        (DomainState.DEGRADED, True, "submitted", None),
    ],
)
def test_the_domain_is_asked_again_when_the_message_leaves(
    scripted: ScriptedTransport,
    state: DomainState,
    fallback: bool,
    status: str,
    reason: str | None,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    Domain.objects.update(state=state)
    Tenant.objects.update(policy={"domain_fallback": fallback})

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert (message.status, message.reason) == (status, reason)
    assert len(scripted.calls) == (1 if status == "submitted" else 0)
    if status == "queued":
        waiting = OutboundState.objects.get()
        assert waiting.claim_token is None
        assert waiting.retry_at is not None
    assert_units_add_up(message)


def test_an_object_store_that_is_away_takes_no_claim(
    scripted: ScriptedTransport, monkeypatch: pytest.MonkeyPatch, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))

    def away(key: str) -> bytes:
        raise objects.ObjectStoreAway(key)

    with monkeypatch.context() as patched:
        patched.setattr(objects, "get", away)
        work(message.public_id, scripted)

    message.refresh_from_db()
    assert message.status == MessageStatus.QUEUED
    assert Attempt.objects.count() == 0
    later(70)
    work(message.public_id, scripted)
    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED


def test_a_message_whose_copy_is_lost_waits_alerts_and_fails_after_a_day(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    objects.delete(str(message.raw_key))

    work(message.public_id, scripted)

    message.refresh_from_db()
    alert = Alert.objects.get()
    assert (alert.name, alert.subject) == ("sent_copy_missing", message.public_id)
    assert message.status == MessageStatus.QUEUED
    later(24 * 3600)
    work(message.public_id, scripted)
    message.refresh_from_db()
    assert (message.status, message.reason) == ("failed", "quota_exhausted")
    assert scripted.calls == []


def test_what_kept_a_message_waiting_is_over_once_it_is_claimed(
    scripted: ScriptedTransport, later: Later
) -> None:
    # Given a message whose copy was lost, with its alert, and another one's
    message = QueuedMessageFactory.create(recipients=(A,))
    copy = objects.get(str(message.raw_key))
    objects.delete(str(message.raw_key))
    work(message.public_id, scripted)
    report_stuck("msg_other", "sent_copy_missing")

    # When the copy is back
    objects.put(str(message.raw_key), copy, metadata={})
    later(70)
    work(message.public_id, scripted)

    # Then its alert is over, and only its own
    assert len(scripted.calls) == 1
    open_ones = Alert.objects.filter(resolved_at=None)
    assert [alert.subject for alert in open_ones] == ["msg_other"]


def test_a_phase_is_committed_and_a_lost_claim_may_announce_none(later: Later) -> None:
    message = QueuedMessageFactory.create()
    claim = claims.claim(message.public_id)
    assert claim is not None

    claim.outgoing.announce(Phase.SENDING)
    assert Attempt.objects.get().phase == "sending"
    later(301)
    sweep_claims()

    with pytest.raises(ClaimLost):
        claim.outgoing.announce(Phase.AWAITING_REPLY)
    assert Attempt.objects.get().phase == "worker_lost"


def test_a_claim_knows_how_much_of_it_is_left() -> None:
    message = QueuedMessageFactory.create()
    claim = claims.claim(message.public_id)

    assert claim is not None
    assert 290 < claim.outgoing.seconds_left() <= 300
    assert claim.outgoing.deadline_seconds == 240


def test_a_queue_row_is_always_due_or_claimed() -> None:
    QueuedMessageFactory.create()

    with (
        pytest.raises(Exception, match="outbound_state_due_or_claimed"),
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE outbound_state SET dispatch_at = NULL")
