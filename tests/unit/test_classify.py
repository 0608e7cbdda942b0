"""What received mail looks like, and what of it somebody wrote."""

import pytest

from inbound.classify import looks_of
from inbound.parse import parse
from inbound.quoting import extracted_text

REPORT = (
    "Content-Type: multipart/report; report-type={}; boundary=b\r\n"
    "\r\n--b\r\n\r\nx\r\n--b--"
)
RETURNED = (
    "From: MAILER-DAEMON@x.example\r\nSubject: Undelivered Mail Returned to Sender\r\n"
    "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    "--b\r\n\r\nx\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: y\r\n\r\n--b--"
)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("Subject: Hi", "normal"),
        (REPORT.format("delivery-status"), "dsn"),
        (RETURNED, "dsn"),
        ("From: postmaster@x.example\r\nSubject: Undelivered", "normal"),
        (REPORT.format("disposition-notification"), "mdn"),
        ("List-Id: <a.example>", "list"),
        ("List-Unsubscribe: <https://x.example>", "list"),
        ("Precedence: Bulk", "list"),
        ("Precedence: bulk\r\nAuto-Submitted: auto-generated", "list"),
        ("Auto-Submitted: auto-replied", "automated"),
        ("Auto-Submitted: auto-generated (rss)", "automated"),
        ("Auto-Submitted: no", "normal"),
        ("Auto-Submitted: No; x=y", "normal"),
        ("X-Autoreply: yes", "automated"),
        ("X-Autorespond: x", "automated"),
        ("X-Auto-Response-Suppress: DR, OOF", "automated"),
        ("X-Auto-Response-Suppress: DR", "normal"),
        ("Precedence: junk", "automated"),
        ("Subject: Out of Office: back on Monday", "automated"),
        ("Subject: Automatic reply: Your booking", "automated"),
        ("Subject: About the out of office policy", "normal"),
        ("From: no-reply@x.example", "automated"),
        ("From: DoNotReply+7@x.example", "automated"),
        ("From: noreply.team@x.example", "automated"),
        ("From: norbert@x.example", "normal"),
        ("Return-Path: <>", "automated"),
        ("X-Pylota-Mail-Hop: 9", "normal"),
        ("X-Pylota-Mail-Hop: 10", "automated"),
        ("X-Pylota-Mail-Hop: -10", "normal"),
        ("Content-Type: text/calendar", "calendar"),
        ("Content-Type: text/calendar\r\nAuto-Submitted: auto-generated", "automated"),
    ],
)
def test_each_line_of_the_table(head: str, kind: str) -> None:
    assert looks_of(parse(f"{head}\r\n\r\nx".encode())).kind == kind


def test_hop_and_evidence_are_kept() -> None:
    raw = b"X-Pylota-Mail-Hop: 3\r\nAuto-Submitted: auto-replied\r\n\r\nx"

    assert looks_of(parse(raw)).automated == {"hop": 3, "evidence": ["auto_submitted"]}
    assert looks_of(parse(b"Subject: x\r\n\r\nx")).automated is None


JO = "On Mon, 14 Sep 2026 at 10:12, Jo"
AWAY = "On Monday I am away.\n\nJo wrote: no"
LONG = "a\n-- \n" + "\n".join("abcdefghijklmnopq")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Fine.", "Fine."),
        (f"Fine.\n\n{JO} wrote:\n> Hello", "Fine."),
        (f"Fine.\n\n{JO}\n<jo@x.example> wrote:\n> Hello", "Fine."),
        ("Gut.\n\nAm 14.09.2026 um 10:12 schrieb Jo:\n> Hallo", "Gut."),
        ("Fine.\n-----Original Message-----\nHello", "Fine."),
        ("See.\n\n---------- Forwarded message ---------\nHello", "See."),
        ("Fine.\n\nFrom: Jo\nSent: Monday\nTo: Lee\nSubject: x\n\nHello", "Fine."),
        ("From: here on\nall is well", "From: here on\nall is well"),
        ("> Friday?\nYes.\n> Noon?\nNo.", "Yes.\nNo."),
        ("Fine.\n-- \nJo\nAcme", "Fine."),
        (AWAY, AWAY),
        ("> all\n> quoted", "> all\n> quoted"),
        (LONG, LONG),
        ("", ""),
    ],
)
def test_quotations_and_signatures_are_left_out(text: str, kept: str) -> None:
    assert extracted_text(text) == kept
