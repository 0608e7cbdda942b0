"""What the staff does by day: find a mail, lift a suppression, turn a key."""

import re
from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page

from core.canonical import key_hash
from core.hashing import address_hash
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Identity
from outbound.models import LedgerEntry
from suppressions.models import Suppression
from tests.factories import AddressFactory, QueuedMessageFactory, ThreadFactory
from tests.support.chromium import Tab
from tests.support.doubts import doubts

pytestmark = pytest.mark.django_db(transaction=True)

Open = Callable[..., Tab]
KEY = "booking-2291/Ünïcode"


def found(desk: Tab, list_page: str, pasted: str) -> str:
    """Paste a value into the search box of a list; return what the page then says."""

    def search(page: Page) -> str:
        page.goto(desk.base + list_page)
        page.fill("#searchbar", pasted)
        with page.expect_navigation():
            page.press("#searchbar", "Enter")
        return page.inner_text("#main")

    return desk.do(search)


def test_a_mail_is_found_by_its_id_an_address_and_its_key(
    tab: Open, identity_of_a_test: Identity
) -> None:
    thread = ThreadFactory.create(identity=identity_of_a_test)
    message = QueuedMessageFactory.create(thread=thread, subject="The one")
    QueuedMessageFactory.create(
        thread=thread, subject="Another", recipients=("else@example.net",)
    )
    LedgerEntry.objects.create(
        identity_id=identity_of_a_test.pk,
        key_hash=key_hash(KEY),
        tenant_id=identity_of_a_test.tenant_id,
        fingerprint="0" * 64,
        operation="send",
        message_id=message.public_id,
        response={},
    )
    desk, where = tab("viewer"), reverse("admin:mailboxes_message_changelist")

    for pasted in (message.public_id, message.deliveries.get().address, KEY):
        page = found(desk, where, f"  {pasted} ")
        assert "The one" in page, pasted
        assert "Another" not in page, pasted
    assert "No message matches" in found(desk, where, "nothing-like-it")


def test_a_suppression_is_found_by_its_address_and_lifted(
    tab: Open, identity_of_a_test: Identity
) -> None:
    Suppression.objects.create(
        tenant=identity_of_a_test.tenant,
        address_hash=address_hash("jo@example.net"),
        address_hint="j*@example.net",
        reason="complaint",
    )
    desk = tab("support")
    found(desk, reverse("admin:suppressions_suppression_changelist"), "jo@example.net")

    def lift(page: Page) -> str:
        page.click("text=j*@example.net")
        page.click("text=Lift it")
        page.fill("textarea", "they asked by phone")
        page.check("[name=confirm_complaint]", force=True)
        page.click("button:has-text('Lift it')")
        page.wait_for_selector("text=It is lifted")
        return page.inner_text("#main")

    desk.do(lift)
    assert not Suppression.objects.exists()


def test_a_key_is_turned_and_its_secret_shown_once(
    tab: Open, identity_of_a_test: Identity
) -> None:
    key = create_key(name="their key", tenant=identity_of_a_test.tenant).key
    desk = tab("admin")
    desk.open(reverse("admin:mailboxes_apikey_change", args=(key.pk,)))

    def turn(page: Page) -> str:
        page.click("text=Give it a new secret")
        page.fill("textarea", "it is old")
        page.click("button:has-text('Give it a new secret')")
        secret = page.inner_text("#secret")
        page.click("button:has-text('Copy')")
        page.wait_for_selector(".pm-copy button:has-text('Copied')")
        page.click("text=I have it")
        return secret

    secret = desk.do(turn)
    assert re.fullmatch(r"pmk_live_\w+", secret)
    assert secret not in desk.text
    assert desk.complaints == []


def test_a_viewer_sees_no_button_anywhere(
    tab: Open, identity_of_a_test: Identity
) -> None:
    key = create_key(name="their key", tenant=identity_of_a_test.tenant).key
    desk = tab("viewer")
    for page in (
        reverse("admin:mailboxes_apikey_change", args=(key.pk,)),
        reverse("admin:mailboxes_identity_change", args=(identity_of_a_test.pk,)),
        reverse("admin:mailboxes_tenant_change", args=(identity_of_a_test.tenant_id,)),
    ):
        desk.open(page)
        assert "your role may not" in desk.text
        assert desk.do(lambda page: page.locator(".pm-button").count()) == 0
    assert desk.outside == []


def test_a_send_in_doubt_is_settled_on_its_page_by_keys(tab: Open) -> None:
    (message,) = doubts(AddressFactory.create().identity, 1)
    desk = tab("support")
    desk.open(reverse("admin:mailboxes_message_change", args=(message.pk,)))

    def answer(page: Page) -> str:
        page.focus("#note")
        page.keyboard.type("the relay's log has its 250")
        page.keyboard.press("Tab")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        return page.inner_text("#main")

    page = desk.do(answer)
    assert "Recorded: it was sent" in page
    assert "the relay's log has its 250" in page
    message.refresh_from_db()
    assert message.status == "submitted"
    assert AuditRow.objects.get(action="message.resolve").actor_user_id
