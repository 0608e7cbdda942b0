"""Webhooks: where events go, how each attempt ended, and what may be done about it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from core.acts import Act, ActForm, ActingAdmin
from core.admin import ReadOnlyAdmin
from core.clock import database_now
from staff.callers import platform_caller
from staff.pages.keys import RotateForm
from staff.statuses import Duty
from webhooks.deliver import try_now
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.replay import EventRange, replay
from webhooks.services import pass_test, rotate_secret, update_endpoint
from webhooks.statuses import AttemptStatus, DisabledReason, DispatchState

ATTEMPTS_SHOWN: Final = 20


class ReplayForm(ActForm):
    """How far back."""

    hours = forms.IntegerField(
        label="Hours back from now",
        help_text="Every event of these hours is sent again, under its own id; at most"
        " 1,000 of them.",
        min_value=1,
        max_value=30 * 24,
        initial=1,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


def _test(endpoint: WebhookEndpoint, answer: Mapping[str, Any]) -> str:
    attempt = try_now(endpoint, now=database_now())
    if attempt.status != AttemptStatus.SUCCEEDED:
        ended = attempt.error or attempt.http_status
        return f"The test failed: {ended} after {attempt.duration_ms} ms."
    on = pass_test(endpoint.id, url=endpoint.url, caller=platform_caller())
    return f"It answered {attempt.http_status}." + (" It is on again." if on else "")


@transaction.atomic
def _replay(endpoint: WebhookEndpoint, answer: Mapping[str, Any]) -> str:
    since = database_now() - timedelta(hours=answer["hours"])
    count = replay(endpoint.id, EventRange(since), caller=platform_caller())
    return f"{count} events are due again."


@transaction.atomic
def _rotate(endpoint: WebhookEndpoint, answer: Mapping[str, Any]) -> dict[str, object]:
    made = rotate_secret(
        endpoint.id, overlap_hours=answer["overlap_hours"], caller=platform_caller()
    )
    return {"secret": made.secret, "of": f"The new secret of {endpoint.url}"}


def _enable(endpoint: WebhookEndpoint, answer: Mapping[str, Any]) -> str:
    update_endpoint(endpoint.id, {"enabled": True}, caller=platform_caller())
    return "It is on: events from now on are sent to it. Replay for those before."


def _disable(endpoint: WebhookEndpoint, answer: Mapping[str, Any]) -> str:
    update_endpoint(endpoint.id, {"enabled": False}, caller=platform_caller())
    return "It is off."


def _is_off(endpoint: WebhookEndpoint) -> str:
    return "" if endpoint.disabled_reason is None else "it is off"


def _is_on(endpoint: WebhookEndpoint) -> str:
    if endpoint.disabled_reason is None:
        return "it is on"
    if endpoint.disabled_reason == DisabledReason.URL_CHANGED:
        return "its URL is new: a test that passes turns it on"
    return ""


def _how_it_goes(endpoint: WebhookEndpoint) -> Iterator[tuple[str, object]]:
    waiting = WebhookDispatch.objects.filter(
        endpoint=endpoint, state=DispatchState.PENDING
    )
    yield "URL", endpoint.url
    yield "Failures since the last success", endpoint.failures
    yield "Events on their way", waiting.count()


TEST: Final = Act(
    name="test",
    label="Send a test",
    permission=Duty.WEBHOOKS.permission,
    what="One webhook.test is sent now, and its end is shown; it takes up to 15 s.",
    run=_test,
    facts=_how_it_goes,
)
REPLAY: Final = Act(
    name="replay",
    label="Replay",
    permission=Duty.WEBHOOKS.permission,
    what="Events that were sent before are sent again. A receiver tells them apart by"
    " their id.",
    run=_replay,
    refused=_is_off,
    facts=_how_it_goes,
    form=ReplayForm,
)
ENABLE: Final = Act(
    name="enable",
    label="Turn it on",
    permission=Duty.WEBHOOKS.permission,
    what="It is told of events again, and its failures are forgotten.",
    run=_enable,
    refused=_is_on,
    facts=_how_it_goes,
)
DISABLE: Final = Act(
    name="disable",
    label="Turn it off",
    permission=Duty.WEBHOOKS.permission,
    what="Nothing more is sent to it. What is on its way is given up, and can be"
    " replayed later.",
    run=_disable,
    refused=_is_off,
    facts=_how_it_goes,
    is_grave=True,
)
ROTATE: Final = Act(
    name="rotate-secret",
    label="Give it a new secret",
    permission=Duty.WEBHOOKS.permission,
    what="Both secrets sign for a while, so that the receiver can change over.",
    run=_rotate,
    form=RotateForm,
    shown="staff/secret.html",
)


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ActingAdmin):
    """Where events go; nothing of its secrets is shown."""

    acts = (TEST, REPLAY, ENABLE, DISABLE, ROTATE)
    change_form_template = "staff/webhook.html"
    list_display = ("short_url", "tenant", "disabled_reason", "failures", "created_at")
    list_filter = ("disabled_reason",)
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "url", "tenant__slug")
    exclude = ("secret_enc", "prev_secret_enc")

    @admin.display(description="url", ordering=None)
    def short_url(self, endpoint: WebhookEndpoint) -> str:
        """Return the URL, cut for a list."""
        return endpoint.url if len(endpoint.url) <= 60 else f"{endpoint.url[:59]}…"

    def known(self, request: HttpRequest, record: WebhookEndpoint) -> dict[str, Any]:
        """Return the latest attempts at the endpoint."""
        rows = WebhookAttempt.objects.filter(endpoint=record)
        return {"attempts": rows.order_by("-created_at", "-id")[:ATTEMPTS_SHOWN]}


@admin.register(WebhookAttempt)
class WebhookAttemptAdmin(ReadOnlyAdmin):
    """One request to an endpoint, and how it ended."""

    list_display = ("created_at", "event_type", "attempt", "status", "error")
    list_filter = ("status", "error")
    ordering = ("-id",)
    exact_search = ("id", "event_id", "endpoint_id", "event_type")
