"""Endpoints: made, listed, changed and deleted."""

from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json, read_optional_json
from core.described import described
from core.forms import Nothing, PageQuery
from core.schemas import NO_BODY, refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import Caller, caller_of
from mailboxes.paging import page_of
from mailboxes.selectors import tenant_in_reach
from webhooks.api.endpoint_schemas import (
    WEBHOOK_EXAMPLE,
    Webhook,
    WebhookForm,
    WebhookPage,
    WebhookPatch,
    WebhookQuery,
    WebhookWithSecret,
)
from webhooks.api.shown import webhook_json, with_secret
from webhooks.api.waiting import check_url
from webhooks.models import WebhookEndpoint
from webhooks.selectors import endpoint_in_reach, endpoints_in_reach
from webhooks.services import create_endpoint, delete_endpoint, update_endpoint
from webhooks.wishes import NewEndpoint, changes_of, check_wish

TAGS: Final = ["webhooks"]
NOT_THERE: Final = "`webhook_not_found`: no such endpoint, or out of the key's reach."
NO_TENANT: Final = "`tenant_not_found`: no such tenant, or out of the key's reach."
MAIL: Final = (
    "`permission_denied`, also for `*` and `message.*` with a key that lacks"
    " `messages:read`; `scope_denied`."
)
URL_REFUSED: Final = (
    "`invalid_request`: path `url` for one that may not be called, `events[n]` for a"
    " type that is not known, `identity_ids[n]` for an identity that is not there."
)
LIMIT: Final = "`webhook_limit_reached`: there are `details.limit` endpoints."
SHOWN_ONCE: Final = OpenApiExample(
    "The secret is shown once",
    value={**WEBHOOK_EXAMPLE, "secret": f"whsec_{'A' * 43}="},
    response_only=True,
    status_codes=["200", "201"],
)
_NEW: Final = OpenApiExample(
    "Bounces and complaints", value=WebhookForm.example, request_only=True
)
_CHANGED: Final = OpenApiExample(
    "Every type, and on again", value=WebhookPatch.example, request_only=True
)
_MAKING: Final[dict[int, str]] = {
    400: f"{URL_REFUSED} `invalid_idempotency_key`.",
    403: MAIL,
    422: LIMIT,
}


class WebhooksView(ApiView):
    """The endpoints that a key reaches; those of the platform are made here."""

    @described(
        operation_id="createPlatformWebhook",
        tags=TAGS,
        request=WebhookForm,
        parameters=[KEY_HEADER],
        examples=[_NEW, SHOWN_ONCE],
        responses={201: WebhookWithSecret, **refusals(_MAKING)},
    )
    def post(self, request: Request) -> Response:
        """Make an endpoint that is told of events of all tenants; show its secret."""
        return _made(request, None)

    @described(
        operation_id="listWebhooks",
        tags=TAGS,
        parameters=WebhookQuery.parameters(),
        responses=WebhookPage,
    )
    def get(self, request: Request) -> Response:
        """List the endpoints that the key reaches, newest first."""
        query = WebhookQuery.parse(request.query_params)
        found = endpoints_in_reach(caller_of(request))
        if query.scope is not None:
            found = found.filter(tenant__isnull=query.scope == "platform")
        return _page(request, found, query)


class TenantWebhooksView(ApiView):
    """The endpoints of one tenant."""

    @described(
        operation_id="createWebhook",
        tags=TAGS,
        request=WebhookForm,
        parameters=[KEY_HEADER],
        examples=[_NEW, SHOWN_ONCE],
        responses={201: WebhookWithSecret, **refusals({**_MAKING, 404: NO_TENANT})},
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        """Make an endpoint that is told of the tenant's events; show its secret.

        It hears of what happens from now on; what came before can be replayed to it.
        """
        return _made(request, tenant_id)

    @described(
        operation_id="listWebhooksOfTenant",
        tags=TAGS,
        parameters=PageQuery.parameters(),
        responses={200: WebhookPage, **refusals({404: NO_TENANT})},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """List the endpoints of one tenant, newest first."""
        caller = caller_of(request)
        tenant = tenant_in_reach(tenant_id, caller=caller)
        query = PageQuery.parse(request.query_params)
        return _page(request, endpoints_in_reach(caller).filter(tenant=tenant), query)


class WebhookView(ApiView):
    """One endpoint."""

    @described(
        operation_id="getWebhook",
        tags=TAGS,
        responses={200: Webhook, **refusals({404: NOT_THERE})},
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        """Return an endpoint, without its secret."""
        endpoint = endpoint_in_reach(webhook_id, caller=caller_of(request))
        return Response(webhook_json(endpoint))

    @described(
        operation_id="updateWebhook",
        tags=TAGS,
        request=WebhookPatch,
        examples=[_CHANGED],
        responses={
            200: Webhook,
            **refusals(
                {
                    400: f"{URL_REFUSED} Path `enabled`, with `details.reason`"
                    " `url_changed`: a new URL is not on before a test of it passed.",
                    403: MAIL,
                    404: NOT_THERE,
                }
            ),
        },
    )
    def patch(self, request: Request, webhook_id: str) -> Response:
        """Change the fields that are named.

        Another `url` turns the endpoint off (`url_changed`) until a test of it is
        answered 2xx. `enabled: true` ends any other reason, and counts failures anew.
        """
        caller = caller_of(request)
        endpoint = endpoint_in_reach(webhook_id, caller=caller)
        given = WebhookPatch.parse(read_json(request._request)).given()
        if "url" in changes_of(endpoint, given, caller=caller):
            check_url(given["url"])
        return Response(webhook_json(update_endpoint(webhook_id, given, caller=caller)))

    @described(
        operation_id="deleteWebhook",
        tags=TAGS,
        responses={204: None, **refusals({400: NO_BODY, 404: NOT_THERE})},
    )
    def delete(self, request: Request, webhook_id: str) -> Response:
        """Delete an endpoint, what is on its way to it, and its attempts."""
        caller = caller_of(request)
        endpoint_in_reach(webhook_id, caller=caller)
        Nothing.parse(read_optional_json(request._request))
        delete_endpoint(webhook_id, caller=caller)
        return Response(status=204)


def _made(request: Request, tenant_id: str | None) -> Response:
    caller = caller_of(request)

    def find() -> None:
        if tenant_id is not None:
            tenant_in_reach(tenant_id, caller=caller)

    def check(form: WebhookForm) -> None:
        find()
        check_url(_wish(form, tenant_id, caller).url)

    def make(form: WebhookForm) -> Answer:
        find()
        wish = _wish(form, tenant_id, caller)
        made = create_endpoint(wish, tenant_id=tenant_id, caller=caller)
        return Answer(with_secret(made), status=201)

    return answer_once(request, WebhookForm, make, reach=find, before=check)


def _wish(form: WebhookForm, tenant_id: str | None, caller: Caller) -> NewEndpoint:
    return check_wish(NewEndpoint(**dict(form)), tenant_id=tenant_id, caller=caller)


def _page(
    request: Request, found: QuerySet[WebhookEndpoint], query: PageQuery
) -> Response:
    page: dict[str, Any] = page_of(found, request, query=query, render=webhook_json)
    return Response(page)
