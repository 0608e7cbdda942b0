"""Bodies and files: every line fits, and every byte comes back."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.filenames import clean_filename
from outbound.compose import Attachment, ComposeInput, Mailbox, compose
from tests.support.mail_reader import classic, modern
from tests.support.texts import HURTFUL, bodies

PLAIN = ComposeInput(
    message_id="msg_01K0000000000000000000000A",
    sent_at=datetime(2026, 9, 14, 8, 12, tzinfo=UTC),
    from_=Mailbox("bookings.acme@agents.example", "Acme Car Hire"),
    to=(Mailbox("ana@example.com"),),
    subject="Your booking",
    text="Hello",
)
PDF = Attachment("report.pdf", "application/pdf", "attachment", None, bytes(range(256)))
LOGO = Attachment("logo.png", "image/png", "inline", "logo@x", b"\x89PNG" * 40)


def content(mime: bytes, subtype: str) -> str:
    """Return the decoded text of the part of one kind, with LF line ends."""
    for part in classic(mime).walk():
        if part.get_content_type() == f"text/{subtype}":
            assert part.get_content_charset() == "utf-8"
            octets = part.get_payload(decode=True)
            assert isinstance(octets, bytes)
            return octets.decode("utf-8").replace("\r\n", "\n")
    raise AssertionError(f"no {subtype} part")


def encodings(mime: bytes) -> list[str]:
    return [
        str(part["Content-Transfer-Encoding"])
        for part in classic(mime).walk()
        if not part.is_multipart()
    ]


def assert_fit_for_the_wire(mime: bytes) -> None:
    assert mime.isascii()
    assert mime.endswith(b"\r\n")
    assert b"\0" not in mime
    lines = mime.split(b"\r\n")
    assert max(map(len, lines)) <= 998
    assert not any(b"\r" in line or b"\n" in line for line in lines)


@given(text=bodies, html=bodies)
def test_row_24_texts_come_back_and_every_line_fits(text: str, html: str) -> None:
    """Row 24, before any wire: whatever the text, lines fit and it comes back."""
    mime = compose(replace(PLAIN, text=text, html=html)).mime

    assert_fit_for_the_wire(mime)
    assert content(mime, "plain") == text.replace("\r\n", "\n")
    assert content(mime, "html") == html.replace("\r\n", "\n")
    assert not any(part.defects for part in modern(mime).walk())


@given(bodies)
def test_a_text_alone_comes_back_with_its_last_line_ended(text: str) -> None:
    mime = compose(replace(PLAIN, text=text)).mime

    assert_fit_for_the_wire(mime)
    assert content(mime, "plain").removesuffix("\n") == text.replace(
        "\r\n", "\n"
    ).removesuffix("\n")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Plain words.\n.\n..\n-- \nMe\n", "7bit"),
        ("x" * 998, "7bit"),
        ("", "7bit"),
        ("x" * 999, "quoted-printable"),
        ("\n".join(["x" * 1200] * 3), "quoted-printable"),
        ("A tab\tis plain", "7bit"),
        ("A form\ffeed is not", "quoted-printable"),
        ("NUL \x00 is not", "quoted-printable"),
        ("Größe und Gruß der deutschen Sprache", "quoted-printable"),
        ("Καλημέρα σας", "base64"),
        ("日本語", "base64"),
        ("a lone\rreturn", "base64"),
        ("--=_01k0000000000000000000000a_a", "quoted-printable"),
    ],
)
def test_seven_bits_only_where_they_are_safe(text: str, encoding: str) -> None:
    mime = compose(replace(PLAIN, text=text)).mime

    assert encodings(mime) == [encoding]
    assert_fit_for_the_wire(mime)
    assert content(mime, "plain").removesuffix("\n") == text.removesuffix("\n")


def test_encoded_lines_have_at_most_76_octets() -> None:
    message = replace(
        PLAIN,
        text="Viele herzliche Grüße aus der Stadt " * 99,
        html="<p>日本語</p>" * 500,
        attachments=(PDF,),
    )
    mime = compose(message).mime

    assert max(map(len, mime.split(b"\r\n"))) <= 76
    assert encodings(mime) == ["quoted-printable", "base64", "base64"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends_of_either_kind_become_crlf(ending: str) -> None:
    text = ending.join(["one", "", ".", "four", ""])

    mime = compose(replace(PLAIN, text=text)).mime

    assert mime.endswith(b"\r\n\r\none\r\n\r\n.\r\nfour\r\n")


def structure(part: EmailMessage) -> object:
    if not part.is_multipart():
        return part.get_content_type()
    return (part.get_content_type(), *map(structure, parts_of(part)))


def parts_of(part: EmailMessage) -> list[EmailMessage]:
    return cast("list[EmailMessage]", part.get_payload())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (PLAIN, "text/plain"),
        (replace(PLAIN, text=None, html="<p>x"), "text/html"),
        (replace(PLAIN, text=None), "text/plain"),
        (
            replace(PLAIN, html="x"),
            ("multipart/alternative", "text/plain", "text/html"),
        ),
        (
            replace(PLAIN, attachments=(PDF, LOGO)),
            ("multipart/mixed", "text/plain", "application/pdf", "image/png"),
        ),
        (
            replace(PLAIN, html="x", attachments=(PDF, LOGO)),
            (
                "multipart/mixed",
                (
                    "multipart/alternative",
                    "text/plain",
                    ("multipart/related", "text/html", "image/png"),
                ),
                "application/pdf",
            ),
        ),
    ],
)
def test_parts_are_nested_as_readers_expect(
    message: ComposeInput, expected: object
) -> None:
    mime = compose(message).mime

    assert structure(modern(mime)) == expected
    assert not any(part.defects for part in modern(mime).walk())
    assert modern(mime).preamble is None


def test_a_related_part_names_its_root_and_its_images() -> None:
    mime = compose(replace(PLAIN, text=None, html="x", attachments=(LOGO,))).mime

    related = modern(mime)
    assert related.get_param("type") == "text/html"
    image = parts_of(related)[1]
    assert image["Content-ID"] == "<logo@x>"
    assert image.get_content_disposition() == "inline"
    assert image.get_content() == LOGO.content


@given(
    st.binary(max_size=300), st.sampled_from(["text/plain", "message/rfc822", "a/b"])
)
def test_the_bytes_of_a_file_come_back_exactly(octets: bytes, kind: str) -> None:
    file = Attachment("f.bin", kind, "attachment", None, octets)
    mime = compose(replace(PLAIN, attachments=(file,))).mime

    part = parts_of(modern(mime))[1]
    assert part.get_payload(decode=True) == octets
    assert not part.defects
    assert_fit_for_the_wire(mime)


@pytest.mark.parametrize("kind", ["message/rfc822", "Multipart/Mixed", "message/x"])
def test_types_that_may_not_be_base64_travel_as_opaque_files(kind: str) -> None:
    file = Attachment("mail.eml", kind, "attachment", None, b"Subject: x\n\ny\n")
    mime = compose(replace(PLAIN, attachments=(file,))).mime

    part = parts_of(modern(mime))[1]
    assert part.get_content_type() == "application/octet-stream"
    assert part.get_filename() == "mail.eml"


@pytest.mark.parametrize(
    "name",
    ["report.pdf", "my report (final).pdf", "Größe.pdf", "日本語の報告書.pdf",
     'a "quoted" name.txt', "semi;colon.txt", "per%41cent.txt", "it's.txt", "שלום.txt",
     "=?utf-8?q?x?=.pdf", "a=b.txt", "x" * 251 + ".pdf", "日" * 83 + ".pdf", "😀.png",
     "two  blanks.txt", "utf-8''%41.txt", "é'é''é.txt", "a\u00a0b.txt", "a\u2019b.txt"],
)  # fmt: skip
def test_a_file_name_comes_back_from_both_readers(name: str) -> None:
    mime = compose(replace(PLAIN, attachments=(replace(PDF, filename=name),))).mime

    part = parts_of(modern(mime))[1]
    assert part.get_filename() == name
    assert (
        cast("list[EmailMessage]", classic(mime).get_payload())[1].get_filename()
        == name
    )
    fallback = str(part.get_param("name"))
    assert re.fullmatch(r"[A-Za-z0-9 ._()-]{1,50}", fallback)
    assert fallback.endswith(name[-4:])
    assert max(map(len, mime.split(b"\r\n"))) <= 76


@given(st.sampled_from(HURTFUL) | st.text(max_size=300))
def test_any_file_name_is_cleaned_and_comes_back_clean(name: str) -> None:
    mime = compose(replace(PLAIN, attachments=(replace(PDF, filename=name),))).mime

    clean = clean_filename(name)
    # get_filename() would take quotes and brackets off a name
    disposition = parts_of(modern(mime))[1]["Content-Disposition"]
    assert disposition.params["filename"] == clean
    assert not disposition.defects
    assert clean == clean_filename(clean)
    assert 0 < len(clean.encode("utf-8")) <= 255
    assert not set(clean) & set("/\\\r\n\x00\x85\u2028")
    assert_fit_for_the_wire(mime)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("a\r\nBcc: x@y.example", "aBcc: x@y.example"),
        ("a\x00\x85\u2028b\t.txt", "ab.txt"),
        ("\ud800.txt", ".txt"),
        ("", "attachment"),
        ("...", "..."),
        ("..", "attachment"),
        ("dir/", "attachment"),
        ("  \r\n ", "attachment"),
        ("é" * 200, "é" * 127),
        ("x" + "日" * 100, "x" + "日" * 84),
        ("x" * 254 + "😀", "x" * 254),
    ],
)
def test_r31_a_file_name_is_cleaned_not_refused(given_name: str, kept: str) -> None:
    assert clean_filename(given_name) == kept


def test_a_file_without_a_name_has_none() -> None:
    mime = compose(replace(PLAIN, attachments=(replace(PDF, filename=None),))).mime

    part = parts_of(modern(mime))[1]
    assert part.get_filename() is None
    assert part.get_content() == PDF.content


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"content_type": "pdf"}, "type/subtype"),
        ({"content_type": "a/b\r\nX-Y: z"}, "type/subtype"),
        ({"content_type": "text/plain; charset=x"}, "type/subtype"),
        ({"content_id": "a b"}, "content id"),
        ({"content_id": "a>\r\nX-Y: z"}, "content id"),
        ({"disposition": "inline; x"}, "disposition"),
    ],
)
def test_part_headers_take_nothing_else(changes: dict[str, str], reason: str) -> None:
    file = replace(PDF, **changes)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match=reason):
        compose(replace(PLAIN, attachments=(file,)))


def test_composing_twice_gives_the_same_bytes() -> None:
    message = replace(
        PLAIN, subject="Größe", html="<p>日本</p>", attachments=(PDF, LOGO),
        references=("a@b",), headers=(("X-Pylota-Mail-Hop", "1"),),
    )  # fmt: skip

    assert compose(message) == compose(replace(message))
    other = compose(replace(message, message_id="msg_01K0000000000000000000000B"))
    assert other.mime != compose(message).mime


def test_no_boundary_stands_in_a_text_that_quotes_it() -> None:
    message = replace(PLAIN, html="x", attachments=(PDF, LOGO))
    boundaries = re.findall(rb'boundary="([^"]+)"', compose(message).mime)
    assert len(set(boundaries)) == 3
    quoting = "\n".join(f"--{b.decode()}--\n\n--{b.decode()}" for b in boundaries)

    mime = compose(replace(message, text=quoting, html=quoting)).mime

    assert content(mime, "plain") == content(mime, "html") == quoting
    assert len(list(modern(mime).walk())) == 7


def test_a_line_of_text_is_never_split_by_unicode_separators() -> None:
    text = "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg"
    mime = compose(replace(PLAIN, text=text, html=text, subject="a\u0085b\u2028c")).mime

    assert content(mime, "plain") == content(mime, "html") == text
    assert modern(mime)["Subject"] == "a\u0085b\u2028c"
