"""SMTP on the wire: lines, dots, replies, names; no socket."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbound.transports.smtp_wire import (
    Reply,
    canonical,
    ehlo_form,
    is_envelope_address,
    reply_text,
    stuffed,
)

PIECES = st.sampled_from([b"\r", b"\n", b"\r\n", b".", b"a", b"\0", b"\xff", b" "])


@given(st.lists(PIECES, max_size=40).map(b"".join))
@example(b"")
@example(b".")
@example(b"\n.\n")
@example(b"a\r\n.\r\nb")
@example(b"a\r.\r\n.\n..\r")
def test_no_content_can_end_itself_or_hold_a_bare_line_end(mime: bytes) -> None:
    wire = stuffed(canonical(mime))

    # no line end but CRLF, no line that is the final dot, and a last line that ends
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", wire)
    assert b"." not in wire.split(b"\r\n")
    assert wire.endswith(b"\r\n")

    # and the reader gets back what was composed
    unstuffed = re.sub(rb"(?m)^\.", b"", wire)
    assert unstuffed == canonical(mime)
    assert unstuffed.split(b"\r\n") == re.split(
        rb"\r\n|\r|\n", mime if re.search(rb"[\r\n]\Z", mime) else mime + b"\r\n"
    )


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([b"ok"], "ok"),
        ([b""], ""),
        ([b"5.1.1 no such", b"5.1.1 user"], "5.1.1 no such user"),
        ([b"first", b"", b"last "], "first last"),
        ([b"caf\xc3\xa9 \xff\x00\x1b[31m"], "café \ufffd??[31m"),
    ],
)
def test_a_reply_is_kept_on_one_line_without_controls(
    lines: list[bytes], text: str
) -> None:
    assert reply_text(lines) == text


def test_a_reply_is_told_without_what_must_stay_hidden_and_cut() -> None:
    reply = Reply(550, "5.1.1 Bob@y.test and b@y.test: AHVzZXI= " + "x" * 600)

    told = reply.told({"b@y.test", "bob@y.test", "AHVzZXI="})

    assert told.startswith("550 5.1.1 *** and ***: *** xxx")
    assert len(told) == 512


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.example.com", "api.example.com"),
        ("127.0.0.1", "[127.0.0.1]"),
        ("::1", "[IPv6:::1]"),
        ("[::1]", "[IPv6:::1]"),
    ],
)
def test_ehlo_names_an_address_as_a_literal(host: str, name: str) -> None:
    assert ehlo_form(host) == name


@pytest.mark.parametrize(
    ("address", "is_good"),
    [
        ("a@y.test", True),
        ("a.b+c=d@y.test", True),
        ("o'brien!#$%&*/?^_`{|}~@y.test", True),
        ('"a b"@y.test', True),
        ('"a>b"@y.test', True),
        ("a@y.test> SIZE=1", False),
        ("a@y.test>\r\nRCPT TO:<b@y.test", False),
        ("a b@y.test", False),
        ("a@y.test\n", False),
        ('"a\r\nb"@y.test', False),
        ("dörte@y.test", False),
        ("a", False),
        ("", False),
        ("a" * 321 + "@y.test", False),
    ],
)
def test_only_an_address_can_stand_in_a_path(address: str, is_good: bool) -> None:
    assert is_envelope_address(address) is is_good
