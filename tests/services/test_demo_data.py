"""A made-up deployment: plausible, whole, and never outside the local environment."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from core.clock import database_now
from delivery.models import Attempt, Delivery, OutboundState, ProviderEvent
from mailboxes.models import (
    Address,
    Alert,
    ApiKey,
    AuditRow,
    Event,
    Identity,
    Mailbox,
    Message,
    Tenant,
    Thread,
)
from mailboxes.statuses import OUTBOUND_STATUSES, EventOwner
from outbound.models import LedgerEntry
from pylota.demo_data.build import Wanted, build
from pylota.demo_data.draw import Draw
from pylota.demo_data.shapes import BODIES, OUTAGE, RIGHT_TO_LEFT
from quota.models import Counter, UsageDay
from suppressions.models import Suppression
from tests.support.emptying import empty_tables
from tests.support.invariants import NO_SUCH_ROWS
from tests.support.published import check_payload
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.outbox import number_all

MESSAGES, UNCERTAIN = 300, 60


@pytest.fixture(scope="module")
def _built(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, int]]:
    """A small deployment that every test here looks at, and none changes."""
    with django_db_blocker.unblock():
        wanted = Wanted(MESSAGES, UNCERTAIN, seed=7, now=database_now())
        yield dict(build(wanted))
        empty_tables(None)  # type: ignore[arg-type]  # as after a test that commits


@pytest.fixture
def _looked_at(_built: dict[str, int], db: None) -> dict[str, int]:
    return _built


# --- what there is -------------------------------------------------------------------


@pytest.mark.usefixtures("_looked_at")
def test_it_keeps_every_invariant_of_a_deployment_that_lived() -> None:
    broken = {}
    for what, statement in NO_SUCH_ROWS.items():
        with connection.cursor() as cursor:
            cursor.execute(statement)
            broken[what] = cursor.fetchall()

    assert not any(broken.values()), broken


@pytest.mark.usefixtures("_looked_at")
def test_it_has_as_many_messages_as_were_asked_for_and_every_status() -> None:
    statuses = set(Message.objects.values_list("status", flat=True))

    assert Message.objects.count() == MESSAGES
    assert Message.objects.filter(status="uncertain").count() == UNCERTAIN
    assert statuses == {*map(str, OUTBOUND_STATUSES), "received"}
    assert set(Delivery.objects.values_list("status", flat=True)) >= {
        *("queued", "suppressed", "submitted", "delivered", "deferred", "bounced"),
        *("complained", "rejected", "failed", "uncertain"),
    }


@pytest.mark.usefixtures("_looked_at")
def test_its_mail_goes_back_three_months_and_none_of_it_is_of_tomorrow() -> None:
    now = database_now()
    first = Message.objects.order_by("received_at")[0]
    lately = Message.objects.filter(received_at__gt=now - timedelta(hours=48))

    assert timedelta(days=80) < now - first.received_at < timedelta(days=93)
    assert lately.count() > UNCERTAIN
    for model, field in (
        (Message, "updated_at"),
        (Event, "occurred_at"),
        (Attempt, "claimed_at"),
        (ProviderEvent, "received_at"),
        (AuditRow, "created_at"),
        (WebhookAttempt, "created_at"),
    ):
        assert not model._default_manager.filter(**{f"{field}__gt": now}).exists()


@pytest.mark.usefixtures("_looked_at")
def test_most_of_what_is_in_doubt_comes_of_one_outage_with_all_kinds_of_evidence() -> (
    None
):
    doubted = Message.objects.filter(status="uncertain")
    hit = doubted.filter(from_address__endswith=f"@{OUTAGE}")
    since = database_now() - timedelta(minutes=45)

    # Then it is of one domain and of the last minutes
    assert hit.filter(received_at__gt=since).count() >= UNCERTAIN * 0.8

    # And calls got to different phases, and left hints
    phases = Attempt.objects.filter(message__in=doubted, result="uncertain")
    assert set(phases.values_list("phase", flat=True)) == {
        *("awaiting_reply", "sending", "worker_lost")
    }
    assert doubted.filter(deliveries__status="delivered").exists()
    orphans = ProviderEvent.objects.filter(state="orphaned", payload__subject=None)
    near = list(orphans.values_list("payload__recipient", flat=True))
    assert Delivery.objects.filter(status="uncertain", address__in=near).exists()


@pytest.mark.usefixtures("_looked_at")
def test_its_extremes_are_there() -> None:
    longest = Message.objects.extra(where=["length(subject) = 998"])
    shown = set(
        Message.objects.exclude(html_sanitized=None).values_list("html_sanitized")
    )

    assert longest.exists()
    assert Delivery.objects.extra(where=["octet_length(address) = 254"]).exists()
    assert Identity.objects.filter(display_name=RIGHT_TO_LEFT).exists()
    assert shown
    for (page,) in shown:
        for poison in ("script", "onerror", "onclick", "<form", "@import", "iframe"):
            assert poison not in (page or "").lower()
    assert "<script>" in "".join(BODIES)


@pytest.mark.usefixtures("_looked_at")
def test_its_tenants_are_each_in_a_plight_of_their_own() -> None:
    assert Tenant.objects.filter(mode="test").exists()
    assert Tenant.objects.filter(status="suspended").exists()
    assert set(Identity.objects.values_list("pause_reason", flat=True)) == {
        *("manual", "abuse_threshold", "tenant_suspended"),
        None,
    }
    lately = Message.objects.filter(received_at__gt=database_now() - timedelta(days=2))
    assert not lately.filter(identity__status="paused").exists()
    assert Address.objects.filter(domain__state="failing").exists()
    assert ApiKey.objects.filter(revoked_at__isnull=False).exists()
    assert Suppression.objects.filter(reason="hard_bounce").exists()
    assert WebhookEndpoint.objects.exclude(disabled_at=None).count() == 2
    assert WebhookAttempt.objects.exists()
    assert Alert.objects.filter(resolved_at=None).count() > 3
    assert Alert.objects.exclude(resolved_at=None).exists()


@pytest.mark.usefixtures("_looked_at")
def test_what_is_counted_agrees_with_the_rows() -> None:
    for mailbox in Mailbox.objects.all():
        of_it = {"identity_id": mailbox.identity_id}
        assert mailbox.next_event_seq == Event.objects.filter(**of_it).count() + 1
        assert mailbox.next_thread_seq == Thread.objects.filter(**of_it).count() + 1
    for tenant in Tenant.objects.all():
        charged = Delivery.objects.filter(tenant=tenant).exclude(charged_at=None)
        daily = UsageDay.objects.filter(tenant=tenant, metric="sends")
        assert sum(daily.values_list("value", flat=True)) == charged.count()
        for day in Counter.objects.filter(tenant=tenant, metric="sends"):
            counted = Message.objects.filter(tenant=tenant, cap_day=day.bucket)
            assert counted.exclude(status="canceled").count() == day.value
    for thread in Thread.objects.all():
        assert thread.message_count == thread.messages.count()


@pytest.mark.usefixtures("_looked_at")
def test_its_feed_goes_on_with_the_product() -> None:
    """Places rise with time, and the next event comes after all of them."""
    places = list(
        Event.objects.order_by("position").values_list("position", "occurred_at")
    )
    assert [at for _, at in places] == sorted(at for _, at in places)
    assert len({place for place, _ in places}) == Event.objects.count()

    tenant = Tenant.objects.all()[0]
    Event.objects.create(
        id=Draw(1, now=database_now()).id("evt", database_now()),
        tenant=tenant,
        owner_kind=EventOwner.PLATFORM,
        owner_id=tenant.id,
        seq=1,
        type="billing.limit_reached",
        payload={},
        occurred_at=database_now(),
    )
    assert number_all() == 1
    assert Event.objects.order_by("-position")[0].type == "billing.limit_reached"


@pytest.mark.usefixtures("_looked_at")
def test_events_have_the_form_that_is_published_and_the_place_of_their_row() -> None:
    types = set()
    for event in Event.objects.all():
        check_payload(event.payload)
        types.add(event.type)
        assert (event.payload["id"], event.payload["sequence"]) == (event.id, event.seq)

    assert len(types) == 12


@pytest.mark.usefixtures("_looked_at")
def test_nothing_of_it_is_due_at_once() -> None:
    soon = database_now() + timedelta(minutes=10)

    assert OutboundState.objects.exists()
    assert not OutboundState.objects.filter(dispatch_at__lt=soon).exists()
    assert not ProviderEvent.objects.exclude(due_at=None).exists()
    assert LedgerEntry.objects.exists()


@pytest.mark.usefixtures("_looked_at")
def test_a_second_run_says_what_it_found_and_adds_nothing() -> None:
    told = StringIO()

    call_command("demo_data", "--messages", "50", "--uncertain", "1", stdout=told)

    assert f"{MESSAGES} messages of an earlier run" in told.getvalue()
    assert "python manage.py flush" in told.getvalue()
    assert Message.objects.count() == MESSAGES
