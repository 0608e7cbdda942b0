"""Bodies: what the page adds, in its order, once, and in the right part."""

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.recipients import Party
from outbound.body import (
    Bodies,
    BodyInput,
    Original,
    Signature,
    append_html,
    build_bodies,
    escape_text,
)
from outbound.unsubscribe import Unsubscribe

SIGNATURE = Signature("Ada\nAcme", "<b>Ada</b>")
AI = "Written with <AI> & care."
WAY_OUT = Unsubscribe("https://acme.example/u?a=1&b=2")
ORIGINAL = Original(
    sender=Party("accounts@brightwell.example", "Brightwell Leeds"),
    sent_at=datetime(2026, 9, 14, 8, 12, tzinfo=UTC),
    subject="Invoice 88213 \u2013 AB12 CDE",
    to=[Party("maintenance.acme@agents.example")],
    text="Please pay.\n",
    html="<p>Please <b>pay</b>.</p>",
)
NOTE = (
    "---------- Forwarded message ---------\n"
    "From: Brightwell Leeds <accounts@brightwell.example>\n"
    "Date: Mon, 14 Sep 2026 08:12:00 +0000\n"
    "Subject: Invoice 88213 \u2013 AB12 CDE\n"
    "To: maintenance.acme@agents.example\n"
    "\n"
    "Please pay.\n"
)


def stripped(html: str) -> str:
    return f"text of {html}"


def build(text: str | None, html: str | None, **more: Any) -> Bodies:
    said = BodyInput(text=text, html=html, **more)
    return build_bodies(said, to_text=stripped)


def test_what_the_caller_wrote_is_left_alone_when_nothing_is_to_be_added() -> None:
    assert build("Hi", "<p>Hi</p>") == Bodies("Hi", "<p>Hi</p>")
    assert build("Hi", None) == Bodies("Hi", None)


def test_a_missing_text_is_made_from_the_html_and_html_is_never_made() -> None:
    assert build(None, "<p>Hi</p>") == Bodies("text of <p>Hi</p>", "<p>Hi</p>")
    assert build("", "<p>Hi</p>").text == ""


def test_the_signature_follows_in_each_part() -> None:
    assert build("Hi", "<p>Hi</p>", signature=SIGNATURE) == Bodies(
        "Hi\n\n-- \nAda\nAcme", "<p>Hi</p><br><br>-- <br><b>Ada</b>"
    )
    assert build("Hi", None, signature=SIGNATURE).html is None


def test_the_disclosure_follows_the_signature_and_is_escaped_in_html() -> None:
    bodies = build("Hi", "<p>Hi</p>", signature=SIGNATURE, disclosure=AI)

    assert bodies.text == f"Hi\n\n-- \nAda\nAcme\n\n{AI}"
    assert bodies.html == (
        "<p>Hi</p><br><br>-- <br><b>Ada</b><p>Written with &lt;AI&gt; &amp; care.</p>"
    )


def test_g9_the_visible_way_out_comes_last() -> None:
    bodies = build("Hi", "<p>Hi</p>", disclosure=AI, unsubscribe=WAY_OUT)

    assert bodies.text.endswith(f"{AI}\n\nUnsubscribe: {WAY_OUT.url}")
    assert bodies.html is not None
    assert bodies.html.endswith(
        '<p><a href="https://acme.example/u?a=1&amp;b=2">Unsubscribe</a></p>'
    )


@pytest.mark.parametrize("spelled", [WAY_OUT.url, "https://acme.example/u?a=1&amp;b=2"])
def test_a_way_out_that_stands_there_already_is_not_added_again(spelled: str) -> None:
    page = f'<a href="{spelled}">Off</a>'
    bodies = build(f"Off: {WAY_OUT.url}", page, unsubscribe=WAY_OUT)

    assert bodies == Bodies(f"Off: {WAY_OUT.url}", page)


def test_each_part_is_asked_for_itself_whether_it_shows_the_way_out() -> None:
    bodies = build(f"Off: {WAY_OUT.url}", "<p>Hi</p>", unsubscribe=WAY_OUT)

    assert bodies.text == f"Off: {WAY_OUT.url}"
    assert "Unsubscribe" in (bodies.html or "")


def test_a_notification_carries_headers_only() -> None:
    quiet = Unsubscribe(WAY_OUT.url, is_visible=False)

    assert build("Hi", None, unsubscribe=quiet) == Bodies("Hi", None)


def test_c6_a_forward_is_the_callers_words_the_note_and_then_the_signature() -> None:
    bodies = build(
        "See below.", "<p>See below.</p>",
        signature=SIGNATURE, disclosure=AI, original=ORIGINAL,
    )  # fmt: skip

    assert bodies.text == f"See below.\n\n{NOTE}\n\n-- \nAda\nAcme\n\n{AI}"
    assert bodies.html is not None
    order = [
        "See below.",
        "Forwarded message",
        "Brightwell Leeds &lt;accounts",
        "<blockquote><p>Please <b>pay</b>.</p></blockquote>",
        "<b>Ada</b>",
        "&lt;AI",
    ]
    places = [bodies.html.index(piece) for piece in order]
    assert places == sorted(places)


def test_a_forward_without_a_word_shows_the_original_as_it_was() -> None:
    bodies = build(None, None, original=ORIGINAL)

    assert bodies.text == NOTE
    assert "<blockquote><p>Please <b>pay</b>.</p></blockquote>" in (bodies.html or "")


def test_a_forward_with_a_text_only_stays_text() -> None:
    assert build("Hi", None, original=ORIGINAL) == Bodies(f"Hi\n\n{NOTE}", None)


def test_a_plain_original_is_escaped_where_the_forward_has_html() -> None:
    plain = Original(None, ORIGINAL.sent_at, "s", [], "1 < 2\r\n& more", None)

    page = build("x", "<p>x</p>", original=plain).html or ""

    assert page.endswith("<blockquote>1 &lt; 2<br>&amp; more</blockquote>")
    assert build(None, None, original=plain).html is None


def test_an_original_cannot_write_lines_or_markup_into_the_note() -> None:
    hostile = Original(
        sender=Party("a@x.example", "Bank\r\nSubject: <script>x</script>"),
        sent_at=ORIGINAL.sent_at,
        subject="a\u2028To: you\x85",
        to=[Party("b@x.example", "B\n\n")],
        text="",
        html="",
    )

    bodies = build("t", "<p>t</p>", original=hostile)

    note = bodies.text.split("---\n", 1)[-1].splitlines()
    assert [line.split(":")[0] for line in note if line] == [
        "From",
        "Date",
        "Subject",
        "To",
    ]
    assert "<script" not in (bodies.html or "")


def test_the_date_of_the_note_is_in_utc() -> None:
    east = timezone(timedelta(hours=9))
    moved = Original(None, datetime(2026, 9, 14, 17, 12, tzinfo=east), "", [], "")

    assert (
        "Date: Mon, 14 Sep 2026 08:12:00 +0000" in build("", None, original=moved).text
    )


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        ("<p>a</p>", "<p>a</p>+"),
        ("<html><body>a</body></html>", "<html><body>a+</body></html>"),
        ("<BODY>a</BODY >\n</HTML>", "<BODY>a+</BODY >\n</HTML>"),
        ("<html>a</html>", "<html>a+</html>"),
        ("a</body>b</body>", "a</body>b+</body>"),
        ("", "+"),
    ],
)
def test_html_is_added_inside_the_page(page: str, whole: str) -> None:
    assert append_html(page, "+") == whole
    assert append_html(None, "+") is None


@given(st.text(max_size=50), st.text(max_size=50), st.booleans())
def test_the_callers_words_always_come_first(
    text: str, page: str, marketing: bool
) -> None:
    bodies = build(
        text, page,
        signature=SIGNATURE, disclosure=AI, original=ORIGINAL,
        unsubscribe=WAY_OUT if marketing else None,
    )  # fmt: skip

    assert bodies.text.startswith(text)
    assert bodies.text.count(AI) == 1 + text.count(AI)
    assert "<" not in escape_text(text).replace("<br>", "")


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        ("<p>a</p><!-- </body> -->", "<p>a</p><!-- </body> -->+"),
        ("<body>a</body><!-- </body> -->", "<body>a+</body><!-- </body> -->"),
        ("<p>a</p><!-- b", "<p>a</p>+<!-- b"),
        ("<p>a</p><!-- b --><!--", "<p>a</p><!-- b -->+<!--"),
        ("<!-->a</body>", "<!-->a+</body>"),
        ("<!-- --!>a<!--->b</body>", "<!-- --!>a<!--->b+</body>"),
        ("<!-- a --><p>b</p>", "<!-- a --><p>b</p>+"),
    ],
)
def test_nothing_is_added_inside_a_comment(page: str, whole: str) -> None:
    assert append_html(page, "+") == whole


def test_a_page_of_comments_takes_no_time() -> None:
    page = "<!--" * 500_000 + "</body>"
    started = time.monotonic()

    append_html(page, "+")

    assert time.monotonic() - started < 2
