"""A dry run judges like a send, and writes nothing anywhere."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection

from core.clock import database_now
from domains.models import Domain
from mailboxes.models import Identity, Tenant
from outbound.models import LedgerEntry
from suppressions.models import SendListEntry
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.support.answering import received, with_file
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db
DRY = "?dry_run=true"
FILE = {"filename": "a", "content_type": "a/b", "content_base64": "AAAA" * 1_300_000}


def everything() -> dict[str, Any]:
    """Return all rows of all tables, and all files of the object store."""
    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        for model in apps.get_models():
            table = model._meta.db_table
            cursor.execute(f'SELECT t::text FROM "{table}" t ORDER BY 1')  # noqa: S608
            found[table] = cursor.fetchall()
    store: Any = settings.STORAGES["objects"]
    root = Path(store["OPTIONS"]["location"])
    found["objects"] = {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return found


def dry(api: ApiClient, route: str, message_id: str, body: dict[str, Any]) -> Any:
    if route == "send":
        return api.send(body, key=None, path=api.path + DRY)
    return api.answer(route, message_id, body, key=None, query=DRY)


@pytest.mark.parametrize("reply_token", ["none", "subaddress"])
@pytest.mark.parametrize("route", ["send", "thread", "reply", "reply-all", "forward"])
def test_a_dry_run_writes_nothing_anywhere(
    api: ApiClient, identity: Identity, route: str, reply_token: str
) -> None:
    Domain.objects.update(reply_token=reply_token)
    Tenant.objects.update(policy={"large_attachments": "link"})
    asked = received(identity, to_addrs=[])
    with_file(asked)
    bodies: dict[str, dict[str, Any]] = {
        "send": booking(attachments=[FILE]),
        "thread": booking(thread_id=asked.thread.public_id),
        "forward": {"to": ["jo@example.net"]},
    }
    api.get("/v1/me")  # its key has now been used this minute
    before = everything()

    response = dry(
        api,
        "send" if route == "thread" else route,
        asked.public_id,
        bodies.get(route, {"text": "Fine.", "attachments": [FILE]}),
    )

    assert response.status_code == 200, response.content
    assert response.json() == {
        "would_send": True,
        "recipients": [
            {"address": "jo@example.net", "field": "to", "status": "queued"}
        ],
    }
    assert everything() == before


def test_a_dry_run_does_not_wait_for_a_thread_nor_count(
    api: ApiClient, identity: Identity
) -> None:
    Identity.objects.update(send_policy={"daily_cap": 1})
    asked = received(identity)
    assert api.answer("reply", asked.public_id).status_code == 202

    response = dry(api, "reply", asked.public_id, {"text": "x"})

    assert response.status_code == 200  # steps 18 and 19 are not asked


def test_a_dry_run_neither_looks_a_key_up_nor_records_it(api: ApiClient) -> None:
    first = api.send(booking(), key="k")
    other = api.send(booking(text="Another"), key="k", path=api.path + DRY)
    unused = api.send(booking(), key="new", path=api.path + DRY)

    assert [r.status_code for r in (first, other, unused)] == [202, 200, 200]
    assert LedgerEntry.objects.count() == 1
    assert api.send(booking(text="Third"), key="new").json()["deduplicated"] is False


def test_a_dry_run_tells_who_would_be_set_aside_and_why(
    api: ApiClient, identity: Identity
) -> None:
    suppress(
        [NewSuppression("lee@example.org", SuppressionReason.COMPLAINT)],
        tenant_id=identity.tenant_id,
        source_message_id="msg_" + "0" * 26,
        now=database_now(),
    )
    body = booking(bcc=["lee@example.org"])

    assert dry(api, "send", "", body).json()["recipients"] == [
        {"address": "jo@example.net", "field": "to", "status": "queued"},
        {
            "address": "lee@example.org",
            "field": "bcc",
            "status": "suppressed",
            "reason": "complaint",
        },
    ]
    alone = dry(api, "send", "", booking(to=["lee@example.org"]))
    assert (alone.status_code, code_of(alone)) == (422, "all_recipients_suppressed")
    assert alone.json()["error"]["details"]["recipients"][0]["reason"] == "complaint"


@pytest.mark.parametrize(
    ("policy", "own", "entry", "reason"),
    [
        ({}, {}, ("block", "@example.net"), "send_block"),
        ({"send_allowlist_only": True}, {}, None, "not_on_allowlist"),
        ({}, {"require_known_recipient": True}, None, "unknown_recipient"),
    ],
)
def test_a_dry_run_to_nobody_but_the_blocked_says_so(
    api: ApiClient,
    identity: Identity,
    policy: dict[str, Any],
    own: dict[str, Any],
    entry: tuple[str, str] | None,
    reason: str,
) -> None:
    Tenant.objects.update(policy=policy)
    Identity.objects.update(send_policy=own)
    if entry:
        SendListEntry.objects.create(
            tenant=identity.tenant, direction="send", kind=entry[0], entry=entry[1]
        )

    response = dry(api, "send", "", booking())

    assert (response.status_code, code_of(response)) == (422, "recipient_blocked")
    recipients = response.json()["error"]["details"]["recipients"]
    assert [r["reason"] for r in recipients] == [reason]


def test_a_dry_run_gives_the_first_refusal_of_the_policy(api: ApiClient) -> None:
    large = dry(api, "send", "", booking(attachments=[FILE]))
    missing = dry(api, "reply", "msg_" + "0" * 26, {"text": "x"})
    Identity.objects.update(status="paused", pause_reason="manual")
    paused = dry(api, "send", "", booking(attachments=[FILE]))

    assert (large.status_code, code_of(large)) == (413, "message_too_large")
    assert (missing.status_code, code_of(missing)) == (404, "message_not_found")
    assert (paused.status_code, code_of(paused)) == (409, "identity_paused")


def test_what_is_out_of_reach_is_not_there_in_a_dry_run_either(api: ApiClient) -> None:
    path = api.path.replace(api.identity_id, "idn_" + "0" * 26)

    response = api.send(booking(), key=None, path=path + DRY)

    assert (response.status_code, code_of(response)) == (404, "identity_not_found")


@pytest.mark.parametrize("value", ["1", "TRUE", "", "yes"])
def test_a_dry_run_is_asked_for_by_true_and_nothing_else(
    api: ApiClient, value: str
) -> None:
    response = api.send(booking(), path=f"{api.path}?dry_run={value}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", ["dry_run"])
    assert api.send(booking(), path=f"{api.path}?dry_run=false").status_code == 202
