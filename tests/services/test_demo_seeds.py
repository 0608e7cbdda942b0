"""Whatever the seed of a made-up deployment, its rows fit their tables."""

import pytest

from core.clock import database_now
from mailboxes.models import Message
from pylota.demo_data import senders
from pylota.demo_data.build import Wanted, build

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", range(10))
def test_any_seed_makes_a_deployment(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # few people: the one with the longest address is drawn among them again and again
    monkeypatch.setattr(senders, "CIRCLE", 1)

    build(Wanted(40, 8, seed=seed, now=database_now()))

    assert Message.objects.count() == 40
