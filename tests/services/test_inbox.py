"""The inbox: stored first, looked at again, given up, forgotten; all of it counted."""

import hmac
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.conf import settings
from structlog.testing import capture_logs
from ulid import ULID

from core.clock import database_now
from core.hashing import address_hash, pseudonym
from core.ids import ulid_of
from delivery import inbox, tasks
from delivery.models import ProviderEvent
from delivery.services import apply_event
from delivery.statuses import DeliveryKind, InboxState
from mailboxes.models import Event, Identity, Message
from pylota.celery import app
from suppressions.models import Suppression
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.factories import AddressFactory
from tests.services.conftest import statuses
from tests.services.test_provider_events import Later
from tests.support.counters import counts
from tests.support.doubts import A, B, doubts, stored, told

pytestmark = pytest.mark.django_db

DELIVERED, BOUNCED = DeliveryKind.DELIVERED, DeliveryKind.BOUNCED
UNKNOWN: dict[str, Any] = {"subject": None, "provider_message_id": "nobody knows it"}


@pytest.fixture
def doubt(identity: Identity) -> Message:
    """A send in doubt, to two recipients."""
    return doubts(identity, 1, recipients=(A, B))[0]


# --- stored


def test_one_event_posted_46_times_is_one_transition_and_one_event(
    doubt: Message,
) -> None:
    """R17."""
    event = told(doubt, DELIVERED)

    new = [inbox.store([event], due_at=[database_now()]) for _ in range(46)]
    for row in ProviderEvent.objects.all():
        apply_event(row.id)

    assert sum(new) == 1
    assert Event.objects.filter(type="message.delivered").count() == 1


def test_addresses_are_stored_in_their_one_form(doubt: Message) -> None:
    event = told(doubt, DELIVERED, recipient="<A@EXAMPLE.net.>")
    shouted = {"sender": str(doubt.from_address).upper(), "event_id": "loud"}

    (row,) = stored(event.__class__(**{**_fields(event), **shouted}))

    assert apply_event(row) == "applied"
    assert statuses(doubt)[A] == "delivered"


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}


@pytest.mark.parametrize("wild", ["\x00", "\ud800", "\x00\udfff"])
def test_what_no_column_can_hold_is_stored_without_it(
    doubt: Message, wild: str
) -> None:
    event = told(
        doubt,
        DELIVERED,
        recipient=f"{wild}@",
        event_id=f"e{wild}",
        subject=f"{doubt.subject}{wild}",
        smtp_response=f"said {wild}",
    )

    assert inbox.store([event], due_at=[database_now()]) == 1
    assert apply_event(ProviderEvent.objects.get().id) == "pending"


# --- looked at again, and given up


def test_an_event_without_a_message_is_looked_at_every_30_s_for_330_s(
    doubt: Message, later: Later, django_capture_on_commit_callbacks: Any
) -> None:
    (row,) = stored(told(doubt, DELIVERED, **UNKNOWN))
    looks = 0

    with (
        counts("delivery_orphaned_total", 1),
        counts("delivery_events_total", 1, transport="ses", type="delivered"),
        django_capture_on_commit_callbacks(execute=True),
    ):
        while apply_event(row) == "pending":
            looks += 1
            waiting = ProviderEvent.objects.get()
            assert waiting.due_at is not None
            left = waiting.due_at - database_now()
            assert timedelta(seconds=29) < left <= timedelta(seconds=30)
            later(30)

    assert looks == 11
    ended = ProviderEvent.objects.get()
    assert (ended.state, ended.due_at, ended.message) == ("orphaned", None, None)
    assert statuses(doubt) == {A: "uncertain", B: "uncertain"}


def test_an_orphan_is_logged_by_hashes_alone(doubt: Message, later: Later) -> None:
    (row,) = stored(told(doubt, DELIVERED, **UNKNOWN))
    later(331)

    with capture_logs() as lines:
        apply_event(row)

    assert lines == [
        {
            "event": "event_orphaned",
            "log_level": "info",
            "event_id": row,
            "transport": "ses",
            "address_ph": pseudonym(A),
            "detail": pseudonym("nobody knows it"),
        }
    ]


def test_the_event_of_a_sender_that_was_never_ours_is_counted(
    doubt: Message, django_capture_on_commit_callbacks: Any
) -> None:
    doubt.from_address = "nobody@example.org"
    (row,) = stored(told(doubt, DELIVERED))

    with (
        counts("delivery_unroutable_total", 1),
        counts("delivery_orphaned_total", 0),
        django_capture_on_commit_callbacks(execute=True),
    ):
        assert apply_event(row) == "unroutable"
        assert apply_event(row) is None


@pytest.mark.parametrize("sender", ["its own", "nobody@example.org"])
def test_the_journal_s_copy_is_ignored(
    doubt: Message, sender: str, django_capture_on_commit_callbacks: Any
) -> None:
    detail = f"{ulid_of(doubt.public_id)}.{ulid_of(doubt.identity_id)}"
    journal = f"journal+{detail}@{settings.PM_PLATFORM_DOMAIN}"
    if sender != "its own":
        doubt.from_address = sender
    (row,) = stored(told(doubt, BOUNCED, recipient=journal, hard=True))

    with (
        counts("delivery_unroutable_total", 0),
        django_capture_on_commit_callbacks(execute=True),
    ):
        assert apply_event(row) == "refused"

    assert not Suppression.objects.exists()


def test_an_event_of_somebody_we_did_not_write_to_is_a_duplicate(
    doubt: Message,
) -> None:
    stranger = told(doubt, BOUNCED, recipient="c@example.net", tag=doubt.public_id)

    assert apply_event(*stored(stranger)) == "duplicate"
    assert statuses(doubt) == {A: "uncertain", B: "uncertain"}


# --- forgotten


def test_what_has_ended_is_kept_for_30_days_and_what_is_pending_for_good(
    doubt: Message, later: Later
) -> None:
    assert "delivery.purge_events" in app.tasks
    scheduled = [one["task"] for one in app.conf.beat_schedule.values()]
    assert "delivery.purge_events" in scheduled
    ended = [state for state in InboxState if state != InboxState.PENDING]
    for n, state in enumerate([*ended, InboxState.PENDING]):
        (row,) = stored(told(doubt, DELIVERED, event_id=str(n)))
        due = database_now() if state == InboxState.PENDING else None
        ProviderEvent.objects.filter(id=row).update(state=state, due_at=due)

    later(timedelta(days=29, hours=23).total_seconds())
    tasks.purge_events()
    assert ProviderEvent.objects.count() == len(InboxState)
    later(timedelta(hours=1, minutes=1).total_seconds())
    assert inbox.purge_events() == len(ended)

    assert ProviderEvent.objects.get().state == "pending"


# --- suppressions


def test_three_recipients_and_a_bounce_that_names_one_is_one_suppression(
    identity: Identity, django_capture_on_commit_callbacks: Any
) -> None:
    """R24."""
    message = doubts(identity, 1, recipients=(A, B, "c@example.net"))[0]

    with (
        counts("suppressed_recipients_total", 1, reason="hard_bounce"),
        django_capture_on_commit_callbacks(execute=True),
    ):
        assert apply_event(*stored(told(message, BOUNCED, hard=True))) == "applied"

    assert Suppression.objects.get().address_hash == address_hash(A)


def test_a_bounce_off_the_provider_s_own_list_is_suppressed_for_that_reason(
    doubt: Message,
) -> None:
    event = told(doubt, BOUNCED, hard=True, by_provider_list=True)

    assert apply_event(*stored(event)) == "applied"

    assert Suppression.objects.get().reason == "provider"
    delivery = doubt.deliveries.get(address=A)
    assert (delivery.reason, delivery.bounce_type) == ("provider", "hard")


def test_the_event_of_a_suppression_has_the_id_that_the_page_gives_it(
    doubt: Message,
) -> None:
    """A ULID of the row's time and ten bytes of a keyed hash."""
    apply_event(*stored(told(doubt, DeliveryKind.COMPLAINED)))

    row = Suppression.objects.get()
    at = round(row.created_at.timestamp() * 1000)
    text = f"suppression:{doubt.tenant_id}{row.address_hash}{at}".encode()
    tail = hmac.new(settings.PM_HASH_KEY, text, sha256).digest()[:10]
    event = Event.objects.get(type="suppression.created")
    assert event.id == f"evt_{ULID(at.to_bytes(6, 'big') + tail)}"
    assert event.payload["data"]["source_message_id"] == doubt.public_id


def test_an_address_that_is_suppressed_already_gives_no_event(doubt: Message) -> None:
    wanted = NewSuppression(A, SuppressionReason.MANUAL)
    suppress(
        [wanted],
        tenant_id=doubt.tenant_id,
        source_message_id=None,
        now=database_now(),
    )
    elsewhere = AddressFactory.create().identity
    other = doubts(elsewhere, 1)[0]

    for message in (doubt, other):
        apply_event(*stored(told(message, DeliveryKind.COMPLAINED)))

    assert Suppression.objects.get(tenant=doubt.tenant_id).reason == "manual"
    assert Suppression.objects.get(tenant=other.tenant_id).reason == "complaint"
    told_of = Event.objects.filter(type="suppression.created")
    assert [event.tenant_id for event in told_of] == [other.tenant_id]
