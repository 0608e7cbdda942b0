"""Logging in, and acting, with a keyboard."""

import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice

from mailboxes.models import AuditRow, Identity
from mailboxes.statuses import IdentityStatus
from tests.support.chromium import PHONE, Tab
from tests.support.staff import member

pytestmark = pytest.mark.django_db(transaction=True)

Open = Callable[..., Tab]
PASSWORD = "correct horse battery"


def code_of(user: User) -> str:
    totp = TOTP(TOTPDevice.objects.get(user=user).bin_key)
    totp.time = time.time() + 30
    return f"{totp.token():06d}"


def test_a_person_logs_in_with_password_and_code(tab: Open) -> None:
    user = member("support", "ada")
    user.set_password(PASSWORD)
    user.save()
    TOTPDevice.objects.create(user=user, name="authenticator")
    door = tab()

    door.open("/admin/")
    door.do(lambda page: page.fill("[name=username]", "ada"))
    door.do(lambda page: page.fill("[name=password]", PASSWORD))
    door.do(lambda page: page.keyboard.press("Enter"))
    door.do(lambda page: page.wait_for_selector("text=enter its code too"))

    code = code_of(user)
    door.do(lambda page: page.fill("[name=password]", PASSWORD))
    door.do(lambda page: page.fill("[name=otp_token]", code))
    door.do(lambda page: page.keyboard.press("Enter"))
    door.do(lambda page: page.wait_for_url("**/admin/"))

    assert door.outside == []
    assert door.complaints == []


@pytest.mark.parametrize("view", [{}, PHONE], ids=["desk", "phone"])
def test_an_identity_is_paused_by_keyboard_alone(
    tab: Open, identity_of_a_test: Identity, view: dict[str, int]
) -> None:
    desk = tab("operator", **view)
    desk.open(reverse("admin:mailboxes_identity_change", args=(identity_of_a_test.pk,)))

    press_until_focus(desk, "Pause it")
    desk.do(lambda page: page.keyboard.press("Enter"))
    desk.do(lambda page: page.wait_for_url("**/act/pause/"))
    assert "what is queued is canceled" in desk.text
    press_until_focus(desk, "", tag="TEXTAREA")
    desk.do(lambda page: page.keyboard.type("they asked for it"))
    press_until_focus(desk, "Pause it", tag="BUTTON")
    desk.do(lambda page: page.keyboard.press("Enter"))
    desk.do(lambda page: page.wait_for_selector("text=It is paused."))

    identity_of_a_test.refresh_from_db()
    assert identity_of_a_test.status == IdentityStatus.PAUSED
    assert AuditRow.objects.get().details == {"note": "they asked for it"}
    assert desk.complaints == []
    assert desk.outside == []


def test_the_filters_of_a_list_are_reached_and_opened_by_keys(
    tab: Open, identity_of_a_test: Identity
) -> None:
    desk = tab("viewer")
    desk.open(reverse("admin:mailboxes_message_changelist"))

    press_until_focus(desk, "Filters")
    desk.do(lambda page: page.keyboard.press("Enter"))

    desk.do(lambda page: page.wait_for_selector("#changelist-filter", state="visible"))
    assert desk.complaints == []


def press_until_focus(tab: Tab, words: str, *, tag: str = "") -> None:
    """Press Tab until the focus stands on an element with these words."""
    look = "() => [document.activeElement.tagName, document.activeElement.innerText]"
    for _ in range(120):
        tab.do(lambda page: page.keyboard.press("Tab"))
        name, text = tab.do(lambda page: page.evaluate(look))
        if words in (text or "") and (not tag or name == tag):
            return
    pytest.fail(f"Tab never reaches {tag} {words}")
