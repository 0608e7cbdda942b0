"""Header values are data: what is given comes back, and nothing else is there."""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.header import decode_header, make_header
from email.utils import getaddresses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbound.compose import ComposeInput, Mailbox, compose
from tests.support.mail_reader import (
    classic,
    decoded,
    header_block,
    mailboxes,
    modern,
)
from tests.support.texts import HURTFUL, header_texts, names

MESSAGE_ID = "msg_01K0000000000000000000000A"
SENT_AT = datetime(2026, 9, 14, 10, 12, tzinfo=timezone(timedelta(hours=2)))
FROM = Mailbox("bookings.acme@agents.example", "Acme Car Hire")
TO = Mailbox("ana@example.com")
GREEK = "Καλημέρα σας, η κράτηση σας έτοιμη!"

mailbox_lists = st.lists(
    st.builds(
        Mailbox,
        st.sampled_from(
            ["a@b.example", "x+y=z@xn--bcher-kva.example", f"{'l' * 64}@c.de"]
        ),
        names,
    ),
    min_size=1,
    max_size=5,
).map(tuple)


def composed(**changes: object) -> bytes:
    values = {"from_": FROM, "to": (TO,), "subject": "Hi", "text": "Hello"} | changes
    return compose(
        ComposeInput(message_id=MESSAGE_ID, sent_at=SENT_AT, **values)  # type: ignore[arg-type]  # a test names only what it changes
    ).mime


def lines(mime: bytes) -> list[str]:
    return mime.split(b"\r\n\r\n", 1)[0].decode("ascii").split("\r\n")


@given(header_texts)
@example(GREEK * 27)
def test_a_subject_comes_back_from_three_readers(subject: str) -> None:
    mime = composed(subject=subject)

    assert decoded(dict(header_block(mime))["Subject"]) == subject
    assert modern(mime)["Subject"] == subject
    assert classic_text(mime, "Subject") == subject
    assert all(len(line) <= 76 for line in lines(mime))


def classic_text(mime: bytes, name: str) -> str:
    """Read a field as programs do that know only the older parser."""
    unfolded = re.sub(r"\r?\n(?=[ \t])", "", str(classic(mime)[name]))
    return str(make_header(decode_header(unfolded)))


def test_r28_a_long_greek_subject_is_folded_into_short_words() -> None:
    """R28: a Greek phrase, 27 times."""
    subject = GREEK * 27
    mime = composed(subject=subject)

    words = re.findall(r"=\?[^ \r]*\?=", "\n".join(lines(mime)))
    assert len(words) > 20
    assert max(map(len, words)) <= 75
    assert max(map(len, lines(mime))) <= 76
    assert decoded(dict(header_block(mime))["Subject"]) == subject


@pytest.mark.parametrize("unit", ["a ", "é", "日", "😀", "=?", "long-", "e\u0301", "ש"])
def test_r30_a_subject_survives_being_read_and_composed_again(unit: str) -> None:
    """R30: longer than reported, and read and composed three times."""
    subject = (unit * 998)[:998]
    for _ in range(3):
        subject_again = modern(composed(subject=subject))["Subject"]
        assert str(subject_again) == subject
        subject = str(subject_again)


@given(
    subject=header_texts,
    sender=names,
    to=mailbox_lists,
    cc=mailbox_lists,
    x=header_texts,
)
def test_the_block_holds_exactly_the_headers_that_were_set(
    subject: str, sender: str, to: tuple[Mailbox, ...], cc: tuple[Mailbox, ...], x: str
) -> None:
    from_ = Mailbox(FROM.address, sender)
    mime = composed(
        subject=subject, from_=from_, to=to, cc=cc, reply_to=from_,
        headers=(("X-Note", x), ("Organization", x)),
    )  # fmt: skip

    expected = [
        "From", "Reply-To", "To", "Cc", "Subject", "Date", "Message-ID", "X-Note",
        "Organization", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
    ]  # fmt: skip
    assert [name for name, _ in header_block(mime)] == expected
    assert modern(mime).keys() == expected
    assert classic(mime).keys() == expected
    for name in ("X-Note", "Organization"):
        assert decoded(dict(header_block(mime))[name]) == x == modern(mime)[name]
    assert max(map(len, lines(mime))) <= 998


@given(mailbox_lists)
def test_addresses_parse_to_exactly_the_mailboxes_given(
    to: tuple[Mailbox, ...],
) -> None:
    mime = composed(to=to)

    assert mailboxes(dict(header_block(mime))["To"]) == list(to)
    assert_modern_agrees(mime, "To", list(to))
    assert classic_mailboxes(mime, "To") == list(to)
    assert not modern(mime)["To"].defects
    assert all(len(line) <= 76 or cannot_be_broken(line) for line in lines(mime))


def assert_modern_agrees(mime: bytes, name: str, expected: list[Mailbox]) -> None:
    """Compare with the newer parser, but for two faults of it.

    In display names it keeps the blanks between two encoded words, which RFC 2047
    section 6.2 says are not shown, and merges blanks inside of one.
    """
    found = modern_mailboxes(mime, name)
    if "=?" in dict(header_block(mime))[name]:
        without_blanks = [(a, re.sub(r"\s", "", shown)) for a, shown in found]
        assert without_blanks == [(a, re.sub(r"\s", "", n)) for a, n in expected]
    else:
        assert found == expected


def modern_mailboxes(mime: bytes, name: str) -> list[tuple[str, str]]:
    return [(a.addr_spec, a.display_name) for a in modern(mime)[name].addresses]


def cannot_be_broken(line: str) -> bool:
    return " " not in line.removeprefix("To:").lstrip(" ")


def classic_mailboxes(mime: bytes, name: str) -> list[tuple[str, str]]:
    unfolded = re.sub(r"\r?\n(?=[ \t])", "", str(classic(mime)[name]))
    pairs = getaddresses([unfolded])
    return [
        (address, str(make_header(decode_header(shown)))) for shown, address in pairs
    ]


@pytest.mark.parametrize(
    "shown", ["Ana", "Ana de Sá", "Doe, Jane", 'J. "JD" Doe', "(x)"]
)
def test_names_are_written_plainly_where_they_can_be(shown: str) -> None:
    mime = composed(to=(Mailbox("j@c.example", shown),))

    assert modern_mailboxes(mime, "To") == [("j@c.example", shown)]
    assert ("=?" in dict(header_block(mime))["To"]) == (not shown.isascii())


@pytest.mark.parametrize(
    "value", ["a\r\nBcc: x@y.example", "a\nb", "a\x00b", "a\tb", "\ud800"]
)
@pytest.mark.parametrize("place", ["subject", "from", "to", "reply_to", "x", "uri"])
def test_r31_controls_never_get_into_the_block(place: str, value: str) -> None:
    places: dict[str, dict[str, object]] = {
        "subject": {"subject": value},
        "from": {"from_": Mailbox(FROM.address, value)},
        "to": {"to": (Mailbox("a@b.example", value),)},
        "reply_to": {"reply_to": Mailbox(f"a{value}@b.example", "")},
        "x": {"headers": (("X-Note", value),)},
        "uri": {"headers": (("List-Unsubscribe", f"<https://x.example/{value}>"),)},
    }
    with pytest.raises(ValueError, match=r"control|surrogate|no address"):
        composed(**places[place])


@pytest.mark.parametrize("separator", ["\u0085", "\u2028", "\u2029"])
def test_r31_unicode_line_separators_are_data(separator: str) -> None:
    value = f"before{separator}Bcc: x@y.example"
    mime = composed(subject=value, from_=Mailbox(FROM.address, value))

    assert modern(mime)["Subject"] == value
    assert modern_mailboxes(mime, "From") == [(FROM.address, value)]
    assert modern(mime)["Bcc"] is None


def test_message_ids_stay_literal_however_long() -> None:
    ids = tuple(
        f"{'x' * size}.{size}@mail.example" for size in (1, 40, 70, 78, 300, 963)
    )
    mime = composed(in_reply_to=ids[-1], references=ids)

    block = dict(header_block(mime))
    assert block["In-Reply-To"] == f"<{ids[-1]}>"
    assert block["References"] == " ".join(f"<{i}>" for i in ids)
    assert modern(mime)["References"] == block["References"]
    assert all(len(line) <= 78 or line.count("<") == 1 for line in lines(mime))
    assert max(map(len, lines(mime))) <= 998


@pytest.mark.parametrize("bad", ["a b@c", "a<b@c", "é@c", "a\r\n@c", "", "x" * 981])
def test_what_is_no_message_id_is_not_named(bad: str) -> None:
    with pytest.raises(ValueError, match="no message id"):
        composed(references=("a@b", bad))


def test_uris_to_unsubscribe_stay_literal() -> None:
    value = f"<https://x.example/u?a=?utf-8?q?b?=&t={'t' * 500}>, <mailto:u@x.example>"
    mime = composed(
        headers=(
            ("List-Unsubscribe", value),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        )
    )

    block = header_block(mime)
    assert ("List-Unsubscribe", value) in block
    assert ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click") in block


@pytest.mark.parametrize("value", ["", " x", "<https://bücher.example>", "x" * 990])
def test_a_literal_header_refuses_what_would_need_encoding(value: str) -> None:
    with pytest.raises(ValueError, match="List-Unsubscribe"):
        composed(headers=(("List-Unsubscribe", value),))


def test_a_custom_header_that_a_program_reads_is_not_encoded() -> None:
    token = "t" * 900
    mime = composed(headers=(("X-Token", token), ("X-Long", f"{'u' * 70} {'v' * 70}")))

    block = dict(header_block(mime))
    assert block["X-Token"] == token
    assert block["X-Long"] == f"{'u' * 70} {'v' * 70}"


@pytest.mark.parametrize("size", [1, 30, 60, 75, 98])
@pytest.mark.parametrize("value", ["é" * 300, "plain words " * 20 + "end", "w" * 74])
def test_a_long_header_name_leaves_its_value_whole(size: int, value: str) -> None:
    name = "X-" + "n" * size
    mime = composed(headers=((name, value),))

    assert decoded(dict(header_block(mime))[name]) == value
    assert modern(mime)[name] == value
    assert all(len(line) <= 76 or line.startswith("X-") for line in lines(mime))


@pytest.mark.parametrize(
    "name",
    ["Bcc", "bcc", "FROM", "Date", "Message-ID", "Content-Type", "References", "X-A:",
     "X A", "X-é", "", "X-" + "a" * 99, "MIME-Version"],
)  # fmt: skip
def test_a_header_that_is_set_otherwise_is_not_set_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"set this way|no header"):
        composed(headers=((name, "x"),))


def test_a_header_is_set_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        composed(headers=(("X-Note", "a"), ("x-note", "b")))


@pytest.mark.parametrize(
    "address",
    ["a@b.example\r\nBcc: c@d.example", "a b@c.example", "a@b.example, c@d.example",
     "<a@b.example>", "é@b.example", "a@bücher.example", "a", ""],
)  # fmt: skip
def test_only_normalised_addresses_are_written(address: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        composed(to=(Mailbox(address),))


def test_the_longest_address_is_one_line() -> None:
    address = f"{'l' * 64}@{'d' * 63}.{'e' * 63}.{'f' * 57}.com"
    mime = composed(to=(Mailbox(address, "Long"), Mailbox(address)))

    assert modern_mailboxes(mime, "To") == [(address, "Long"), (address, "")]


def test_date_and_message_id_come_from_the_submit() -> None:
    result = compose(
        ComposeInput(
            message_id=MESSAGE_ID,
            sent_at=SENT_AT,
            from_=FROM,
            to=(TO,),
            subject="",
            text="",
        )
    )

    assert result.rfc_message_id == "01k0000000000000000000000a@agents.example"
    block = dict(header_block(result.mime))
    assert block["Message-ID"] == f"<{result.rfc_message_id}>"
    assert block["Date"] == "Mon, 14 Sep 2026 08:12:00 +0000"
    assert block["Subject"] == ""


def test_a_message_to_blind_copies_alone_says_so_and_names_nobody() -> None:
    mime = composed(to=())

    assert dict(header_block(mime))["To"] == "undisclosed-recipients:;"
    assert modern(mime)["To"].addresses == ()


def test_an_instant_without_a_zone_and_an_odd_id_are_refused() -> None:
    naive = SENT_AT.replace(tzinfo=None)
    with pytest.raises(ValueError, match="time zone"):
        compose(
            ComposeInput(message_id=MESSAGE_ID, sent_at=naive, from_=FROM, subject="")
        )
    with pytest.raises(ValueError, match="msg_"):
        compose(
            ComposeInput(
                message_id="x", sent_at=datetime.now(UTC), from_=FROM, subject=""
            )
        )


@pytest.mark.parametrize("text", HURTFUL)
def test_each_hurtful_text_stays_itself_in_every_place(text: str) -> None:
    name = text[:256]
    mime = composed(
        subject=text, from_=Mailbox(FROM.address, name), headers=(("Comments", text),)
    )

    assert modern(mime)["Subject"] == modern(mime)["Comments"] == text
    assert_modern_agrees(mime, "From", [Mailbox(FROM.address, name)])
    assert classic_mailboxes(mime, "From") == [(FROM.address, name)]
