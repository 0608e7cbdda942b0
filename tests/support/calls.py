"""Every call of ``/v1``, taken from the routes, with what makes it succeed.

One table for the tests that try all routes: a new route fails them until it has a line
here. Paths are filled from the rows of ``lived_in``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.urls import URLPattern

from pylota.urls import v1
from tests.support.api import booking

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Call = tuple[str, str]
"""A route's name, and a verb."""


@dataclass(frozen=True)
class Good:
    """What makes a call succeed on rows that are there.

    ``other`` is another body, or another query, that is as good; ``parts`` are names
    of the rows that this call takes in place of the usual ones.
    """

    body: Mapping[str, Any] | None = None
    other: Mapping[str, Any] | str = ""
    query: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)


_ANSWER: Final = Good({"text": "Fine."})
_PENDING: Final = {"address_id": "pending_address_id"}
_IN_DOUBT: Final = {"message_id": "doubtful_message_id"}
_DOMAIN: Final = "{domain_id}"
_DOUBTFUL: Final = "{doubtful_message_id}"
_USAGE: Final = Good(query="tenant_id={tenant_id}")
_EVENT: Final = "{event_id}"
_ASKING: Final = ["messages:read"]
_HOOK: Final = {"url": "https://127.0.0.1/hook", "events": ["message.sent"]}

GOOD: Final[Mapping[Call, Good]] = {
    ("keys", "POST"): Good(
        {"name": "a", "permissions": _ASKING}, {"name": "b", "permissions": _ASKING}
    ),
    ("key-rotate", "POST"): Good({}, {"overlap_hours": 1}),
    ("tenants", "POST"): Good(
        {"slug": "globex", "mode": "live"}, {"slug": "initech", "mode": "live"}
    ),
    ("tenant", "PATCH"): Good({"name": "Globex"}),
    ("tenant-policy", "PATCH"): Good({"policy": {"max_recipients": 5}}),
    ("tenant-billing", "PATCH"): Good({"plan_id": "team"}),
    ("tenant-identities", "POST"): Good(
        {"username": "desk", "display_name": "Desk"},
        {"username": "shop", "display_name": "Shop"},
    ),
    ("usage", "GET"): _USAGE,
    ("usage-daily", "GET"): _USAGE,
    ("suppressions", "POST"): Good(
        {"address": "new@example.net"}, {"address": "newer@example.net"}
    ),
    ("list-entry", "PUT"): Good({"note": "asked by phone"}),
    ("identity", "PATCH"): Good({"display_name": "Desk"}),
    ("identity-lookup", "GET"): Good(query="address={known_address}"),
    ("addresses", "POST"): Good(
        {"domain_id": _DOMAIN, "local_part": "desk"},
        {"domain_id": _DOMAIN, "local_part": "shop"},
    ),
    ("address", "DELETE"): Good(parts=_PENDING),
    ("address-promote", "POST"): Good({}, {"retire_previous_after_days": 3}),
    ("address-retire", "POST"): Good({}, {"after_days": 3}),
    ("messages", "POST"): Good(booking()),
    ("message-reply", "POST"): _ANSWER,
    ("message-reply-all", "POST"): _ANSWER,
    ("message-forward", "POST"): Good({"to": ["kim@example.org"]}),
    ("message-resolve", "POST"): Good(
        {"outcome": "sent"}, {"outcome": "not_sent"}, parts=_IN_DOUBT
    ),
    ("messages-resolve", "POST"): Good(
        {"outcome": "sent", "message_ids": [_DOUBTFUL]},
        {"outcome": "not_sent", "message_ids": [_DOUBTFUL]},
    ),
    ("message-cancel", "POST"): Good(parts={"message_id": "queued_message_id"}),
    ("thread", "PATCH"): Good({"read": True}),
    ("message", "PATCH"): Good({"labels_add": ["urgent"]}),
    ("webhooks", "POST"): Good(_HOOK, {**_HOOK, "events": ["*"]}),
    ("tenant-webhooks", "POST"): Good(_HOOK, {**_HOOK, "events": ["*"]}),
    ("webhook", "PATCH"): Good({"events": ["message.sent"]}),
    ("webhook-rotate-secret", "POST"): Good({}, {"overlap_hours": 1}),
    ("webhook-test", "POST"): Good(),
    ("webhook-replay", "POST"): Good(
        {"event_ids": [_EVENT]}, {"since": "2026-11-02T09:00:00Z"}
    ),
    ("signing-key-rotate", "POST"): Good(other="revoke_previous=true"),
}
"""A call that is not named succeeds with neither body nor query."""

SENDING: Final = frozenset(
    {"messages", "message-reply", "message-reply-all", "message-forward"}
)
"""Routes whose POST sends: their ledger is the mailbox's own."""


def route_of(name: str) -> str:
    """Return the path of a route as it stands in the table of routes."""
    return {p.name: f"/v1/{p.pattern}" for p in _patterns()}[name]


def calls(verbs: Iterable[str] = VERBS) -> list[Call]:
    """Return each (route's name, verb) that a view answers under /v1."""
    return sorted(
        (pattern.name or "", verb)
        for pattern in _patterns()
        for verb in verbs
        if hasattr(_view(pattern), verb.lower())
    )


def filled(call: Call, rows: Mapping[str, str]) -> str:
    """Return the path of a call with its query, every part named by a row."""
    good = GOOD.get(call, Good())
    named = {**rows, **{part: rows[row] for part, row in good.parts.items()}}
    path = re.sub(r"<\w+:(\w+)>", lambda part: named[part[1]], route_of(call[0]))
    return f"{path}?{good.query.format_map(rows)}" if good.query else path


def body_of(call: Call, rows: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the body that makes a call succeed, or None where it takes none."""
    return _with_ids(GOOD.get(call, Good()).body, rows)


def has_another(call: Call) -> bool:
    """Tell whether another request of the kind can be made: some take nothing."""
    return bool(GOOD[call].other)


def another(call: Call, rows: Mapping[str, str]) -> tuple[str, dict[str, Any] | None]:
    """Return another request of the same kind: its path, and its body."""
    other = GOOD[call].other
    if isinstance(other, str):
        return f"{filled(call, rows)}?{other}", body_of(call, rows)
    return filled(call, rows), _with_ids(other, rows)


def _with_ids(
    body: Mapping[str, Any] | None, rows: Mapping[str, str]
) -> dict[str, Any] | None:
    if body is None:
        return None
    return {name: _with_id(value, rows) for name, value in body.items()}


def _with_id(value: Any, rows: Mapping[str, str]) -> Any:
    """Put a row's id where a body names it."""
    if isinstance(value, list):
        return [_with_id(one, rows) for one in value]
    if value in (_DOMAIN, _DOUBTFUL, _EVENT):
        return rows[value.strip("{}")]
    return value


def _patterns() -> list[URLPattern]:
    return [pattern for pattern in v1 if isinstance(pattern, URLPattern)]


def _view(pattern: URLPattern) -> Any:
    view: Any = pattern.callback
    return view.view_class
