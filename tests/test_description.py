"""The description of the API: valid, whole, and with the codes of the contract."""

import json
import re
from collections.abc import Iterator
from functools import partial
from operator import add
from typing import Any

import jsonschema_rs
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from drf_spectacular.validation import validate_schema

from pylota.api.views import describe
from pylota.management.commands.docs import PAGES
from tests.support.calls import SENDING, calls, route_of

EVERYWHERE = (
    "unauthenticated key_expired key_revoked permission_denied scope_denied"
    " rate_limited internal_error unavailable"
)
WITH_BODY = "invalid_request payload_too_large length_required"
ONCE = f"{WITH_BODY} invalid_idempotency_key idempotency_conflict request_in_progress"
LIST = "invalid_request cursor_expired"
NO_IDENTITY = "identity_not_found"
NO_MESSAGE = "identity_not_found message_not_found"
NO_WEBHOOK = "webhook_not_found"
NO_ADDRESS = "address_invalid address_unsupported"
SEND = (
    f"{ONCE} idempotency_key_required identity_not_found tenant_suspended"
    " identity_paused identity_owner_required too_many_recipients"
    f" {NO_ADDRESS} test_mode_recipient marketing_requirements_missing"
    " header_not_allowed domain_not_ready transport_unavailable message_too_large"
    " billing_limit daily_cap_reached thread_busy all_recipients_suppressed"
    " recipient_blocked timeout"
)
ANSWER = f"{SEND} message_not_found auto_reply_not_allowed loop_detected"
KEY = "key_not_found key_scope_exceeded"
NO_LIST = f"tenant_not_found route_not_found {NO_ADDRESS}"

CODES: dict[tuple[str, str], str] = {
    ("me", "GET"): "",
    ("tenants", "POST"): f"{ONCE} slug_taken suffix_taken",
    ("tenants", "GET"): LIST,
    ("tenant", "GET"): "tenant_not_found",
    ("tenant", "PATCH"): f"{WITH_BODY} tenant_not_found",
    ("tenant-policy", "GET"): "tenant_not_found",
    ("tenant-policy", "PATCH"): f"{WITH_BODY} tenant_not_found",
    ("tenant-billing", "GET"): "tenant_not_found",
    ("tenant-billing", "PATCH"): f"{WITH_BODY} tenant_not_found",
    ("tenant-identities", "POST"): f"{ONCE} tenant_not_found domain_not_found"
    f" {NO_ADDRESS} address_reserved local_part_too_long client_id_conflict"
    " username_taken address_taken domain_not_ready billing_limit",
    ("tenant-identities", "GET"): f"{LIST} tenant_not_found",
    ("identities", "GET"): LIST,
    ("identity-lookup", "GET"): f"invalid_request {NO_ADDRESS} {NO_IDENTITY}",
    ("identity", "GET"): NO_IDENTITY,
    ("identity", "PATCH"): f"{WITH_BODY} {NO_IDENTITY} identity_paused",
    ("identity", "DELETE"): f"invalid_request {NO_IDENTITY}",
    ("addresses", "GET"): f"{LIST} {NO_IDENTITY}",
    ("addresses", "POST"): f"{ONCE} {NO_IDENTITY} domain_not_found {NO_ADDRESS}"
    " address_reserved address_taken address_limit_reached",
    ("address", "DELETE"): f"{NO_IDENTITY} address_not_found address_is_primary"
    " address_in_use",
    ("address-promote", "POST"): f"{ONCE} {NO_IDENTITY} address_not_found"
    " domain_not_ready",
    ("address-retire", "POST"): f"{ONCE} {NO_IDENTITY} address_not_found"
    " address_is_primary address_in_use",
    ("threads", "GET"): f"{LIST} {NO_IDENTITY}",
    ("thread", "GET"): f"{LIST} {NO_IDENTITY} thread_not_found",
    ("thread", "PATCH"): f"{WITH_BODY} {NO_IDENTITY} thread_not_found",
    ("messages", "GET"): f"{LIST} {NO_IDENTITY}",
    ("messages", "POST"): f"{SEND} thread_not_found",
    ("message", "GET"): f"invalid_request {NO_MESSAGE}",
    ("message", "PATCH"): f"{WITH_BODY} {NO_MESSAGE}",
    ("message-raw", "GET"): f"{NO_MESSAGE} raw_expired",
    ("message-attachment", "GET"): f"{NO_IDENTITY} attachment_not_found",
    ("message-attempts", "GET"): f"{LIST} {NO_MESSAGE}",
    ("message-cancel", "POST"): "invalid_idempotency_key idempotency_conflict"
    f" request_in_progress {NO_MESSAGE} not_cancelable",
    ("message-resolve", "POST"): f"{ONCE} {NO_MESSAGE} not_uncertain",
    ("messages-resolve", "POST"): f"{ONCE} tenant_not_found identity_not_found"
    " domain_not_found",
    ("message-reply", "POST"): ANSWER,
    ("message-reply-all", "POST"): ANSWER,
    ("message-forward", "POST"): f"{SEND} message_not_found",
    ("suppressions", "POST"): f"{ONCE} tenant_not_found {NO_ADDRESS}",
    ("suppressions", "GET"): f"{LIST} tenant_not_found {NO_ADDRESS}",
    ("suppression", "DELETE"): f"{WITH_BODY} tenant_not_found suppression_not_found"
    f" {NO_ADDRESS}",
    ("list", "GET"): f"{LIST} tenant_not_found route_not_found",
    ("list-entry", "GET"): f"{NO_LIST} list_entry_not_found",
    ("list-entry", "PUT"): f"{WITH_BODY} {NO_LIST}",
    ("list-entry", "DELETE"): f"{NO_LIST} list_entry_not_found",
    ("keys", "POST"): f"{ONCE} key_scope_exceeded key_limit_reached tenant_not_found"
    " identity_not_found",
    ("keys", "GET"): LIST,
    ("key", "GET"): KEY,
    ("key", "DELETE"): f"invalid_request {KEY}",
    ("key-rotate", "POST"): f"{ONCE} {KEY}",
    ("usage", "GET"): "invalid_request tenant_not_found",
    ("usage-daily", "GET"): "invalid_request tenant_not_found",
    ("webhooks", "POST"): f"{ONCE} webhook_limit_reached",
    ("webhooks", "GET"): LIST,
    ("tenant-webhooks", "POST"): f"{ONCE} tenant_not_found webhook_limit_reached",
    ("tenant-webhooks", "GET"): f"{LIST} tenant_not_found",
    ("webhook", "GET"): NO_WEBHOOK,
    ("webhook", "PATCH"): f"{WITH_BODY} {NO_WEBHOOK}",
    ("webhook", "DELETE"): f"invalid_request {NO_WEBHOOK}",
    ("webhook-rotate-secret", "POST"): f"{ONCE} {NO_WEBHOOK}",
    ("webhook-test", "POST"): "invalid_request invalid_idempotency_key"
    f" idempotency_conflict request_in_progress {NO_WEBHOOK}",
    ("webhook-replay", "POST"): f"{ONCE} {NO_WEBHOOK}",
    ("webhook-deliveries", "GET"): f"{LIST} {NO_WEBHOOK}",
    ("audit-events", "GET"): LIST,
    ("events", "GET"): LIST,
    ("signing-key-rotate", "POST"): "invalid_request invalid_idempotency_key"
    " idempotency_conflict request_in_progress route_not_found",
}
"""What the contract says that each call may be refused with (sections 3 and 4.1)."""


def operation(call: tuple[str, str]) -> dict[str, Any]:
    path = re.sub("<(?:str|path):(.+?)>", r"{\1}", route_of(call[0]))
    found: dict[str, Any] = describe()["paths"][path][call[1].lower()]
    return found


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, verbs in describe()["paths"].items():
        for verb, found in verbs.items():
            yield f"{verb} {path}", found


def examples() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield each example: where it stands, the schema that it is of, and its value."""
    for name, found in operations():
        contents = [found.get("requestBody", {}).get("content", {})]
        contents += [r.get("content", {}) for r in found["responses"].values()]
        for content in contents:
            for media in content.values():
                for shown in media.get("examples", {}).values():
                    yield name, media["schema"], shown["value"]


def test_the_table_of_codes_has_every_call() -> None:
    assert sorted(CODES) == calls()


@pytest.mark.parametrize("call", sorted(CODES), ids=" ".join)
def test_every_code_of_a_call_is_named_in_its_answers(call: tuple[str, str]) -> None:
    answers = operation(call)["responses"]
    told = " ".join(a["description"] for s, a in answers.items() if s >= "400")

    named = set(re.findall(r"`([a-z_]+)`", told))

    assert {*CODES[call].split(), *EVERYWHERE.split()} - named == set()


def test_the_committed_document_is_openapi_3_1() -> None:
    committed = json.loads((settings.ROOT / "docs" / "openapi.json").read_text())

    assert committed["openapi"].startswith("3.1.")
    validate_schema(committed)


def test_a_document_that_differs_fails_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call_command("docs", check=True)
    for name, document in PAGES.items():
        changed = {**PAGES, name: partial(add, document(), " ")}
        monkeypatch.setattr("pylota.management.commands.docs.PAGES", changed)
        with pytest.raises(CommandError, match=name):
            call_command("docs", check=True)


@pytest.mark.parametrize("name", [name for name, _ in operations()])
def test_an_operation_says_what_it_is_with_examples_of_all_its_json(name: str) -> None:
    found = dict(operations())[name]
    bodies = [found["requestBody"]] if "requestBody" in found else []
    bodies += [r for s, r in found["responses"].items() if s < "300"]

    assert found["summary"]
    assert found["operationId"]
    for body in bodies:
        for kind, media in body.get("content", {}).items():
            assert kind != "application/json" or media["examples"], name


def test_every_example_fits_its_schema() -> None:
    components = {"components": describe()["components"]}

    for name, schema, value in examples():
        fits = jsonschema_rs.validator_for({**components, **schema})
        assert [str(error) for error in fits.iter_errors(value)] == [], name


def test_every_part_of_a_path_is_described_and_ids_have_their_pattern() -> None:
    for name, found in operations():
        for parameter in found.get("parameters", []):
            assert parameter["description"], (name, parameter["name"])
            if parameter["name"].endswith("_id") and parameter["in"] == "path":
                assert parameter["schema"]["pattern"].endswith("26}$"), name


def test_every_status_is_a_closed_list() -> None:
    for name, schema in describe()["components"]["schemas"].items():
        shown = schema.get("properties", {}).get("status")
        if shown is not None:
            (inner,) = shown.get("allOf", [shown])
            reference = inner.get("$ref", "").rpartition("/")[2]
            found = describe()["components"]["schemas"].get(reference, inner)
            assert found.get("enum") or found.get("const"), name


def test_headers_are_described_once_and_told_of_every_answer() -> None:
    for name, found in operations():
        takes_key = found.get("security") != [{}] and "401" in found["responses"]
        for status, answer in found["responses"].items():
            headers = answer["headers"]
            assert all("$ref" in header for header in headers.values())
            assert "Request-Id" in headers
            limited = takes_key and status not in ("401", "500", "503")
            assert ("RateLimit-Limit" in headers) is limited, (name, status)
            assert ("Retry-After" in headers) is (status == "429")


@pytest.mark.parametrize("call", calls(["POST"]), ids=" ".join)
def test_a_post_tells_of_its_key_and_of_repeats(call: tuple[str, str]) -> None:
    found = operation(call)
    (key,) = [p for p in found["parameters"] if p["name"] == "Idempotency-Key"]

    assert key["description"].startswith("Required" if call[0] in SENDING else "Option")
    for status, answer in found["responses"].items():
        assert ("Idempotent-Replayed" in answer["headers"]) is (status < "300")
