"""Whom an answer goes to: the right person, everybody once, and never ourselves."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailboxes.recipients import (
    AnsweredMessage,
    AnswerRecipients,
    Party,
    participants,
    reply_all_recipients,
    reply_recipients,
    reply_target,
)
from mailboxes.statuses import Direction

JO = Party("jo@corp.example", "Jo")
DESK = Party("desk@mail.corp.example")
STRANGER = Party("thief@elsewhere.example")
LEE, ANN = Party("lee@x.example"), Party("ann@y.example")
OWN = frozenset({"bookings@agents.example", "old.retired@agents.example"})
ME, RETIRED = Party("bookings@agents.example"), Party("old.retired@agents.example")
TAGGED = Party("Bookings+t03k.9f2mq7xa@Agents.example")


def inbound(**facts: Any) -> AnsweredMessage:
    return AnsweredMessage(Direction.INBOUND, **{"sender": JO, **facts})


def test_without_a_reply_to_the_sender_is_answered() -> None:
    assert reply_target(inbound()) == JO


@pytest.mark.parametrize(
    ("known", "written", "same"), list(itertools.product([True, False], repeat=3))
)
def test_a_reply_to_counts_for_any_one_of_three_reasons(
    known: bool, written: bool, same: bool
) -> None:
    wanted = DESK if same else STRANGER
    message = inbound(
        reply_to=(wanted,), known_sender=known, has_written_to_reply_to=written
    )

    assert reply_target(message) == (wanted if known or written or same else JO)


def test_the_first_reply_to_is_the_one_that_counts() -> None:
    assert reply_target(inbound(reply_to=(DESK, STRANGER))) == DESK
    assert reply_target(inbound(reply_to=(STRANGER, DESK))) == JO


def test_a_shared_public_suffix_is_no_organisation() -> None:
    message = inbound(sender=Party("a@one.co.uk"), reply_to=(Party("b@two.co.uk"),))

    assert reply_target(message) == Party("a@one.co.uk")


def test_organisations_are_compared_by_a_label() -> None:
    message = inbound(
        sender=Party("a@BÜCHER.example"), reply_to=(Party("b@xn--bcher-kva.example"),)
    )

    assert reply_target(message) == Party("b@xn--bcher-kva.example")


def test_without_a_from_and_a_trusted_reply_to_nobody_is_answered() -> None:
    assert reply_target(inbound(sender=None, reply_to=(STRANGER,))) is None
    assert reply_recipients(inbound(sender=None)) == AnswerRecipients(())


def test_a_reply_goes_to_the_target_alone() -> None:
    message = inbound(to=(ME, LEE), cc=(ANN,))

    assert reply_recipients(message) == AnswerRecipients((JO,))


def test_a_reply_to_our_own_message_goes_where_that_went() -> None:
    message = AnsweredMessage(Direction.OUTBOUND, ME, to=(JO, LEE), cc=(ANN,))

    assert reply_recipients(message) == AnswerRecipients((JO, LEE), (ANN,))
    assert reply_all_recipients(message, own=OWN) == reply_recipients(message)


def test_a_reply_to_all_goes_to_target_to_and_cc_without_us() -> None:
    message = inbound(to=(ME, LEE, JO, RETIRED), cc=(ANN, TAGGED, LEE))

    assert reply_all_recipients(message, own=OWN) == AnswerRecipients((JO, LEE), (ANN,))


def test_a10_a_reply_to_all_on_a_bcc_copy_shows_nothing_of_it() -> None:
    # Given a copy whose To and Cc name others only
    message = inbound(to=(LEE,), cc=(ANN,))

    assert reply_all_recipients(message, own=OWN) == AnswerRecipients((JO, LEE), (ANN,))


def test_everybody_is_named_once_whatever_the_spelling() -> None:
    message = inbound(
        to=(Party("JO@Corp.example."), LEE), cc=(Party("<lee@x.example>"),)
    )

    assert reply_all_recipients(message, own=OWN) == AnswerRecipients((JO, LEE))


def test_mail_from_ourselves_to_ourselves_leaves_nobody_to_reply_to_all() -> None:
    message = inbound(sender=ME, to=(TAGGED,), cc=(RETIRED,))

    assert reply_all_recipients(message, own=OWN) == AnswerRecipients(())


parties = st.lists(
    st.sampled_from([JO, DESK, STRANGER, LEE, ANN, ME, RETIRED, TAGGED]), max_size=8
).map(tuple)


@given(parties, parties, parties, st.sampled_from(list(Direction)))
def test_no_reply_to_all_ever_names_us_or_anybody_twice(
    to: tuple[Party, ...],
    cc: tuple[Party, ...],
    reply_to: tuple[Party, ...],
    direction: Direction,
) -> None:
    message = AnsweredMessage(direction, JO, to=to, cc=cc, reply_to=reply_to)

    found = reply_all_recipients(message, own=OWN)

    named = [party.address.lower() for party in (*found.to, *found.cc)]
    assert len(named) == len(set(named))
    assert not {address for address in named if "agents.example" in address}


def test_participants_stand_in_order_of_appearance_with_their_newest_name() -> None:
    first = participants([], [JO, ME, LEE], own=OWN)
    then = participants(first, [Party("lee@x.example", " Lee "), ANN, JO], own=OWN)

    assert then == [JO, Party("lee@x.example", "Lee"), ANN]


def test_an_empty_name_takes_no_name_away() -> None:
    assert participants([JO], [Party("JO@corp.example", " ")], own=OWN) == [JO]


def test_journal_copies_and_own_addresses_take_no_part() -> None:
    journal = Party("journal+01arz.01arz@agents.example")

    found = participants(
        [], [journal, ME, TAGGED, RETIRED], own=OWN, journal="journal@agents.example"
    )

    assert found == []


def test_after_fifty_nobody_joins_and_names_still_change() -> None:
    many = [Party(f"p{n}@x.example") for n in range(60)]
    full = participants([], many, own=OWN)

    again = participants(
        full, [Party("p0@x.example", "P"), Party("new@x.example")], own=OWN
    )

    assert len(again) == 50
    assert again[0] == Party("p0@x.example", "P")


def test_a_long_name_is_cut_at_78_characters() -> None:
    (found,) = participants([], [Party("a@x.example", "n" * 100)], own=OWN)

    assert found.name == "n" * 78
