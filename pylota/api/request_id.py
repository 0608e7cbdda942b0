"""The outermost middleware: a ``Request-Id`` on each response, and one line of log."""

import time
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase

from core.ids import new_id

GetResponse = Callable[[HttpRequest], HttpResponseBase]
HEADER = "Request-Id"
LIMIT = "PYLOTA_RATE_LIMIT"
"""Where a request carries the rate limit that its answer tells."""
API_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
}

log = structlog.get_logger()


class RequestIdMiddleware:
    """Names each request, and adds what every answer of the API carries."""

    def __init__(self, get_response: GetResponse) -> None:
        """Stand before all other middleware."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request, whatever happens inside."""
        started = time.monotonic()
        request_id = new_id("req")
        request.META["PYLOTA_REQUEST_ID"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response[HEADER] = request_id
        if not request.path.startswith("/admin/"):  # pages need their referrer
            for name, value in API_HEADERS.items():
                response[name] = value
        if request.path.startswith("/v1/"):
            response.setdefault("Cache-Control", "no-store")
        if LIMIT in request.META:
            response.setdefault("RateLimit-Limit", str(request.META[LIMIT]))
        _log(request, response, started)
        return response


def request_id_of(request: HttpRequest) -> str:
    """Return the id that this request was given."""
    return str(request.META.get("PYLOTA_REQUEST_ID", ""))


def _log(request: HttpRequest, response: HttpResponseBase, started: float) -> None:
    route = request.resolver_match.route if request.resolver_match else "none"
    log.info(
        "http.request",
        route=route,
        method=request.method,
        status=response.status_code,
        duration_ms=round((time.monotonic() - started) * 1000, 1),
    )
