"""What the staff may do to webhooks and alerts: by the services of the API."""

import re

import pytest
from django.urls import reverse

from mailboxes.alert_services import raise_alert
from mailboxes.models import Alert, AuditRow, Identity
from tests.support.outbox import happen, listening
from tests.support.processes import free_port
from tests.support.staff import browser
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.outbox import number_events
from webhooks.secrets import seal_secret
from webhooks.signing import new_secret
from webhooks.statuses import DisabledReason

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(identity: Identity) -> WebhookEndpoint:
    """An endpoint where nobody answers."""
    found = listening(identity.tenant, "*")
    sealed = seal_secret(found.pk, new_secret())
    WebhookEndpoint.objects.filter(pk=found.pk).update(
        url=f"https://127.0.0.1:{free_port()}/hook", secret_enc=sealed
    )
    found.refresh_from_db()
    return found


def act(endpoint: WebhookEndpoint, name: str) -> str:
    return reverse("admin:webhooks_webhookendpoint_act", args=(endpoint.pk, name))


def page(endpoint: WebhookEndpoint) -> str:
    return reverse("admin:webhooks_webhookendpoint_change", args=(endpoint.pk,))


def test_a_test_that_fails_says_how_and_shows_among_the_attempts(
    endpoint: WebhookEndpoint,
) -> None:
    client = browser("operator")

    said = client.post(act(endpoint, "test"), {"reason": "they asked"}, follow=True)

    assert "The test failed: connect" in said.content.decode()
    attempt = WebhookAttempt.objects.get()
    assert attempt.event_type == "webhook.test"
    shown = client.get(page(endpoint)).content.decode()
    assert "webhook.test" in shown
    assert endpoint.secret_enc not in shown


def test_it_is_turned_off_and_on_again_and_both_are_kept(
    endpoint: WebhookEndpoint,
) -> None:
    client = browser("operator")

    client.post(act(endpoint, "disable"), {"reason": "it hangs"})
    endpoint.refresh_from_db()
    assert endpoint.disabled_reason == DisabledReason.MANUAL
    client.post(act(endpoint, "enable"), {"reason": "they mended it"})

    is_off = WebhookEndpoint.objects.exclude(disabled_reason=None)
    assert not is_off.exists()
    notes = AuditRow.objects.filter(action="webhook.update").order_by("id")
    assert [(row.details or {})["note"] for row in notes] == [
        "it hangs",
        "they mended it",
    ]


def test_a_url_that_changed_is_not_turned_on_by_hand(
    endpoint: WebhookEndpoint,
) -> None:
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        disabled_reason=DisabledReason.URL_CHANGED, disabled_at="2026-01-01T00:00:00Z"
    )
    client = browser("operator")

    shown = client.get(page(endpoint)).content.decode()
    client.post(act(endpoint, "enable"), {"reason": "please"})

    assert "a test that passes turns it on" in shown
    endpoint.refresh_from_db()
    assert endpoint.disabled_reason == DisabledReason.URL_CHANGED


def test_the_events_of_the_last_hours_are_made_due_again(
    identity: Identity, endpoint: WebhookEndpoint
) -> None:
    for _ in range(3):
        happen(identity)
    number_events()
    WebhookDispatch.objects.update(state="succeeded", due_at=None)

    answer = browser("operator").post(
        act(endpoint, "replay"), {"reason": "they lost them", "hours": "2"}, follow=True
    )

    assert "3 events are due again" in answer.content.decode()
    assert WebhookDispatch.objects.filter(state="pending").count() == 3


def test_a_new_secret_is_shown_once(endpoint: WebhookEndpoint) -> None:
    client = browser("operator")

    made = client.post(
        act(endpoint, "rotate-secret"), {"reason": "it is old", "overlap_hours": "24"}
    )

    secret = re.search(r'<code id="secret">(whsec_[^<]+)<', made.content.decode())
    assert secret is not None
    assert secret[1] not in client.get(page(endpoint)).content.decode()


def test_support_may_look_at_webhooks_and_no_more(endpoint: WebhookEndpoint) -> None:
    client = browser("support")

    assert client.get(page(endpoint)).status_code == 200
    for name in ("test", "replay", "enable", "disable", "rotate-secret"):
        assert client.post(act(endpoint, name), {"reason": "x"}).status_code == 403


def test_an_alert_is_closed_with_a_reason_by_an_operator() -> None:
    raise_alert("late_outcome_contradicts_resolve", subject="msg_1", details={"n": 3})
    alert = Alert.objects.get()
    where = reverse("admin:mailboxes_alert_act", args=(alert.pk, "close"))

    assert browser("support").post(where, {"reason": "seen"}).status_code == 403
    browser("operator").post(where, {"reason": "asked the relay: it went out"})

    alert.refresh_from_db()
    assert alert.resolved_at is not None
    row = AuditRow.objects.get(action="alert.close")
    assert row.actor_user_id
    assert "asked the relay: it went out" in (row.details or {}).values()
