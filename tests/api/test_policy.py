"""The steps of the policy, through HTTP: the first that refuses answers."""

from typing import Any

import pytest
from django.test import override_settings

from core import objects
from domains.models import Domain
from mailboxes.models import Address, Identity, Message, Tenant
from quota.models import Hold
from tests.support.api import (
    ApiClient,
    assert_fix_can_be_followed,
    booking,
    code_of,
    paths_of,
)

pytestmark = pytest.mark.django_db


def assert_refused(response: Any, status: int, code: str, **details: Any) -> None:
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), error
    assert_fix_can_be_followed(response)
    for name, value in details.items():
        assert error["details"][name] == value
    assert not Message.objects.exists()
    assert not Hold.objects.exists()


@pytest.mark.parametrize("status", ["deleting", "deleted"])
def test_an_identity_that_is_being_deleted_is_not_there(
    api: ApiClient, status: str
) -> None:
    Identity.objects.update(status=status)

    assert_refused(api.send(booking()), 404, "identity_not_found")


def test_a_suspension_answers_before_the_pause_that_it_makes(api: ApiClient) -> None:
    Identity.objects.update(status="paused", pause_reason="tenant_suspended")
    Tenant.objects.update(status="suspended")

    assert_refused(api.send(booking()), 403, "tenant_suspended")


@pytest.mark.parametrize("reason", ["manual", "abuse_threshold"])
def test_a_paused_identity_says_why(api: ApiClient, reason: str) -> None:
    Identity.objects.update(status="paused", pause_reason=reason)

    assert_refused(api.send(booking()), 409, "identity_paused", reason=reason)


@pytest.mark.parametrize("missing", ["owner_name", "owner_email"])
def test_somebody_must_be_accountable(api: ApiClient, missing: str) -> None:
    Identity.objects.update(**{missing: ""})

    assert_refused(api.send(booking()), 409, "identity_owner_required")


def test_a_tenant_may_allow_more_recipients_but_never_more_than_49(
    api: ApiClient,
) -> None:
    Tenant.objects.update(policy={"max_recipients": 100})
    many = [f"r{n}@example.org" for n in range(50)]

    assert_refused(api.send(booking(to=many)), 400, "too_many_recipients", limit=49)
    assert api.send(booking(to=many[:49])).status_code == 202


def test_a_test_tenant_writes_to_nobody_outside(
    sandbox_api: ApiClient, address: Address
) -> None:
    inside = "any.thing@SIMULATOR.invalid"
    stranger = f"nobody@{address.address.partition('@')[2]}"
    for outside in ("jo@example.net", stranger, "a@x.simulator.invalid"):
        response = sandbox_api.send(booking(to=[inside], cc=[outside]))
        assert_refused(response, 403, "test_mode_recipient")

    assert sandbox_api.send(booking(to=[inside])).status_code == 202


def test_marketing_and_automatic_replies_need_their_grounds(api: ApiClient) -> None:
    marketing = api.send(booking(kind="marketing"))
    automatic = api.send(booking(kind="auto_reply"))

    assert_refused(marketing, 400, "marketing_requirements_missing")
    assert_refused(automatic, 409, "auto_reply_not_allowed")


@pytest.mark.parametrize("state", ["pending", "verifying"])
def test_a_domain_that_is_not_verified_cannot_send(api: ApiClient, state: str) -> None:
    Domain.objects.update(state=state)

    response = api.send(booking())

    assert_refused(response, 409, "domain_not_ready")
    assert response.json()["error"]["retryable"] is True


@pytest.mark.parametrize(
    "state", ["healthy", "degraded", "failing", "suspended", "removing"]
)
def test_other_states_are_judged_when_the_message_leaves(
    api: ApiClient, state: str
) -> None:
    Domain.objects.update(state=state)

    assert api.send(booking()).status_code == 202


@pytest.mark.parametrize(
    ("status", "code"),
    [("pending", "domain_not_ready"), ("retiring", "invalid_request")],
)
def test_only_an_active_address_starts_a_thread(
    api: ApiClient, address: Address, status: str, code: str
) -> None:
    Address.objects.update(status=status)

    response = api.send(booking(from_address=address.address))

    assert code_of(response) == code


def test_an_alias_can_be_named_as_the_sender(api: ApiClient, address: Address) -> None:
    Address.objects.create(
        id="adr_" + "0" * 26,
        address="alias@other.example",
        local_part="alias",
        domain=address.domain,
        tenant=address.tenant,
        identity=address.identity,
        role="alias",
        status="active",
    )

    sent = api.send(booking(from_address="Alias@Other.example")).json()

    assert sent["from"]["address"] == "alias@other.example"
    assert sent["rfc_message_id"].endswith("@other.example")


def test_an_identity_without_an_address_cannot_send(api: ApiClient) -> None:
    Address.objects.all().delete()

    response = api.send(booking())

    assert code_of(response) == "invalid_request"
    assert paths_of(response) == ["from_address"]


@pytest.mark.parametrize("transport", ["ses", "cloudflare"])
def test_a_transport_that_is_not_configured_is_said_so(
    api: ApiClient, transport: str
) -> None:
    Domain.objects.update(transport=transport)

    reason = f"{transport}_not_configured"
    assert_refused(api.send(booking()), 422, "transport_unavailable", reason=reason)


def test_with_ses_configured_a_domain_of_ses_may_send(
    api: ApiClient, settings: Any
) -> None:
    Domain.objects.update(transport="ses", smtp_sealed=None)
    settings.PM_SES_REGION = "eu-west-1"

    assert api.send(booking()).status_code == 202


def test_a_domain_of_a_configured_account_may_send(
    api: ApiClient,
) -> None:
    Domain.objects.update(transport="cloudflare")

    with override_settings(PM_CF_ACCOUNT_ID="account", PM_CF_API_TOKEN="token"):
        assert api.send(booking()).status_code == 202


def test_a_message_that_no_transport_takes_is_refused(api: ApiClient) -> None:
    file = {
        "filename": "a",
        "content_type": "a/b",
        "content_base64": "AAAA" * 1_300_000,
    }

    response = api.send(booking(attachments=[file]))

    assert response.status_code == 413
    assert_refused(response, 413, "message_too_large")


def test_signature_and_disclosure_are_part_of_what_is_said(api: ApiClient) -> None:
    Identity.objects.update(signature_text="Ada", signature_html="<b>Ada</b>")
    Tenant.objects.update(policy={"ai_disclosure": {"mode": "footer", "text": "A <3"}})

    sent = api.send(booking(text="Hello", html="<p>Hello</p>")).json()

    assert sent["extracted_text"] == "Hello\n\n-- \nAda\n\nA <3"
    raw_key = Message.objects.get().raw_key
    assert raw_key is not None
    mime = objects.get(raw_key)
    assert b"<p>Hello</p><br><br>-- <br><b>Ada</b><p>A &lt;3</p>" in mime


def test_a_disclosure_may_be_a_header(api: ApiClient) -> None:
    Tenant.objects.update(policy={"ai_disclosure": {"mode": "header"}})

    api.send(booking())

    raw_key = Message.objects.get().raw_key
    assert raw_key is not None
    assert b"\r\nX-AI-Generated: true\r\n" in objects.get(raw_key)
    assert b"\r\nX-Pylota-Mail-Hop: 1\r\n" in objects.get(raw_key)
