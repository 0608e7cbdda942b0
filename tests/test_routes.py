"""Every route is in the table of access, and in the description."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import URLPattern

from mailboxes.scopes import LEVELS
from pylota.api.access import ACCESS, PUBLIC
from pylota.api.views import describe
from pylota.urls import urlpatterns, v1

VERBS = ("get", "post", "put", "patch", "delete")


def calls() -> set[tuple[str, str]]:
    """Return each (route name, verb) that a view answers under /v1."""
    found = set()
    for pattern in v1:
        assert isinstance(pattern, URLPattern)
        view: Any = pattern.callback
        name = pattern.name or ""
        found |= {(name, v.upper()) for v in VERBS if hasattr(view.view_class, v)}
    return found


def test_every_call_of_v1_says_what_it_needs() -> None:
    assert calls() == set(ACCESS)


def test_no_rule_asks_for_a_level_that_cannot_hold_its_scopes() -> None:
    for rule in ACCESS.values():
        assert rule.levels
        for scope in rule.scopes:
            assert rule.levels <= LEVELS[scope]


def test_only_the_named_routes_are_public() -> None:
    named = {p.name for p in urlpatterns if isinstance(p, URLPattern)}

    assert named == PUBLIC


@pytest.mark.parametrize("call", sorted(calls()))
def test_every_call_is_described_with_its_refusals(call: tuple[str, str]) -> None:
    name, verb = call
    routes = {p.name: str(p.pattern) for p in v1 if isinstance(p, URLPattern)}
    path = "/v1/" + re.sub("<(?:str|path):(.+?)>", r"{\1}", routes[name])

    operation = describe()["paths"][path][verb.lower()]

    assert {"401", "403", "404", "429", "500", "503"} <= set(operation["responses"])
    assert operation["description"]


def test_the_send_is_described_whole() -> None:
    path = "/v1/identities/{identity_id}/messages"
    send = describe()["paths"][path]["post"]

    assert {"202", "400", "402", "409", "411", "413", "422", "504"} <= set(
        send["responses"]
    )
    body = send["requestBody"]["content"]["application/json"]
    assert body["examples"]
    schema = describe()["components"]["schemas"]["SendRequest"]
    assert sorted(schema["required"]) == ["subject", "to"]
    assert schema["additionalProperties"] is False


def test_the_description_is_served_without_a_key(client: Client) -> None:
    response = client.get("/openapi.json")

    assert response.status_code == 200
    assert response.json() == describe()


def test_the_committed_description_is_the_one_that_is_served() -> None:
    committed = json.loads((settings.ROOT / "docs" / "openapi.json").read_text())

    assert committed == json.loads(json.dumps(describe()))
