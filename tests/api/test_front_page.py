"""The admin's front page: what waits for a person, and how mail has gone."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from core.clock import database_now
from core.ids import new_id
from delivery.models import Delivery, ProviderEvent, Watch
from delivery.statuses import DeliveryKind
from domains.models import Domain
from mailboxes.models import Address, Alert, Identity, Message
from outbound.models import Breaker
from quota.models import Counter
from staff.front_page.traffic import traffic
from tests.factories import AddressFactory, QueuedMessageFactory
from tests.support.doubts import doubts, stored, told
from tests.support.staff import browser
from webhooks.models import WebhookEndpoint

pytestmark = pytest.mark.django_db

FRONT = "/admin/"


def front(client: Client | None = None) -> tuple[str, str]:
    """Return the front page, and its text in one line."""
    answer = (client or browser("viewer")).get(FRONT)
    assert answer.status_code == 200
    page = answer.content.decode()
    main = page[page.index("<main") : page.index("</main")]
    return main, unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main)))


def endpoint_disabled() -> None:
    WebhookEndpoint.objects.create(
        id=new_id("whk"),
        url="https://example.net/hook",
        events=["*"],
        secret_enc="x",
        disabled_reason="failing",
        disabled_at=database_now(),
    )


def test_a_deployment_in_which_nothing_waits_says_so_and_since_when() -> None:
    ended = database_now() - timedelta(hours=3)
    Alert.objects.create(
        id=new_id("alr"), name="beat_stale", severity="page", resolved_at=ended
    )

    _, said = front()

    assert "All is well" in said
    assert f"no alert has been open since {ended:%Y-%m-%d %H:%M} UTC, 3 hours" in said
    assert "Needs you" not in said
    assert "broker in memory" in said


def test_what_waits_is_counted_with_its_age_and_linked_to_its_list(
    identity: Identity,
) -> None:
    # Given something of each kind that waits for a person
    now = database_now()
    doubts(identity, 3)
    other = AddressFactory.create().identity
    old = doubts(other, 1)[0]
    Delivery.objects.filter(message=old).update(updated_at=now - timedelta(minutes=38))
    domain = Address.objects.get(identity=identity).domain
    assert domain is not None
    Domain.objects.filter(id=domain.id).update(
        state="failing", state_reason="dkim_missing", failing_since=now
    )
    endpoint_disabled()
    Breaker.objects.create(
        provider="ses", scope="account", unknowns=3, openings=1, probe_at=now
    )
    Alert.objects.create(id=new_id("alr"), name="breaker_open", severity="page")
    Watch.objects.create(name="beat", at=now - timedelta(minutes=4))
    orphan = told(old, DeliveryKind.DELIVERED)
    ProviderEvent.objects.filter(id__in=stored(orphan)).update(
        state="orphaned", due_at=None
    )
    QueuedMessageFactory.create()

    # When somebody opens the front page
    page, said = front(browser("support"))

    # Then each has its figure, and the way to it
    assert "Needs you" in said
    assert "4 uncertain sends oldest 38 minutes" in said
    assert f"{domain.name} 3" in said
    assert f'href="/admin/staff/settlement/?domain={domain.name}"' in page
    assert "Settle them" in said
    assert f"1 domain failing {domain.name} dkim_missing since" in said
    assert f'href="/admin/domains/domain/{domain.id}/change/"' in page
    assert "1 webhook endpoint disabled" in said
    assert "1 open alert breaker_open (page) since" in said
    assert "/admin/mailboxes/alert/?resolved_at__isnull=True" in page
    assert "breaker open: ses:account" in said
    assert "beat 4 minutes ago" in said
    assert "1 orphaned event (24 h)" in said
    assert "0 stale claims" in said


def test_each_list_that_a_figure_leads_to_opens(identity: Identity) -> None:
    doubts(identity, 1)
    domain = Address.objects.get(identity=identity).domain
    assert domain is not None
    Domain.objects.filter(id=domain.id).update(state="failing")
    Alert.objects.create(id=new_id("alr"), name="breaker_open", severity="page")
    Message.objects.update(received_at=database_now(), status="bounced")
    endpoint_disabled()
    client = browser("admin")
    page, _ = front(client)

    links = {unescape(link) for link in re.findall(r'href="(/admin/[^"]*)"', page)}

    assert len(links) >= 8
    assert any("webhookendpoint" in link for link in links)
    for link in links:
        assert client.get(link).status_code == 200, link


def test_a_viewer_is_told_to_look_not_to_settle(identity: Identity) -> None:
    doubts(identity, 1)

    _, said = front()

    assert "Settle them" not in said
    assert "1 uncertain send" in said


def test_the_plots_count_hours_outcomes_waits_caps_and_bounces(
    identity: Identity,
) -> None:
    # Given an hour with each outcome, and a message that is older than the plots
    now = database_now()
    sent, bounced, doubtful, old = doubts(identity, 4)
    Message.objects.filter(key=sent.key).update(status="delivered")
    Message.objects.filter(key=bounced.key).update(status="bounced")
    Message.objects.filter(key=old.key).update(
        status="complained", received_at=now - timedelta(days=6)
    )
    for message in (sent, bounced, doubtful):
        attempt = message.attempts.get()
        Message.objects.filter(key=message.key).update(
            received_at=attempt.claimed_at - timedelta(seconds=2)
        )
    Counter.objects.create(
        tenant=identity.tenant,
        metric="sends",
        bucket=now.date().isoformat(),
        value=4000,
    )

    # When it is counted
    went = traffic(now=database_now())

    # Then all stand where they belong
    assert sum(hour.went_out for hour in went.hours) == 1
    assert sum(hour.did_not for hour in went.hours) == 1
    assert sum(hour.in_doubt for hour in went.hours) == 1
    assert len(went.hours) == len(went.waits) == 48
    assert {wait.p95 for wait in went.waits if wait.sends} == {2000}
    (domain,) = went.domains
    assert (domain.sends, domain.bounced, domain.complained) == (4, 1, 1)
    (cap,) = went.caps
    assert (cap.slug, cap.used, cap.cap, cap.percent) == (
        identity.tenant.slug,
        4000,
        5000,
        80,
    )
    assert not went.is_cut
    page, said = front()
    assert page.count("<svg") == 4
    assert f"{identity.tenant.slug}: 4,000 of 5,000" in said
    assert "1 went out · 1 bounced or failed · 1 in doubt" in said


def test_older_messages_than_are_read_are_left_out_and_it_is_said(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staff.front_page.traffic.MOST", 2)
    doubts(identity, 3)

    went = traffic(now=database_now())

    assert went.is_cut
    assert sum(hour.in_doubt for hour in went.hours) == 2


def test_the_front_page_costs_the_same_few_statements_whatever_there_is(
    identity: Identity,
) -> None:
    client = browser("support")
    front(client)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            front(client)
        counts.append(len(captured))
        doubts(identity, 30)
        for _ in range(5):
            doubts(AddressFactory.create().identity, 5)

    assert counts[0] == counts[1] <= 14


@pytest.mark.parametrize("url", ["amqp://127.0.0.1:1", "redis://127.0.0.1:1"])
def test_a_broker_that_is_away_is_said_and_keeps_no_page(
    settings: object, url: str
) -> None:
    settings.CELERY_BROKER_URL = url  # type: ignore[attr-defined]

    _, said = front()

    assert "broker does not answer" in said
    assert "All is well" not in said


def test_an_account_without_any_permission_is_shown_nothing(client: Client) -> None:
    nobody = User.objects.create_user("nobody", is_staff=True)
    client.force_login(nobody, backend="django.contrib.auth.backends.ModelBackend")

    page = client.get(FRONT).content.decode()

    assert "may not look at messages" in page
    assert "<svg" not in page
