"""The chaos run does what its profile promises, and sees what does not hold."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from chaos import relays
from chaos.clients import Answer, Log, intents
from chaos.nemesis import blows
from chaos.profiles import PROFILES, Profile
from chaos.verdict import Outcome, of_answers, of_effort, of_events
from tests.support.smtp_script import Plan, Script

ID, OTHER = "msg_1", "msg_2"


def drawn(seed: int, profile: Profile) -> list[Plan]:
    rng = random.Random(seed)  # noqa: S311  a seed names a run
    return [
        plan
        for tls in ("implicit", "starttls")
        for plan in relays.plans(rng, profile, tls=tls)
    ]


def outcome(**given: object) -> Outcome:
    """Return what a quiet run leaves, with what a test changes."""
    nothing = dict.fromkeys(
        ("kills", "wire_kills", "restarts", "freezes", "smtp_faults", "copies"), 0
    )
    quiet = Outcome(
        profile=replace(PROFILES["ci"], **nothing),
        log=Log(),
        copies={},
        taken_at=[],
        blows_at=[],
        feed=[],
        hooked=[],
        done={},
        killed=0,
        wire_kills=0,
        smtp_faults={},
        smtp_doubts=0,
        copied=0,
        has_rested=True,
    )
    return replace(quiet, **given)  # type: ignore[arg-type]  # by name


def said_of(log: Log) -> str:
    return "; ".join(of_answers(log))


@pytest.mark.parametrize("name", PROFILES)
def test_the_relays_hurt_as_much_as_the_profile_says(name: str) -> None:
    profile = PROFILES[name]
    plans = drawn(1, profile)
    rings = sum(plan.get("data") == "hook:ring" for plan in plans)

    assert relays.kills_in(plans) > profile.wire_kills
    assert relays.faults_in(plans).total() > profile.smtp_faults
    assert rings * relays.COPIES_A_RING >= profile.copies
    assert len(plans) <= profile.keys
    Script(connections=plans)


def test_a_release_meets_each_stage_twelve_times() -> None:
    met = relays.faults_in(drawn(1, PROFILES["release"]))

    assert set(met) == set(relays.FAULTS)
    assert min(met.values()) >= 12


def test_a_seed_names_all_that_is_drawn() -> None:
    def all_of(seed: int) -> tuple[object, ...]:
        rng = random.Random(seed)  # noqa: S311  a seed names a run
        profile = PROFILES["ci"]
        return intents(rng, profile), blows(rng, profile), drawn(seed, profile)

    assert all_of(3) == all_of(3)
    assert all_of(3) != all_of(4)


def test_two_messages_of_one_key_are_seen() -> None:
    log = Log()
    for message_id in (ID, OTHER):
        log.write("k", Answer(202, "", message_id))

    assert said_of(log) == f"k was answered with 2 messages: {[ID, OTHER]}"


def test_a_key_that_nobody_could_send_is_seen() -> None:
    log = Log()
    log.write("k", Answer())

    assert said_of(log) == "k was answered with 0 messages: []"


def test_another_body_that_is_not_refused_is_seen() -> None:
    log = Log()
    log.changed["k"] = Answer(202, "", ID)
    assert "k with another body got 202" in said_of(log)

    log.changed["k"] = Answer(409, "idempotency_conflict")
    assert said_of(log) == ""


@pytest.mark.parametrize(
    ("feed", "hooked", "stored", "said"),
    [
        (["a", "a"], ["a"], {"a": "told"}, "twice"),
        ([], ["a"], {"a": "told"}, "never showed"),
        (["a"], ["a"], {}, "that are not"),
        (["a"], [], {"a": "told"}, "no receiver"),
        (["a"], [], {"a": "due"}, ""),
        (["a"], ["a", "a"], {"a": "told"}, ""),
    ],
)
def test_the_feed_shows_each_event_once_and_receivers_get_each(
    feed: list[str], hooked: list[str], stored: Mapping[str, str], said: str
) -> None:
    found = "; ".join(of_events(outcome(feed=feed, hooked=hooked), stored))

    assert said in found
    assert bool(found) == bool(said)


def test_more_doubt_than_the_faults_explain_is_seen() -> None:
    assert not list(of_effort(outcome(smtp_doubts=3), uncertain=3))
    assert list(of_effort(outcome(smtp_doubts=3), uncertain=4))


def test_mail_that_stands_still_after_a_blow_is_seen() -> None:
    assert not list(of_effort(outcome(blows_at=[5], taken_at=[4, 24]), uncertain=0))
    assert list(of_effort(outcome(blows_at=[5], taken_at=[4, 26]), uncertain=0))


def test_a_run_that_hurt_too_little_has_failed() -> None:
    profile = replace(outcome().profile, wire_kills=2)

    assert list(of_effort(outcome(profile=profile, wire_kills=1), uncertain=0))
    assert not list(of_effort(outcome(profile=profile, wire_kills=2), uncertain=0))
