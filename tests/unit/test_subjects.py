"""Subjects: every prefix of the list goes, and nothing that only looks like one."""

from email.header import Header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.subjects import (
    SUBJECT_LIMIT,
    decode_subject,
    forward_subject,
    normalize_subject,
    reply_subject,
)

PREFIXES = [
    "re", "fw", "fwd", "aw", "wg", "sv", "vs", "vb", "antw", "doorst", "tr", "rif",
    "enc", "res", "rv", "odp", "pd", "ynt", "ilt", "atb", "πληρ", "σχετ", "ответ",
    "回复", "回覆", "答复", "转发", "轉寄",
]  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "normal"),
    [
        ("[ops] Re: Fwd: x", "[ops] x"),
        ("Re: [t] Re: x", "[t] x"),
        ("R: drive", "drive"),
        ("R:drive", "R:drive"),
        ("R2D2", "R2D2"),
        ("I: nota", "nota"),
        ("i:nota", "i:nota"),
        ("", "(no subject)"),
        (" \t\r\n ", "(no subject)"),
        ("Re:", "(no subject)"),
        ("Re: Re: Re:", "(no subject)"),
        ("RE[2]: x", "x"),
        ("Re(12): x", "x"),
        ("Re[12345]: x", "Re[12345]: x"),
        ("r[3]: x", "x"),
        ("Re\uff1ax", "x"),
        ("[ops]Re:x", "[ops] x"),
        ("Reply: x", "Reply: x"),
        ("Research: x", "Research: x"),
        ("Regarding x", "Regarding x"),
        ("Antw: Fwd: re: x", "x"),
        ("a\x00b\r\n c\x85d", "a b c d"),
        ("Re: a  b", "a b"),
        (f"[{'t' * 40}] Re: x", f"[{'t' * 40}] x"),
        (f"[{'t' * 41}] Re: x", f"[{'t' * 41}] Re: x"),
        ("[] Re: x", "[] Re: x"),
    ],
)
def test_prefixes_go_and_tags_stay(subject: str, normal: str) -> None:
    assert normalize_subject(subject) == normal


@pytest.mark.parametrize("word", PREFIXES)
@pytest.mark.parametrize(
    "shape", ["{}: x", "{}:x", "{}[3]: x", "{}\uff1a x", "[a] {}: x"]
)
def test_every_prefix_in_every_case_goes(word: str, shape: str) -> None:
    kept = "[a] x" if shape.startswith("[") else "x"

    for spelling in (word, word.upper(), word.title()):
        assert normalize_subject(shape.format(spelling)) == kept


def test_ten_prefixes_go_and_the_eleventh_stays() -> None:
    assert normalize_subject("Re: " * 10 + "x") == "x"
    assert normalize_subject("Re: " * 11 + "x") == "Re: x"


@given(st.text(max_size=60))
def test_a_reply_has_one_prefix_however_often_it_is_answered(subject: str) -> None:
    once = reply_subject(subject)

    assert once.startswith("Re: ")
    assert len(once) <= SUBJECT_LIMIT
    if "re" not in normalize_subject(subject).lower()[:2]:
        assert reply_subject(once) == once


@given(st.text(max_size=80))
def test_a_normal_subject_is_one_line_without_blanks_at_its_ends(subject: str) -> None:
    normal = normalize_subject(subject)

    assert normal == " ".join(normal.split())
    assert normal


def test_a_long_subject_is_cut_at_998_characters() -> None:
    assert reply_subject("ж" * 998) == "Re: " + "ж" * 994
    assert forward_subject("ж" * 998) == "Fwd: " + "ж" * 993
    assert len(reply_subject("a " * 600)) <= SUBJECT_LIMIT


def test_a_message_without_a_subject_can_be_answered() -> None:
    assert reply_subject(None) == "Re: (no subject)"
    assert forward_subject(None) == "Fwd: (no subject)"


def test_a_forward_of_a_reply_keeps_its_own_prefix_only() -> None:
    assert forward_subject("Re: [t] AW: x") == "Fwd: [t] x"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("=?utf-8?q?Caf=C3=A9_noir?=", "Café noir"),
        ("=?UTF-8?B?w6k=?= =?utf-8?b?w6k=?=", "éé"),
        ("=?utf-8?b?4oI=?=\r\n =?utf-8?b?rA==?=", "€"),
        ("=?iso-8859-1*en?Q?=E9?= and =?utf-8?q?=C3=A9?=", "é and é"),
        ("=?x-unknown?q?abc?=", "abc"),
        ("=?utf-8?b?w6?= x", "\ufffd x"),
        ("=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
        ("=?utf-8?x?a?=", "=?utf-8?x?a?="),
    ],
)
def test_encoded_words_of_a_header_are_read(raw: str, text: str) -> None:
    assert decode_subject(raw) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=80))
def test_what_another_library_encodes_is_read_back(text: str) -> None:
    raw = Header(text, "utf-8").encode()

    assert decode_subject(raw) == text


def test_text_that_looks_encoded_stays_text_in_a_reply() -> None:
    assert reply_subject("=?utf-8?q?hi?=") == "Re: =?utf-8?q?hi?="
