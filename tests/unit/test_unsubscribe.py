"""The way out of marketing: exactly one HTTPS URI, and nothing that breaks a header."""

from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import to_milliseconds
from outbound.compose import ComposeInput, Mailbox, compose
from outbound.unsubscribe import (
    Unsubscribe,
    unsubscribe_faults,
    unsubscribe_headers,
)

URL = "https://acme.example/u?id=a1&list=[news]%20b"


@pytest.mark.parametrize(
    "url",
    [URL, "HTTPS://acme.example/u", "https://xn--bcher-kva.example:8443/~u#x",
     "https://a.example/" + "u" * 882],
)  # fmt: skip
def test_an_https_url_is_a_way_out(url: str) -> None:
    assert not list(unsubscribe_faults(Unsubscribe(url)))


@pytest.mark.parametrize(
    "url",
    ["", "http://a.example/", "ftp://a.example/", "https://", "https:///x",
     "//a.example",
     "https://a.example/ b", "https://a.example/\r\nBcc:", "https://a.example/<x>",
     'https://a.example/"', "https://bücher.example/", "javascript:alert(1)",
     "https://a.example:port/", "https://[broken/", "https://a.example/" + "u" * 883],
)  # fmt: skip
def test_any_other_url_is_refused_with_its_path(url: str) -> None:
    faults = list(unsubscribe_faults(Unsubscribe(url)))

    assert [fault.path for fault in faults] == ["unsubscribe.url"]


def test_g9_marketing_without_a_way_out_is_refused() -> None:
    assert [fault.path for fault in unsubscribe_faults(None)] == ["unsubscribe"]


@pytest.mark.parametrize("mailto", ["", "nobody", "a@b.example\r\nBcc: c@d.example"])
def test_a_mailto_is_an_address(mailto: str) -> None:
    faults = list(unsubscribe_faults(Unsubscribe(URL, mailto)))

    assert [fault.path for fault in faults] == ["unsubscribe.mailto"]


def test_the_headers_are_those_of_rfc_8058() -> None:
    assert unsubscribe_headers(Unsubscribe(URL)) == (
        ("List-Unsubscribe", f"<{URL}>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )
    both = dict(unsubscribe_headers(Unsubscribe(URL, "Off@Acme.example")))
    assert both["List-Unsubscribe"] == f"<{URL}>, <mailto:off@acme.example>"


@given(st.text("abcXYZ019-._~:/?#[]@!$&'()*+,;=%", max_size=840))
def test_r33_another_parser_finds_one_https_uri_and_each_header_once(path: str) -> None:
    wanted = Unsubscribe(f"https://acme.example/{path}", "off@acme.example")
    if list(unsubscribe_faults(wanted)):
        return
    composed = compose(
        ComposeInput(
            message_id="msg_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            sent_at=to_milliseconds(datetime(2026, 1, 1, tzinfo=UTC)),
            from_=Mailbox("a@acme.example"),
            subject="News",
            to=(Mailbox("b@x.example"),),
            text="Hello",
            headers=unsubscribe_headers(wanted),
        )
    )

    read = message_from_bytes(composed.mime, policy=policy.compat32)
    (value,) = read.get_all("List-Unsubscribe", [])
    unfolded = value.replace("\r\n", "").replace("\n", "")
    assert unfolded == f"<{wanted.url}>, <mailto:off@acme.example>"
    assert read.get_all("List-Unsubscribe-Post") == ["List-Unsubscribe=One-Click"]
    assert max(map(len, composed.mime.split(b"\r\n"))) <= 998
