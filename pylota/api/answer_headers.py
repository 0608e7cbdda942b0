"""The headers that answers carry, described once for all of them."""

from collections.abc import Iterator
from typing import Any, Final

from core.ids import ID_PATTERN


def _header(schema: dict[str, Any], what: str, *, required: bool) -> dict[str, Any]:
    return {"schema": schema, "description": what, "required": required}


_COUNT: Final = {"type": "integer", "minimum": 0}
_WAIT: Final = {"type": "integer", "minimum": 1}

HEADERS: Final[dict[str, dict[str, Any]]] = {
    "Request-Id": _header(
        {"type": "string", "pattern": ID_PATTERN.format(prefix="req")},
        "Names this request in the server's log; refusals repeat it as `request_id`.",
        required=True,
    ),
    "RateLimit-Limit": _header(
        _COUNT,
        "Calls a minute in the bucket of the key, or in the one that refused;"
        " 0: not limited. Absent where no route was found.",
        required=False,
    ),
    "RateLimit-Reset": _header(
        _WAIT, "The same seconds, of `rate_limited`.", required=False
    ),
    "Retry-After": _header(
        _WAIT, "Seconds to wait before the same request.", required=True
    ),
    "Idempotent-Replayed": _header(
        {"type": "string", "const": "true"},
        "There when this is the first answer again, and nothing was done.",
        required=False,
    ),
    "WWW-Authenticate": _header(
        {"type": "string", "const": "Bearer"}, "The scheme of keys.", required=True
    ),
}
"""Each header by its name; answers refer to it."""


def headers_of(
    status: str, *, takes_key: bool, repeats: bool
) -> dict[str, dict[str, str]]:
    """Return the headers of one answer, as references."""
    named = _names(status, takes_key=takes_key, repeats=repeats)
    return {name: {"$ref": f"#/components/headers/{name}"} for name in named}


def _names(status: str, *, takes_key: bool, repeats: bool) -> Iterator[str]:
    yield "Request-Id"
    if status == "401":
        yield "WWW-Authenticate"
    elif takes_key and status not in ("500", "503"):
        yield "RateLimit-Limit"
    if status == "429":
        yield from ("Retry-After", "RateLimit-Reset")
    if repeats and status.startswith("2"):
        yield "Idempotent-Replayed"
