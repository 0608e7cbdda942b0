"""An outage settled in a browser: by script, by keys alone, and without script."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from delivery.services import apply_event
from delivery.statuses import DeliveryKind
from mailboxes.models import AuditRow, Message
from staff.models import Settlement
from tests.factories import AddressFactory
from tests.support.chromium import Tab
from tests.support.doubts import doubts, stored, told

pytestmark = pytest.mark.django_db(transaction=True)

FRONT = "/admin/"


def tabbed_to(page: Page, wanted: str) -> None:
    """Press Tab until what has the focus bears these words, and no longer than that."""
    for _ in range(120):
        page.keyboard.press("Tab")
        words = page.evaluate(
            "[document.activeElement.innerText, document.activeElement.value,"
            " document.activeElement.name].join(' ')"
        )
        if wanted in words:
            return
    raise AssertionError(f"no Tab leads to {wanted}")


def test_many_are_settled_by_keys_alone_while_events_arrive(
    tab: Callable[..., Tab],
) -> None:
    # Given an outage, a person before the front page, and events that come meanwhile
    messages = doubts(AddressFactory.create().identity, 25)
    heard = messages[-5:]
    desk = tab("support")
    desk.open(FRONT)

    # When they go through the pages by Tab, arrows, Enter, and their sentence
    def to_the_preview(page: Page) -> None:
        tabbed_to(page, "Settle them")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=25 sends in doubt")
        tabbed_to(page, "Settle all 25")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Were they sent?")

    desk.do(to_the_preview)
    for event in stored(*(told(message, DeliveryKind.DELIVERED) for message in heard)):
        apply_event(event)

    def to_the_end(page: Page) -> None:
        tabbed_to(page, "outcome")
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
        tabbed_to(page, "reason")
        page.keyboard.type("The relay's log shows none of them.")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Done.")

    desk.do(to_the_end)

    # Then it says what became of them, to everybody, and nothing was complained of
    said = "20 settled, 5 settled by events meanwhile, 0 changed"
    assert said in desk.text
    assert said in desk.do(lambda page: page.inner_text("#said"))
    assert Message.objects.filter(status="failed", evidence="person").count() == 20
    assert Message.objects.filter(status="delivered").count() == 5
    notes = AuditRow.objects.filter(action="message.resolve")
    assert {row.details["note"].split(" (")[0] for row in notes if row.details} == {
        "The relay's log shows none of them."
    }
    assert desk.complaints == []
    assert desk.outside == []


def test_what_stood_still_goes_on_by_a_plain_button(tab: Callable[..., Tab]) -> None:
    # Given a settlement whose page gets no script
    doubts(AddressFactory.create().identity, 21)
    desk = tab("support")
    desk.do(lambda page: page.route("**/htmx.js", lambda route: route.abort()))
    desk.open("/admin/staff/settlement/")

    def started(page: Page) -> None:
        page.get_by_role("button", name="Settle all 21").click()
        page.get_by_label("They were sent").check()
        page.get_by_label("Why?").fill("They arrived.")
        page.get_by_role("button", name="Give 21 sends this answer").click()
        page.wait_for_selector("text=0 of 21 looked at")

    desk.do(started)

    # When its button is pressed, batch after batch
    def go_on(page: Page) -> None:
        page.get_by_role("button", name="Go on").click()
        page.wait_for_selector("text=20 of 21 looked at")
        page.get_by_role("button", name="Go on").click()
        page.wait_for_selector("text=Done.")

    desk.do(go_on)

    # Then it has come to its end
    assert "21 settled" in desk.text
    assert Settlement.objects.get().state == "done"


def test_ticks_choose_what_is_settled_on_a_phone(tab: Callable[..., Tab]) -> None:
    doubts(AddressFactory.create().identity, 3)
    phone = tab("support", width=390, height=844)
    phone.open("/admin/staff/settlement/")

    def ticked(page: Page) -> None:
        page.get_by_label("Tick all on this page").check()
        page.locator("input[name=message]").first.uncheck()
        page.get_by_role("button", name="Settle those ticked").click()

    phone.do(ticked)

    assert "2 sends in doubt" in phone.text
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert phone.do(lambda page: page.evaluate(wide)) == 0
    assert phone.complaints == []
