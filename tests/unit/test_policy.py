"""The pipeline: nineteen steps, in the page's order."""

from outbound.policy import STEPS


def test_every_step_of_the_page_has_its_place() -> None:
    assert [step.number for step in STEPS] == list(range(1, 20))
    assert len({step.rule for step in STEPS}) == 19


def test_the_steps_of_this_version_are_live() -> None:
    live = {step.number for step in STEPS if step.check is not None}

    assert live >= {1, 2, 3, 4, 6, 7, 8, 12, 13, 14}
