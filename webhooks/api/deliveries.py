"""What an endpoint was sent, a test of it, and sending again; another secret."""

from typing import Any, Final

from django.db import IntegrityError
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.clock import database_now
from core.described import described
from core.forms import Nothing
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_each_once, answer_once
from mailboxes.callers import caller_of
from mailboxes.paging import page_of
from webhooks.api.endpoint_schemas import (
    AttemptQuery,
    NamedReplay,
    RangeReplay,
    Replayed,
    Replays,
    RotateSecretForm,
    WebhookAttemptOut,
    WebhookAttemptPage,
    WebhookWithSecret,
)
from webhooks.api.shown import attempt_json, with_secret
from webhooks.api.waiting import place_to_wait
from webhooks.api.webhooks import MAIL, NOT_THERE, SHOWN_ONCE, TAGS
from webhooks.deliver import try_now
from webhooks.errors import WebhookNotFound
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.replay import MOST_IN_RANGE, EventRange, NamedEvents, replay
from webhooks.selectors import attempts_at, endpoint_in_reach
from webhooks.services import pass_test, rotate_secret
from webhooks.statuses import AttemptStatus

_OUTAGE: Final = OpenApiExample(
    "What was given up in an outage",
    value={"since": "2026-11-02T09:00:00Z", "status": "dead"},
    request_only=True,
)
_NAMED: Final = OpenApiExample(
    "One event", value=NamedReplay.example, request_only=True
)
_FILTERS: Final = {
    "status": "status",
    "event_type": "event_type",
    "after": "created_at__gt",
}


class RotateSecretView(ApiView):
    """An endpoint's secrets."""

    @described(
        operation_id="rotateWebhookSecret",
        tags=TAGS,
        request=RotateSecretForm,
        parameters=[KEY_HEADER],
        examples=[SHOWN_ONCE],
        responses={200: WebhookWithSecret, **refusals({404: NOT_THERE})},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """Give an endpoint a new secret, and show it.

        For `overlap_hours` more the one before signs as well: two signatures, the new
        one's first.
        """
        caller = caller_of(request)

        def rotate(form: RotateSecretForm) -> Answer:
            turned = rotate_secret(
                webhook_id, overlap_hours=form.overlap_hours, caller=caller
            )
            return Answer(with_secret(turned), status=200)

        return answer_once(
            request,
            RotateSecretForm,
            rotate,
            reach=lambda: endpoint_in_reach(webhook_id, caller=caller),
        )


class WebhookTestView(ApiView):
    """A call of an endpoint that tells of nothing."""

    @described(
        operation_id="testWebhook",
        tags=TAGS,
        request=None,
        parameters=[KEY_HEADER],
        responses={
            200: WebhookAttemptOut,
            **refusals(
                {
                    400: "`invalid_request`: the call takes no body.",
                    404: NOT_THERE,
                    503: "`unavailable`: too many requests wait for endpoints.",
                }
            ),
        },
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """Send a `webhook.test` now, once, and return how it ended.

        It takes up to 15 s. An endpoint that is off is called as well; one that waits
        for a test of its new URL is turned on by a 2xx.
        """
        caller = caller_of(request)

        def attempt(_: Nothing) -> Answer:
            endpoint = endpoint_in_reach(webhook_id, caller=caller)
            tried = _tried(endpoint)
            if tried.status == AttemptStatus.SUCCEEDED:
                pass_test(webhook_id, url=endpoint.url, caller=caller)
            return Answer(attempt_json(tried), status=200)

        return answer_each_once(
            request,
            Nothing.parse,
            attempt,
            reach=lambda: endpoint_in_reach(webhook_id, caller=caller),
        )


class ReplayView(ApiView):
    """Events that an endpoint is sent again."""

    @described(
        operation_id="replayWebhook",
        tags=TAGS,
        request=Replays,
        parameters=[KEY_HEADER],
        examples=[_NAMED, _OUTAGE],
        responses={
            202: Replayed,
            **refusals(
                {
                    400: "`invalid_request`: path `since` for a range that holds more"
                    f" than {MOST_IN_RANGE} events; `details.reason` is"
                    " `endpoint_disabled` for an endpoint that is off."
                    " `invalid_idempotency_key`.",
                    403: MAIL,
                    404: NOT_THERE,
                }
            ),
        },
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        """Send stored events to an endpoint again, with the ids that they had.

        Name up to 100, or a time with up to 1,000. What the endpoint does not cover, or
        is older than 30 days (or `events_days`), is passed over; attempts are counted
        on, and their schedule starts anew.
        """
        caller = caller_of(request)

        def again(wanted: NamedEvents | EventRange) -> Answer:
            dispatched = replay(webhook_id, wanted, caller=caller)
            return Answer({"dispatched": dispatched}, status=202)

        return answer_once(
            request,
            _Wanted(),
            again,
            reach=lambda: endpoint_in_reach(webhook_id, caller=caller),
        )


class DeliveriesView(ApiView):
    """The attempts at an endpoint."""

    @described(
        operation_id="listWebhookDeliveries",
        tags=TAGS,
        parameters=AttemptQuery.parameters(),
        responses={200: WebhookAttemptPage, **refusals({404: NOT_THERE})},
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        """List the attempts at an endpoint, newest first."""
        endpoint = endpoint_in_reach(webhook_id, caller=caller_of(request))
        query = AttemptQuery.parse(request.query_params)
        asked = {column: getattr(query, name) for name, column in _FILTERS.items()}
        found = attempts_at(endpoint).filter(
            **{column: value for column, value in asked.items() if value is not None}
        )
        return Response(page_of(found, request, query=query, render=attempt_json))


def _tried(endpoint: WebhookEndpoint) -> WebhookAttempt:
    """Call an endpoint; raises WebhookNotFound when it was deleted meanwhile."""
    with place_to_wait():
        try:
            return try_now(endpoint, now=database_now())
        except IntegrityError:
            raise WebhookNotFound("No such endpoint.") from None


class _Wanted:
    """Chooses between the two bodies of a replay."""

    def parse(self, body: dict[str, Any]) -> NamedEvents | EventRange:
        """Return which events are meant; raises InvalidRequest."""
        if "event_ids" in body:
            return NamedEvents(NamedReplay.parse(body).event_ids)
        form = RangeReplay.parse(body)
        return EventRange(form.since, form.until, form.given().get("status"))
