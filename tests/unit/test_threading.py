"""Message-IDs and References: literal, bounded, and the same on every way in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.threading import (
    REFERENCES_BYTES,
    ThreadHeaders,
    ThreadIds,
    answer_headers,
    forward_headers,
    message_ids_in,
    normalize_message_id,
    parent_of,
    references_to,
)

ids = st.builds(
    lambda local, domain: f"{local}@{domain}.example",
    st.text("abcXYZ019!#$%&'*+/=?^_`{|}~.-", min_size=1, max_size=200),
    st.text("abc019-", min_size=1, max_size=20),
)


@pytest.mark.parametrize(
    ("raw", "identifier"),
    [
        ("<AbC@Example.COM>", "AbC@example.com"),
        ("  <AbC@Example.COM>  <other@x>", "AbC@example.com"),
        ("AbC@Example.COM", "AbC@example.com"),
        (" bare@x.example \r\n", "bare@x.example"),
        ("<a@b@C.example>", "a@b@c.example"),
        ("(a comment <no@no>) <yes@yes.example>", "yes@yes.example"),
        ("<yes@yes.example> (a (nested) comment)", "yes@yes.example"),
        ("<a(note)b@x.example>", "ab@x.example"),
        ("<a(b@x.example>", "a(b@x.example"),
        ('<"a (b) c"@x.example>', '"a(b)c"@x.example'),
        ("<folded\r\n id@x.example>", "foldedid@x.example"),
        ("", None),
        ("<>", None),
        ("<no-at-sign>", None),
        ("<@x.example>", None),
        ("<a@>", None),
        (f"<{'a' * 990}@x.example>", None),
        (f"<{'a' * 988}@x.example>", f"{'a' * 988}@x.example"),
        (f"<{'é' * 494}@x.example>", f"{'é' * 494}@x.example"),
        (f"<{'é' * 495}@x.example>", None),
    ],
)
def test_a_message_id_has_one_form(raw: str, identifier: str | None) -> None:
    assert normalize_message_id(raw) == identifier


@given(st.text(max_size=60))
def test_a_normal_id_is_its_own_normal_form(raw: str) -> None:
    identifier = normalize_message_id(raw)

    if identifier is not None and not {"<", ">", "(", ")", '"', "\\"} & set(identifier):
        assert normalize_message_id(f"<{identifier}>") == identifier


def test_a_references_field_is_read_in_order() -> None:
    assert message_ids_in("<a@X> (note)\r\n <b@y><c@z>") == ["a@x", "b@y", "c@z"]
    assert message_ids_in("a@x b@y") == ["a@x", "b@y"]
    assert message_ids_in("nothing here") == []
    assert len(message_ids_in(" ".join(f"<{n}@x>" for n in range(500)))) == 200
    assert message_ids_in(" ".join(f"<{n}@x>" for n in range(500)))[-1] == "499@x"


def test_references_are_the_parents_and_the_parent() -> None:
    parent = ThreadIds("c@x", in_reply_to="b@x", references=("a@x", "b@x"))

    assert answer_headers(parent) == ThreadHeaders("c@x", ("a@x", "b@x", "c@x"))


def test_without_references_what_the_parent_answers_stands_first() -> None:
    assert references_to(ThreadIds("c@x", in_reply_to="b@x")) == ("b@x", "c@x")


def test_of_a_repeated_id_the_last_stays() -> None:
    parent = ThreadIds("a@x", references=("a@x", "b@x", "b@x", "c@x", "b@x"))

    assert references_to(parent) == ("c@x", "b@x", "a@x")


def test_r29_a_thread_of_120_messages_keeps_the_first_and_the_newest_19() -> None:
    thread = [f"{n}@mail.example" for n in range(120)]

    named = references_to(ThreadIds(thread[-1], references=thread[:-1]))

    assert named == (thread[0], *thread[-19:])


def test_twenty_ids_all_stay() -> None:
    thread = [f"{n}@x" for n in range(20)]

    assert references_to(ThreadIds(thread[-1], references=thread[:-1])) == tuple(thread)


def test_past_2048_octets_the_oldest_after_the_first_go() -> None:
    thread = [f"{str(n) * 200}@x" for n in range(10)]  # 205 octets each with brackets

    named = references_to(ThreadIds(thread[-1], references=thread[:-1]))

    assert named == (thread[0], *thread[-8:])
    assert len(" ".join(f"<{i}>" for i in named)) <= REFERENCES_BYTES


@given(st.lists(ids, max_size=60), ids)
def test_references_fit_whatever_the_thread_holds(before: list[str], own: str) -> None:
    named = references_to(ThreadIds(own, references=before))

    assert named[-1] == own
    assert len(named) == len(set(named)) <= 20
    assert len(" ".join(f"<{i}>" for i in named)) <= REFERENCES_BYTES
    order = [*before, own]
    places = [len(order) - 1 - order[::-1].index(i) for i in named]
    assert places == sorted(places)


def test_an_id_that_no_line_can_hold_is_not_named() -> None:
    broken = ThreadIds("has blank@x", references=("a@x", "é@x", "b" * 990 + "@x"))

    assert not broken.can_be_named
    assert references_to(broken) == ("a@x",)


def test_an_answer_to_an_unknown_id_names_the_newest_known_one_before_it() -> None:
    known = ThreadIds("known@x")
    earlier = [ThreadIds(None), ThreadIds("made@x", is_synthetic=True), known]

    assert parent_of(ThreadIds(None), earlier) is known
    assert (
        parent_of(ThreadIds("s@synthetic.invalid", is_synthetic=True), earlier) is known
    )
    assert parent_of(ThreadIds("own@x"), earlier) == ThreadIds("own@x")
    assert parent_of(None, earlier) is known


def test_when_nobody_can_be_named_both_headers_are_left_out() -> None:
    assert answer_headers(parent_of(None, [ThreadIds(None)])) == ThreadHeaders()
    assert forward_headers(None) == ThreadHeaders()


def test_a_forward_keeps_references_and_answers_nothing() -> None:
    parent = ThreadIds("b@x", references=("a@x",))

    assert forward_headers(parent) == ThreadHeaders(None, ("a@x", "b@x"))
