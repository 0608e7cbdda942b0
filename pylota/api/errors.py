"""Refusals become responses here: one envelope on every non-2xx (REST contract 1.2)."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from core.database import AWAY
from core.errors import (
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    PayloadTooLarge,
    PermissionDenied,
    PylotaError,
    RouteNotFound,
    Unauthenticated,
    Unavailable,
)
from pylota.api.request_id import request_id_of

log = structlog.get_logger()


def envelope(error: PylotaError, *, request_id: str) -> dict[str, Any]:
    """Return the body that tells a client what happened and what to do next."""
    return {
        "error": {
            "code": error.code,
            "message": error.detail,
            "retryable": error.retryable,
            "fix": error.fix,
            "request_id": request_id,
            "details": error.details,
        }
    }


def headers_of(error: PylotaError) -> dict[str, str]:
    """Return the headers that belong to a refusal."""
    found: dict[str, str] = {}
    if (wait := error.details.get("retry_after")) is not None:
        found["Retry-After"] = str(wait)
        if error.status == 429:
            found["RateLimit-Reset"] = str(wait)
    elif (resets := error.details.get("resets_at")) is not None and error.status == 429:
        found["Retry-After"] = str(_seconds_until(resets))
    if (limit := error.details.get("limit")) is not None and error.status == 429:
        found["RateLimit-Limit"] = str(limit)
    if error.status == 401:
        found["WWW-Authenticate"] = "Bearer"
    return found


def _seconds_until(instant: str) -> int:
    left = datetime.fromisoformat(instant) - datetime.now(UTC)
    return max(1, math.ceil(left.total_seconds()))


def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn what a view raised into a response; None leaves a bug to Django's 500."""
    refusal = refusal_of(error)
    if refusal is None:
        return None
    request = context["request"]
    structlog.contextvars.bind_contextvars(code=refusal.code)
    headers = headers_of(refusal)
    if isinstance(refusal, MethodNotAllowed):
        headers["Allow"] = ", ".join(context["view"].allowed_methods)
    body = envelope(refusal, request_id=request_id_of(request))
    return Response(body, status=refusal.status, headers=headers)


def refusal_of(error: Exception) -> PylotaError | None:
    """Return the refusal that an exception stands for; None for a bug."""
    if isinstance(error, PylotaError):
        return error
    if isinstance(error, AWAY):
        log.warning("database.away", exc_info=error)
        return Unavailable(
            "The database did not answer.", details={"reason": "database"}
        )
    for kind, make in _TRANSLATED:
        if isinstance(error, kind):
            return make(error)
    return None


_TRANSLATED: tuple[tuple[type[Exception], Callable[[Any], PylotaError]], ...] = (
    (Http404, lambda _: RouteNotFound("No such path.")),
    (exceptions.NotFound, lambda _: RouteNotFound("No such path.")),
    (
        exceptions.MethodNotAllowed,
        lambda _: MethodNotAllowed("The path does not know this verb."),
    ),
    (exceptions.NotAuthenticated, lambda _: Unauthenticated("No usable API key.")),
    (exceptions.PermissionDenied, lambda _: PermissionDenied("Not for this key.")),
    (RequestDataTooBig, lambda _: PayloadTooLarge("The body is over 7 MiB.")),
    (exceptions.APIException, lambda _: InvalidRequest("The request is malformed.")),
)


def respond(request: HttpRequest, error: PylotaError) -> JsonResponse:
    """Return the envelope of a refusal made outside any view."""
    body = envelope(error, request_id=request_id_of(request))
    return JsonResponse(body, status=error.status, headers=headers_of(error))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself refuses to read."""
    if isinstance(exception, DisallowedHost):
        return respond(request, InvalidRequest("The Host header is not PM_API_HOST."))
    if _is_page(request):
        return defaults.bad_request(request, exception)
    if isinstance(exception, RequestDataTooBig):
        return respond(request, PayloadTooLarge("The body is over 7 MiB."))
    return respond(request, InvalidRequest("The request is malformed."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself forbids."""
    if _is_page(request):
        return defaults.permission_denied(request, exception)
    return respond(request, PermissionDenied("Not allowed."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a path that no route matches."""
    if _is_page(request):
        return defaults.page_not_found(request, exception)
    return respond(request, RouteNotFound("No such path."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer after a bug, or with the database away, without a word of what broke."""
    if _is_page(request):
        return defaults.server_error(request)
    return respond(request, InternalError("Something went wrong on our side."))


def _is_page(request: HttpRequest) -> bool:
    return request.path.startswith("/admin/")
