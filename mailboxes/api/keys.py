"""API keys: made, shown, rotated and revoked; none wider than the calling one."""

from datetime import datetime
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_optional_json
from core.described import described
from core.forms import Nothing, PageQuery
from core.schemas import NO_BODY, refusals
from core.views import ApiView
from mailboxes.api.key_schemas import (
    KEY_EXAMPLE,
    Key,
    KeyForm,
    KeyPage,
    KeyWithSecret,
    RotateForm,
)
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import caller_of
from mailboxes.key_requests import KeyWish, mint_key, revoke_key, rotate_secret
from mailboxes.key_selectors import key_in_reach, keys_within
from mailboxes.key_services import NewKey
from mailboxes.models import ApiKey
from mailboxes.paging import page_of
from mailboxes.selectors import key_of
from mailboxes.services import render_instant

NOT_THERE: Final = "`key_not_found`: no such key, or out of the calling key's reach."
WIDER: Final = (
    "`key_scope_exceeded`: the key is wider than the calling one;"
    " `permission_denied`, `scope_denied`."
)
SECRET: Final = f"pmk_live_0123456789ab_{'0' * 52}"
ASKED: Final = OpenApiExample(
    "A key of an identity",
    value={
        "name": KEY_EXAMPLE["name"],
        "permissions": KEY_EXAMPLE["permissions"],
        "identity_id": KEY_EXAMPLE["identity_id"],
    },
    request_only=True,
)
SHOWN_ONCE: Final = OpenApiExample(
    "The secret is shown once",
    value={**KEY_EXAMPLE, "secret": SECRET},
    response_only=True,
    status_codes=["200", "201"],
)


class MeView(ApiView):
    """Shows a key to its holder."""

    @described(
        operation_id="me",
        responses=Key,
        tags=["keys"],
    )
    def get(self, request: Request) -> Response:
        """Return the calling key, without its secret, and all that it may do."""
        caller = caller_of(request)
        held = sorted(str(scope) for scope in caller.scopes)
        return Response({**render_key(key_of(caller)), "permissions": held})


class KeysView(ApiView):
    """The keys that the calling one reaches."""

    @described(
        operation_id="createKey",
        tags=["keys"],
        request=KeyForm,
        parameters=[KEY_HEADER],
        examples=[ASKED, SHOWN_ONCE],
        responses={
            201: KeyWithSecret,
            **refusals(
                {
                    400: "`invalid_request`; `details.reason` is"
                    " `permission_not_allowed_for_level` when no key of that level may"
                    " hold a permission. `invalid_idempotency_key`.",
                    403: WIDER,
                    404: "To a platform key: `tenant_not_found`, `identity_not_found`.",
                    422: "`key_limit_reached`: the tenant has 100 live keys.",
                }
            ),
        },
    )
    def post(self, request: Request) -> Response:
        """Make a key, and show its secret: the only time it is seen."""
        caller = caller_of(request)

        def make(form: KeyForm) -> Answer:
            wish = KeyWish(**dict(form))
            return Answer(_with_secret(mint_key(wish, caller=caller)), status=201)

        return answer_once(request, KeyForm, make)

    @described(
        operation_id="listKeys",
        tags=["keys"],
        parameters=PageQuery.parameters(),
        responses=KeyPage,
    )
    def get(self, request: Request) -> Response:
        """List the keys that are no wider than the calling one, newest first."""
        query = PageQuery.parse(request.query_params)
        found = keys_within(caller_of(request))
        return Response(page_of(found, request, query=query, render=render_key))


class KeyView(ApiView):
    """One key."""

    @described(
        operation_id="getKey",
        tags=["keys"],
        responses={200: Key, **refusals({403: WIDER, 404: NOT_THERE})},
    )
    def get(self, request: Request, key_id: str) -> Response:
        """Return a key, without its secret."""
        return Response(render_key(key_in_reach(key_id, caller=caller_of(request))))

    @described(
        operation_id="revokeKey",
        tags=["keys"],
        responses={
            204: None,
            **refusals({400: NO_BODY, 403: WIDER, 404: NOT_THERE}),
        },
    )
    def delete(self, request: Request, key_id: str) -> Response:
        """Revoke a key: its next request is refused. Keys that it made live on."""
        caller = caller_of(request)
        key_in_reach(key_id, caller=caller)  # what is not there has no wrong body
        Nothing.parse(read_optional_json(request._request))
        revoke_key(key_id, caller=caller)
        return Response(status=204)


class RotateKeyView(ApiView):
    """A key's secrets."""

    @described(
        operation_id="rotateKey",
        tags=["keys"],
        request=RotateForm,
        parameters=[KEY_HEADER],
        examples=[SHOWN_ONCE],
        responses={
            200: KeyWithSecret,
            **refusals(
                {
                    400: "`invalid_request`; `details.reason` is `key_revoked` or"
                    " `key_expired` for a key that has ended."
                    " `invalid_idempotency_key`.",
                    403: WIDER,
                    404: NOT_THERE,
                }
            ),
        },
    )
    def post(self, request: Request, key_id: str) -> Response:
        """Give a key a new secret; the one before counts for `overlap_hours` more."""
        caller = caller_of(request)

        def rotate(form: RotateForm) -> Answer:
            turned = rotate_secret(
                key_id, overlap_hours=form.overlap_hours, caller=caller
            )
            return Answer(_with_secret(turned), status=200)

        return answer_once(
            request,
            RotateForm,
            rotate,
            reach=lambda: key_in_reach(key_id, caller=caller),
        )


def render_key(key: ApiKey) -> dict[str, Any]:
    """Return a key as the API shows it (REST contract, section 2.10)."""
    return {
        "id": key.id,
        "name": key.name,
        "level": key.level,
        "mode": key.mode,
        "tenant_id": key.tenant_id,
        "identity_id": key.identity_id,
        "permissions": key.permissions,
        "expires_at": _shown(key.expires_at),
        "revoked_at": _shown(key.revoked_at),
        "last_used_at": _shown(key.last_used_at),
        "created_at": _shown(key.created_at),
    }


def _with_secret(made: NewKey) -> dict[str, Any]:
    return {**render_key(made.key), "secret": made.secret}


def _shown(at: datetime | None) -> str | None:
    return None if at is None else render_instant(at)
