"""Marketing says how to get off the list; automatic replies say that they are one."""

from typing import Any

import pytest

from core import objects
from domains.models import Domain
from mailboxes.models import Identity, Message, Tenant, Thread
from outbound import headers_policy
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.mail_reader import header_block, modern

pytestmark = pytest.mark.django_db
URL = "https://acme.example/u/1?a=b&c=d"
CONSENT = {"basis": "newsletter form", "recorded_at": "2026-01-05T09:00:00Z"}


def marketing(**changes: Any) -> dict[str, Any]:
    given = {
        "kind": "marketing",
        "unsubscribe": {"url": URL, "mailto": "Off@acme.example"},
        "consent": CONSENT,
    }
    return booking(**(given | changes))


def sent_mime(response: Any) -> bytes:
    assert response.status_code == 202, response.content
    message = Message.objects.get(public_id=response.json()["id"])
    return objects.get(message.raw_key or "")


def test_r33_marketing_carries_one_https_way_out_and_the_exact_post(
    api: ApiClient,
) -> None:
    mime = sent_mime(api.send(marketing(html="<html><body><p>Hi</p></body></html>")))

    names = [name for name, _ in header_block(mime)]
    shown = dict(header_block(mime))
    assert names.count("List-Unsubscribe") == names.count("List-Unsubscribe-Post") == 1
    assert shown["List-Unsubscribe"] == f"<{URL}>, <mailto:off@acme.example>"
    assert shown["List-Unsubscribe"].count("https:") == 1
    assert shown["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    text, page = (modern(mime).get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert page is not None
    assert text.get_content().strip().endswith(f"Unsubscribe: {URL}")
    escaped = URL.replace("&", "&amp;")
    assert f'<p><a href="{escaped}">Unsubscribe</a></p></body>' in page.get_content()
    assert Message.objects.get().consent == CONSENT


def test_a_body_that_shows_the_way_out_gets_no_second_one(api: ApiClient) -> None:
    mime = sent_mime(api.send(marketing(text=f"Hi. Leave: {URL}")))

    text = modern(mime).get_body(("plain",))
    assert text is not None
    assert text.get_content().count(URL) == 1


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"unsubscribe": None, "consent": None}, ["unsubscribe", "consent"]),
        ({"unsubscribe": {"url": "http://acme.example/u"}}, ["unsubscribe.url"]),
        (
            {"unsubscribe": {"url": URL, "mailto": "nobody"}},
            ["unsubscribe.mailto"],
        ),
        ({"consent": {**CONSENT, "basis": " "}}, ["consent.basis"]),
        ({"consent": {**CONSENT, "recorded_at": "May"}}, ["consent.recorded_at"]),
        (
            {"consent": {**CONSENT, "recorded_at": "2026-01-05T09:00:00"}},
            ["consent.recorded_at"],
        ),
    ],
)
def test_marketing_without_its_requirements_says_what_is_missing(
    api: ApiClient, changes: dict[str, Any], paths: list[str]
) -> None:
    response = api.send(marketing(**changes))

    assert code_of(response) == "marketing_requirements_missing"
    assert paths_of(response) == paths


def test_marketing_never_goes_by_the_transport_that_forbids_it(api: ApiClient) -> None:
    Domain.objects.update(transport="cloudflare")

    response = api.send(marketing())

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "transport_unavailable")
    assert error["details"] == {"reason": "marketing_needs_ses"}


def test_a_caller_cannot_set_the_way_out_by_header(api: ApiClient) -> None:
    response = api.send(booking(headers={"List-Unsubscribe": f"<{URL}>"}))

    assert code_of(response) == "header_not_allowed"


def test_the_services_headers_count_towards_the_most_without_x(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headers_policy.PLAIN_LIMIT == 20
    # callers may set six of these names: a lower limit shows that the rest count
    monkeypatch.setattr(headers_policy, "PLAIN_LIMIT", 4)
    given = {"Importance": "high", "Comments": "a", "Keywords": "b", "X-A": "v"}

    past = api.send(marketing(headers=given), key="past")
    within = api.send(booking(headers=given), key="within")

    assert (code_of(past), paths_of(past)) == ("invalid_request", ["headers"])
    assert within.status_code == 202
    monkeypatch.setattr(headers_policy, "PLAIN_LIMIT", 5)
    assert api.send(marketing(headers=given), key="past").status_code == 202


def test_the_services_headers_count_towards_the_sixteen_kilobytes(
    api: ApiClient,
) -> None:
    given = {f"X-{n}": "v" * 2000 for n in range(8)}  # room for 360 bytes more
    long = {"url": f"{URL}{'e' * 300}", "mailto": "off@acme.example"}

    assert api.send(booking(headers=given), key="a").status_code == 202
    past = api.send(marketing(headers=given, unsubscribe=long), key="b")

    assert (code_of(past), paths_of(past)) == ("invalid_request", ["headers"])


def automatic(api: ApiClient, message: Message, key: str) -> Any:
    body = {"text": "Away until Monday.", "kind": "auto_reply"}
    return api.answer("reply", message.public_id, body, key=key)


def test_d6_the_third_automatic_reply_in_a_row_is_refused(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    for key in "ab":
        mime = sent_mime(automatic(api, asked, key))
        assert ("Auto-Submitted", "auto-replied") in header_block(mime)
        Thread.objects.update(lock_owner=None, lock_until=None)

    third = automatic(api, asked, "c")
    assert (third.status_code, code_of(third)) == (409, "auto_reply_not_allowed")

    assert api.answer("reply", asked.public_id, key="person").status_code == 202
    Thread.objects.update(lock_owner=None, lock_until=None)
    assert automatic(api, asked, "d").status_code == 202


@pytest.mark.parametrize("kind", ["automated", "dsn", "mdn", "list"])
def test_no_machine_is_answered_by_a_machine(
    api: ApiClient, identity: Identity, kind: str
) -> None:
    response = automatic(api, received(identity, kind=kind), "k")

    assert code_of(response) == "auto_reply_not_allowed"


def test_our_own_message_gets_no_automatic_reply(api: ApiClient) -> None:
    sent = api.send(booking(), key="first").json()
    Thread.objects.update(lock_owner=None, lock_until=None)

    response = automatic(api, Message.objects.get(public_id=sent["id"]), "k")

    assert code_of(response) == "auto_reply_not_allowed"


@pytest.mark.parametrize("whose", ["tenant", "identity"])
def test_tenant_and_identity_can_forbid_automatic_replies(
    api: ApiClient, identity: Identity, whose: str
) -> None:
    asked = received(identity, kind="calendar")
    assert automatic(api, asked, "before").status_code == 202
    Thread.objects.update(lock_owner=None, lock_until=None)
    if whose == "tenant":
        Tenant.objects.update(policy={"auto_reply": {"allowed": False}})
    else:
        Identity.objects.update(send_policy={"auto_reply": "denied"})

    assert code_of(automatic(api, asked, "after")) == "auto_reply_not_allowed"
