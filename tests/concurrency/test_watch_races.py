"""Many evaluators at once, and a person among them: one row, one audit row, one end."""

from datetime import timedelta

import pytest

from core import clock
from core.clock import database_now
from mailboxes.alert_services import close_alert
from mailboxes.models import Alert, AuditRow
from mailboxes.services import raise_alert
from mailboxes.statuses import Provider
from outbound.models import Breaker
from pylota.watch.conditions import CONDITIONS
from pylota.watch.evaluate import look
from tests.support.racers import Racers

ROUNDS = 60
(BREAKERS,) = (one for one in CONDITIONS if one.name == "transport_breaker_open")


@pytest.fixture
def openings() -> list[Breaker]:
    """Three ways out that are shut, to be saved and deleted."""
    return [
        Breaker(
            provider=Provider.SES,
            scope=f"dom_{n}",
            unknowns=3,
            openings=1,
            probe_at=database_now(),
        )
        for n in range(3)
    ]


def test_of_many_evaluators_one_looks_and_two_false_looks_are_two(
    racers: Racers, openings: list[Breaker]
) -> None:
    # Given three subjects that are true for one look, and false for the next two
    for n in range(ROUNDS):
        if n % 3 == 0:
            Breaker.objects.bulk_create(openings)
        else:
            Breaker.objects.all().delete()
        clock.offset += timedelta(minutes=1)

        # When eight evaluators look together
        answers = racers.at_once([lambda: look(BREAKERS)] * 8)

        # Then one of them did, and an alert ends at the second false look
        assert sorted(map(str, answers)) == ["False"] * 7 + ["True"]
        still = Alert.objects.filter(resolved_at=None).count()
        assert still == (0 if n % 3 == 2 else 3)

    fired = AuditRow.objects.filter(action="alert.fire").count()
    ended = AuditRow.objects.filter(action="alert.resolve").count()
    assert fired == Alert.objects.count() == 3 * ((ROUNDS + 2) // 3)
    assert ended == Alert.objects.exclude(resolved_at=None).count()


def test_an_alert_that_many_raise_and_many_close_has_one_of_each(
    racers: Racers,
) -> None:
    for n in range(ROUNDS):
        subject = f"job_{n}"
        racers.at_once([lambda s=subject: raise_alert("x", subject=s)] * 8)  # type: ignore[misc]  # a default binds the subject
        alert = Alert.objects.get(subject=subject)

        closed = racers.at_once(
            [lambda i=alert.id: close_alert(i, reason="seen")] * 8  # type: ignore[misc]  # a default binds the id
        )

        assert sorted(map(str, closed)) == ["False"] * 7 + ["True"]

    actions = AuditRow.objects.filter(action__startswith="alert.")
    assert actions.filter(action="alert.fire").count() == ROUNDS
    assert actions.filter(action="alert.close").count() == ROUNDS
