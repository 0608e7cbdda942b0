"""Pages of the admin: each opens for a viewer in few statements, and acts work."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_otp.plugins.otp_totp.models import TOTPDevice

import pylota.urls  # noqa: F401  the admin's pages are found there
from core.acts import ActingAdmin
from core.admin import ReadOnlyAdmin
from core.clock import database_now
from core.hashing import address_hash
from mailboxes.key_services import create_key
from mailboxes.models import ApiKey, AuditRow, Identity
from mailboxes.statuses import IdentityStatus, PauseReason, TenantStatus
from quota.models import QuotaAccount
from suppressions.models import SendListEntry, Suppression
from tests.factories import QueuedMessageFactory, ThreadFactory
from tests.support.lived_in import lived_in
from tests.support.staff import browser

pytestmark = pytest.mark.django_db

MOST_STATEMENTS = 14
"""For a list or a page: session, user, permissions, rows, count, and their owners."""
LISTS = [
    model
    for model, page in admin.site._registry.items()
    if isinstance(page, ReadOnlyAdmin)
]


def act(row: Any, name: str) -> str:
    meta = row._meta
    path = f"admin:{meta.app_label}_{meta.model_name}_act"
    return reverse(path, args=(row.pk, name))


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model._meta.model_name)
def test_each_list_opens_for_a_viewer_and_saves_nothing(
    model: Any, identity: Identity
) -> None:
    lived_in(identity)
    client = browser("viewer")
    meta = model._meta
    path = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")

    with CaptureQueriesContext(
        connection,
    ) as asked:
        page = client.get(path)

    is_content = meta.model_name == "receivedbody"
    foreign = meta.app_label in ("otp_totp", "axes")
    assert page.status_code == (403 if is_content or foreign else 200)
    assert len(asked) <= MOST_STATEMENTS
    assert client.get(path, {"q": "nobody@example.net"}).status_code in (200, 403)
    assert client.get(f"{path}add/").status_code in (403, 404)


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model._meta.model_name)
def test_each_record_is_shown_and_never_saved(model: Any, identity: Identity) -> None:
    lived_in(identity)
    client = browser("admin")
    row = model.objects.first()
    if row is None:
        return  # the list of it was opened above
    meta = model._meta
    path = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=(row.pk,))

    with CaptureQueriesContext(connection) as asked:
        page = client.get(path)
    forced = client.post(path, {"status": "active", "reason": "x"})

    assert page.status_code == 200
    assert len(asked) <= 2 * MOST_STATEMENTS
    assert forced.status_code == 403


def test_every_act_needs_a_duty_of_the_staff() -> None:
    acts = [
        act
        for page in admin.site._registry.values()
        if isinstance(page, ActingAdmin)
        for act in page.acts
    ]
    assert len(acts) >= 10
    assert all(act.permission.startswith("staff.") for act in acts)


def test_a_tenant_is_suspended_after_a_preview_of_what_that_cancels(
    identity: Identity,
) -> None:
    thread = ThreadFactory.create(identity=identity)
    for _ in range(3):
        QueuedMessageFactory.create(thread=thread)
    client = browser("admin")
    tenant = identity.tenant

    preview = client.get(act(tenant, "suspend")).content.decode()
    client.post(act(tenant, "suspend"), {"reason": "fraud"})

    assert re.search(r"Queued sends that are canceled</dt><dd><bdi>3<", preview)
    tenant.refresh_from_db()
    identity.refresh_from_db()
    assert tenant.status == TenantStatus.SUSPENDED
    assert identity.pause_reason == PauseReason.TENANT_SUSPENDED
    row = AuditRow.objects.get(action="tenant.suspend")
    assert row.details is not None
    assert row.details["note"] == "fraud"

    client.post(act(tenant, "resume"), {"reason": "sorry"})
    identity.refresh_from_db()
    assert identity.status == IdentityStatus.ACTIVE


def test_the_policy_says_where_each_value_comes_from(
    identity: Identity, settings: Any
) -> None:
    settings.PM_DEFAULT_POLICY = {
        "max_recipients": 20,
        "auto_reply": {"allowed": False},
    }
    identity.tenant.policy = {"max_recipients": 30}
    identity.tenant.save()
    path = reverse("admin:mailboxes_tenant_change", args=(identity.tenant_id,))

    page = " ".join(browser("viewer").get(path).content.decode().split())

    def row(field: str, value: str, source: str) -> str:
        return f"<code>{field}</code></td><td>{value}</td><td>{source}</td>"

    assert row("max_recipients", "30", "this tenant") in page
    assert row("auto_reply.allowed", "False", "this deployment") in page
    assert row("domain_fallback", "True", "built in") in page


def test_an_identity_that_was_paused_for_abuse_is_resumed_by_an_operator(
    identity: Identity,
) -> None:
    Identity.objects.filter(pk=identity.pk).update(
        status=IdentityStatus.PAUSED, pause_reason=PauseReason.ABUSE_THRESHOLD
    )

    page = browser("operator").post(
        act(identity, "resume"), {"reason": "talked to them"}
    )

    assert page.status_code == 302
    identity.refresh_from_db()
    assert identity.status == IdentityStatus.ACTIVE


def test_a_key_is_made_with_the_scopes_of_its_level_and_shown_once(
    identity: Identity,
) -> None:
    client = browser("admin")
    where = act(identity, "make-key")

    form = client.get(where).content.decode()
    wide = {"name": "k", "reason": "new client", "permissions": ["tenants:manage"]}
    refused = client.post(where, wide)
    made = client.post(where, {**wide, "permissions": ["messages:send"]})

    assert "messages:send" in form
    assert "tenants:manage" not in form
    assert refused.status_code == 400
    secret = re.search(r'<code id="secret">([^<]+)<', made.content.decode())
    assert secret is not None
    assert "no-store" in made["Cache-Control"]
    key = ApiKey.objects.get(name="k")
    assert (key.level, key.permissions) == ("identity", ["messages:send"])
    assert key.created_by_key_id is None
    shown = reverse("admin:mailboxes_apikey_change", args=(key.pk,))
    assert secret[1] not in client.get(shown).content.decode()
    row = AuditRow.objects.get(action="key.create")
    assert row.actor_key_id is None
    assert row.details is not None
    assert row.details["note"] == "new client"


def test_a_key_gets_a_new_secret_with_an_overlap_and_is_revoked(
    identity: Identity,
) -> None:
    made = create_key(name="k", tenant=identity.tenant)
    client = browser("admin")

    turned = client.post(
        act(made.key, "rotate"), {"reason": "it is old", "overlap_hours": "48"}
    )
    too_long = client.post(
        act(made.key, "rotate"), {"reason": "it is old", "overlap_hours": "169"}
    )
    key = ApiKey.objects.get(pk=made.key.pk)
    assert turned.status_code == 200
    assert too_long.status_code == 400
    assert key.prev_expires_at is not None
    left = key.prev_expires_at - database_now()
    assert timedelta(hours=47) < left <= timedelta(hours=48)

    client.post(act(key, "revoke"), {"reason": "it got out"})
    key.refresh_from_db()
    assert key.revoked_at is not None
    page = client.get(reverse("admin:mailboxes_apikey_change", args=(key.pk,)))
    assert "Give it a new secret: it is revoked" in page.content.decode()


@pytest.fixture
def complaint(identity: Identity) -> Suppression:
    """An address whose owner complained."""
    return Suppression.objects.create(
        tenant=identity.tenant,
        address_hash=address_hash("jo@example.net"),
        address_hint="j*@example.net",
        reason="complaint",
    )


def test_a_suppression_is_found_by_its_address(complaint: Suppression) -> None:
    path = reverse("admin:suppressions_suppression_changelist")
    client = browser("viewer")

    found = client.get(path, {"q": " Jo@Example.net "}).content.decode()
    other = client.get(path, {"q": "jim@example.net"}).content.decode()

    assert "j*@example.net" in found
    assert "j*@example.net" not in other


def test_a_complaint_is_lifted_with_a_second_confirmation_only(
    complaint: Suppression,
) -> None:
    client = browser("support")
    where = act(complaint, "lift")

    client.post(where, {"reason": "they asked"})
    assert Suppression.objects.filter(pk=complaint.pk).exists()
    client.post(where, {"reason": "they asked", "confirm_complaint": "on"})

    assert not Suppression.objects.exists()
    row = AuditRow.objects.get(action="suppression.delete")
    assert row.details == {"reason": "complaint", "note": "they asked"}


def test_an_entry_is_put_on_a_send_list_in_its_one_form(identity: Identity) -> None:
    client, where = browser("support"), act(identity.tenant, "put-on-list")
    wish = {"reason": "they asked", "direction": "send", "kind": "block"}

    client.post(where, {**wish, "entry": "not an address"})
    assert not SendListEntry.objects.exists()
    client.post(where, {**wish, "entry": " @Example.NET. "})

    row = SendListEntry.objects.get()
    assert (row.entry, row.kind, row.note) == ("@example.net", "block", "they asked")
    audit = AuditRow.objects.get(action="list_entry.put")
    assert audit.actor_user_id
    assert audit.actor_key_id is None


def test_a_plan_is_changed_by_an_admin_alone(identity: Identity) -> None:
    where = act(identity.tenant, "change-plan")
    wish = {"reason": "they paid", "plan_id": "team", "mode": "metered"}

    assert browser("operator").post(where, wish).status_code == 403
    client = browser("admin")
    assert client.post(where, {**wish, "plan_id": "nothing"}).status_code == 400
    client.post(where, wish)

    account = QuotaAccount.objects.get(tenant_id=identity.tenant_id)
    assert (account.plan_id, account.mode) == ("team", "metered")
    audit = AuditRow.objects.get(action="tenant.billing")
    assert (audit.details or {})["note"] == "they paid"


def test_an_entry_is_taken_off_a_send_list(identity: Identity) -> None:
    entry = SendListEntry.objects.create(
        tenant=identity.tenant, direction="send", kind="block", entry="@example.net"
    )

    browser("support").post(act(entry, "take-off"), {"reason": "by mistake"})

    assert not SendListEntry.objects.exists()
    assert AuditRow.objects.filter(actor_user_id__isnull=False).count() == 1


def test_a_lost_second_factor_is_removed_by_who_edits_accounts() -> None:
    user = User.objects.create_user("bo")
    device = TOTPDevice.objects.create(user=user, name="authenticator")
    path = reverse("admin:otp_totp_totpdevice_change", args=(device.pk,))
    root = User.objects.create_superuser("root")
    client = browser("admin")
    assert client.get(path).status_code in (302, 403)
    client.force_login(root, backend="django.contrib.auth.backends.ModelBackend")

    page = client.get(path).content.decode()
    gone = reverse("admin:otp_totp_totpdevice_delete", args=(device.pk,))
    client.post(gone, {"post": "yes"})

    assert device.key not in page
    assert not TOTPDevice.objects.exists()
