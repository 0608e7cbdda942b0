"""Turns at a provider's queue under real threads: one worker's at a time."""

from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

from core.clock import database_now
from delivery.models import EventPull
from delivery.statuses import EventSource
from delivery.turns import end_turn, keep_turn, take_turn
from tests.support.racers import Racers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ROUNDS = 100
RACES = 50
WORKERS = 6


def test_of_many_workers_one_takes_each_turn(racers: Racers) -> None:
    take = partial(take_turn, EventSource.CLOUDFLARE)
    for n in range(ROUNDS):
        got = racers.at_once([take] * WORKERS)

        # Then one of them has it, from the very first row on
        [token] = [one for one in got if one is not None]
        assert isinstance(token, UUID), got
        assert EventPull.objects.get().token == token
        if n % 2:
            end_turn(token)
        else:  # it died
            EventPull.objects.update(due_at=database_now())


def test_a_turn_that_ends_while_it_is_taken_over_stays_the_next_ones(
    racers: Racers,
) -> None:
    taken_over = 0
    for n in range(RACES):
        # Given a turn that has just lapsed
        first = take_turn(EventSource.CLOUDFLARE)
        assert first is not None, n
        EventPull.objects.update(due_at=database_now() - timedelta(seconds=1))

        # When its worker wakes up, and another one comes
        ends = partial(end_turn, first) if n % 2 else partial(keep_turn, first)
        said, second = racers.at_once(
            [ends, partial(take_turn, EventSource.CLOUDFLARE)]
        )

        # Then it is the turn of one of them, or it has ended
        standing = EventPull.objects.get().token
        if isinstance(second, UUID):
            assert standing == second
            assert said is not True
            taken_over += 1
        else:
            assert (standing, said) in [(first, True), (None, None)]
        end_turn(standing or first)
    assert taken_over
