"""Outcomes of an identity's mail: counted once each, and too many bad ones pause it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from core.canonical import sha256_hex
from core.clock import database_now
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import ProviderEvent
from delivery.services import apply_event
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.deletions import finish_deletions
from mailboxes.identity_services import delete_identity, update_identity
from mailboxes.models import Alert, AuditRow, Event, Identity, Message
from mailboxes.services import pause_identity
from mailboxes.statuses import IdentityStatus, MessageStatus, PauseReason
from outbound import claims
from quota.models import RecentOutcome
from quota.window_services import record_outcome
from quota.windows import Outcome
from suppressions.models import Suppression
from tests.factories import QueuedMessageFactory
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
GOOD, BOUNCE, COMPLAINT = Outcome.DELIVERED, Outcome.BOUNCED, Outcome.COMPLAINED
OTHER = Outcome.OTHER


def has_had(identity: Identity, *outcomes: Outcome) -> None:
    """Give an identity these outcomes, the oldest first."""
    now = database_now()
    RecentOutcome.objects.bulk_create(
        RecentOutcome(
            tenant=identity.tenant,
            identity=identity,
            event_hash=sha256_hex(f"earlier:{n}".encode()),
            outcome=outcome,
            at=now,
        )
        for n, outcome in enumerate(outcomes)
    )


def gets(identity: Identity, outcome: Outcome, event_id: str = "now") -> bool:
    """Let an outcome come; tell whether the identity is paused for it."""
    return record_outcome(
        identity.tenant_id, identity.id, outcome, event_id=event_id, now=database_now()
    )


def is_paused(identity: Identity) -> bool:
    identity.refresh_from_db()
    return identity.status == IdentityStatus.PAUSED


def events_of(identity: Identity) -> list[str]:
    found = Event.objects.filter(identity=identity).order_by("seq")
    return list(found.values_list("type", flat=True))


# --- the thresholds ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("had", "comes", "pauses"),
    [
        ([COMPLAINT] * 2, COMPLAINT, False),
        ([COMPLAINT] * 3, COMPLAINT, True),
        ([COMPLAINT] * 3 + [GOOD] * 996, COMPLAINT, True),
        ([BOUNCE] * 9, BOUNCE, False),
        ([BOUNCE] * 10, BOUNCE, True),
        ([BOUNCE] * 10 + [GOOD] * 189, BOUNCE, True),
        # a young identity is judged against a full window
        ([], COMPLAINT, False),
        ([], BOUNCE, False),
        # soft bounces, refusals and failures are not held against it
        ([BOUNCE] * 10 + [OTHER] * 5, OTHER, False),
    ],
)
def test_the_fourth_complaint_of_1000_and_the_eleventh_bounce_of_200_pause(
    identity: Identity, had: list[Outcome], comes: Outcome, pauses: bool
) -> None:
    has_had(identity, *had)

    assert gets(identity, comes) is pauses
    assert is_paused(identity) is pauses


@pytest.mark.parametrize(
    ("oldest", "since", "comes"),
    [
        ([COMPLAINT], [COMPLAINT] * 2 + [GOOD] * 997, COMPLAINT),
        ([COMPLAINT] * 3, [GOOD] * 999, COMPLAINT),
        ([BOUNCE], [BOUNCE] * 9 + [GOOD] * 190, BOUNCE),
        ([BOUNCE] * 11, [GOOD] * 199, BOUNCE),
    ],
)
def test_what_has_left_the_window_counts_no_more(
    identity: Identity, oldest: list[Outcome], since: list[Outcome], comes: Outcome
) -> None:
    has_had(identity, *oldest, *since)

    assert not gets(identity, comes)
    assert not is_paused(identity)


def test_a_thousand_outcomes_are_kept_and_the_oldest_go(identity: Identity) -> None:
    has_had(identity, *[GOOD] * 1003)

    gets(identity, OTHER)

    kept = RecentOutcome.objects.order_by("seq").values_list("outcome", flat=True)
    assert list(kept) == [GOOD] * 999 + [OTHER]


def test_each_identity_has_windows_of_its_own(identity: Identity) -> None:
    other = QueuedMessageFactory.create().identity
    has_had(other, *[COMPLAINT] * 3)

    assert not gets(identity, COMPLAINT)
    assert not is_paused(identity)
    assert not is_paused(other)


def test_an_event_that_is_told_again_is_counted_once(identity: Identity) -> None:
    has_had(identity, COMPLAINT, COMPLAINT)

    assert not any(gets(identity, COMPLAINT, "ses:1") for _ in range(5))

    assert RecentOutcome.objects.count() == 3
    assert gets(identity, COMPLAINT, "ses:2")
    # nor does a repeat of what led to the pause do anything
    assert not gets(identity, COMPLAINT, "ses:2")
    assert events_of(identity) == ["identity.paused"]


@pytest.mark.parametrize(
    ("policy", "had", "comes", "pauses"),
    [
        ({"complaint_rate_pause": 0.001}, [COMPLAINT], COMPLAINT, True),
        ({"complaint_rate_pause": 0}, [], COMPLAINT, True),
        ({"complaint_rate_pause": None}, [COMPLAINT] * 2, COMPLAINT, False),
        ({"bounce_rate_pause": 0.02}, [BOUNCE] * 3, BOUNCE, False),
        ({"bounce_rate_pause": 0.02}, [BOUNCE] * 4, BOUNCE, True),
        # tightened since: the next outcome of whatever kind meets the new rate
        ({"bounce_rate_pause": 0.01}, [BOUNCE] * 5, GOOD, True),
    ],
)
def test_the_tenants_own_rates_count(
    identity: Identity,
    policy: dict[str, Any],
    had: list[Outcome],
    comes: Outcome,
    pauses: bool,
) -> None:
    identity.tenant.policy = {"abuse": policy}
    identity.tenant.save()
    has_had(identity, *had)

    assert gets(identity, comes) is pauses


def test_the_deployments_rates_count_below_the_tenants(
    identity: Identity, settings: Settings
) -> None:
    settings.PM_DEFAULT_POLICY = {"abuse": {"complaint_rate_pause": 0.001}}
    has_had(identity, COMPLAINT)

    assert gets(identity, COMPLAINT)


# --- the pause -----------------------------------------------------------------------


def test_a_pause_for_abuse_is_told_once_with_what_was_counted(
    identity: Identity,
) -> None:
    has_had(identity, *[BOUNCE] * 2, *[COMPLAINT] * 3)

    assert gets(identity, COMPLAINT, "1")
    assert not gets(identity, COMPLAINT, "2")

    identity.refresh_from_db()
    assert identity.pause_reason == PauseReason.ABUSE_THRESHOLD
    metrics = {
        "complaints": 4,
        "complaint_window": 1000,
        "bounces": 2,
        "bounce_window": 200,
    }
    (told,) = Event.objects.filter(identity=identity)
    assert (told.type, told.payload["data"]) == (
        "identity.paused",
        {
            "identity_id": identity.id,
            "reason": "abuse_threshold",
            "metrics": metrics,
        },
    )
    (audited,) = AuditRow.objects.exclude(action="alert.fire")
    assert (audited.action, audited.target_id, audited.details) == (
        "identity.auto_pause",
        identity.id,
        metrics,
    )
    assert (audited.actor_key_id, audited.tenant_id) == (None, identity.tenant_id)
    (alert,) = Alert.objects.all()
    assert (alert.name, alert.subject, alert.severity, alert.details) == (
        "abuse_pause",
        identity.id,
        "ticket",
        metrics,
    )
    assert alert.resolved_at is None


def test_what_is_queued_is_stopped_as_after_any_pause(identity: Identity) -> None:
    message = QueuedMessageFactory.create(thread__identity=identity)
    has_had(identity, *[COMPLAINT] * 3)
    assert gets(identity, COMPLAINT)

    assert claims.claim(message.public_id) is None

    message.refresh_from_db()
    assert message.status == MessageStatus.CANCELED
    stopped = AuditRow.objects.get(action="message.cancel")
    assert stopped.details == {"reason": "identity_paused"}


def test_the_system_identity_is_counted_and_never_paused(identity: Identity) -> None:
    Identity.objects.update(is_system=True)
    has_had(identity, *[COMPLAINT] * 30)

    assert not gets(identity, COMPLAINT)

    assert not is_paused(identity)
    assert RecentOutcome.objects.count() == 31
    assert not Alert.objects.exists()


def test_who_is_paused_by_hand_is_not_paused_again(identity: Identity) -> None:
    """Until somebody resumes it: the next outcome finds what has come meanwhile."""
    pause_identity(identity.id)
    has_had(identity, *[COMPLAINT] * 3)

    assert not gets(identity, COMPLAINT, "1")
    identity.refresh_from_db()
    assert identity.pause_reason == PauseReason.MANUAL
    assert not Alert.objects.exists()

    update_identity(identity.id, {}, status=IdentityStatus.ACTIVE)
    assert gets(identity, GOOD, "2")


def test_one_that_is_being_deleted_is_not_paused(identity: Identity) -> None:
    delete_identity(identity.id)
    has_had(identity, *[COMPLAINT] * 3)

    assert not gets(identity, COMPLAINT)

    identity.refresh_from_db()
    assert identity.status == IdentityStatus.DELETING


# --- and the way out of it -----------------------------------------------------------


def lift(identity: Identity) -> None:
    update_identity(identity.id, {}, status=IdentityStatus.ACTIVE, may_lift_abuse=True)


def test_what_led_to_a_pause_leads_to_no_second_one(identity: Identity) -> None:
    """Nor does what came in while it lasted: whoever resumed has seen it."""
    has_had(identity, *[BOUNCE] * 10)
    assert gets(identity, BOUNCE, "first")
    late = [gets(identity, BOUNCE, f"late {n}") for n in range(50)]
    lift(identity)

    after = [gets(identity, GOOD, "good")]
    after += [gets(identity, BOUNCE, f"after {n}") for n in range(10)]

    assert not any(late + after)
    assert not is_paused(identity)
    # from there on it is judged like any other
    assert gets(identity, BOUNCE, "once more")
    told = Event.objects.filter(type="identity.paused").order_by("seq")
    assert [e.payload["data"]["metrics"]["bounces"] for e in told] == [11, 11]


def deleted(identity: Identity) -> None:
    delete_identity(identity.id)
    finish_deletions()


@pytest.mark.parametrize("end", [lift, deleted])
def test_a_resume_closes_the_alert_and_so_does_the_identitys_end(
    identity: Identity, end: Callable[[Identity], None]
) -> None:
    has_had(identity, *[COMPLAINT] * 3)
    assert gets(identity, COMPLAINT)
    assert Alert.objects.filter(resolved_at=None).count() == 1

    end(identity)

    assert not Alert.objects.filter(resolved_at=None).exists()


# --- from the events of providers ----------------------------------------------------


def said(message: Message, kind: DeliveryKind, *, hard: bool = False) -> DeliveryEvent:
    return DeliveryEvent(
        source=EventSource.SES,
        event_id=f"{message.public_id}:{kind}",
        provider_message_id=message.provider_message_id,
        sender=message.from_address or "",
        recipient="jo@example.net",
        kind=kind,
        occurred_at=database_now(),
        hard=hard,
    )


def sent(identity: Identity) -> Message:
    message = QueuedMessageFactory.create(thread__identity=identity)
    work(message.public_id, ScriptedTransport())
    message.refresh_from_db()
    return message


def take(*events: DeliveryEvent) -> list[object]:
    inbox.store(events, due_at=[database_now()] * len(events))
    pending = ProviderEvent.objects.filter(state="pending").order_by("id")
    return [apply_event(row) for row in list(pending.values_list("id", flat=True))]


def outcomes() -> list[str]:
    return list(RecentOutcome.objects.order_by("seq").values_list("outcome", flat=True))


def test_what_a_provider_says_is_counted_in_the_transaction_that_applies_it(
    identity: Identity,
) -> None:
    has_had(identity, *[COMPLAINT] * 3)
    message = sent(identity)

    assert take(said(message, DeliveryKind.COMPLAINED)) == ["applied"]

    assert is_paused(identity)
    assert events_of(identity)[-3:] == [
        "message.complained",
        "suppression.created",
        "identity.paused",
    ]


def test_each_kind_is_counted_as_what_it_is(identity: Identity) -> None:
    for kind, hard in [
        (DeliveryKind.DELIVERED, False),
        (DeliveryKind.DEFERRED, False),
        (DeliveryKind.BOUNCED, True),
        (DeliveryKind.BOUNCED, False),
        (DeliveryKind.FAILED, False),
        (DeliveryKind.REJECTED, False),
        (DeliveryKind.COMPLAINED, False),
    ]:
        take(said(sent(identity), kind, hard=hard))
        Suppression.objects.all().delete()

    assert outcomes() == [GOOD, BOUNCE, OTHER, OTHER, OTHER, COMPLAINT]


def test_a_stale_event_a_repeat_and_a_stranger_are_not_counted(
    identity: Identity,
) -> None:
    message = sent(identity)
    bounced = said(message, DeliveryKind.BOUNCED, hard=True)

    take(bounced)
    ProviderEvent.objects.all().delete()
    take(
        bounced,
        replace(bounced, event_id="in the answer, too"),
        said(message, DeliveryKind.DELIVERED),
        replace(bounced, event_id="x", recipient="stranger@example.net"),
    )

    assert outcomes() == [BOUNCE]
