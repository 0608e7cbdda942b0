"""The chaos run does what its profile promises, and sees what does not hold."""

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos import relays
from chaos.broker import Length
from chaos.clients import Answer, Log, intents
from chaos.nemesis import blows
from chaos.profiles import PROFILES, Profile
from chaos.provider import acts
from chaos.verdict import (
    Doubt,
    Outcome,
    of_answers,
    of_doubts,
    of_effort,
    of_events,
    of_queue,
    of_words,
)
from tests.support.smtp_script import Plan, Script

ROOT = Path(__file__).resolve().parents[2]
LOST_WORKER = Doubt("worker_lost", "smtp")
LOST_REPLY = Doubt("awaiting_reply", "smtp")
ID, OTHER = "msg_1", "msg_2"


def test_a_run_reads_the_settings_of_a_deployment_and_not_those_of_tests() -> None:
    # Settings look whether pytest is there: what a run imports must not bring it along
    asked = "import sys, chaos.provider; sys.exit('pytest' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=False)

    assert done.returncode == 0


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
        (
            *("kills", "wire_kills", "restarts", "freezes", "smtp_faults", "copies"),
            *("http_kills", "http_faults"),
        ),
        0,
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
        smtp_doubts=frozenset(),
        http={},
        said={},
        told={},
        forged={},
        copied=0,
        lengths=[],
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


@pytest.mark.parametrize("name", PROFILES)
def test_the_provider_hurts_as_much_as_the_profile_says(name: str) -> None:
    profile = PROFILES[name]
    kinds = [kind for kind, _ in acts(random.Random(1), profile)]  # noqa: S311  a seed

    assert kinds.count("kill") == profile.http_kills
    assert kinds.count("doubt") + kinds.count("definite") == profile.http_faults


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


@pytest.mark.parametrize(
    ("changes", "doubts", "said"),
    [
        ({"smtp_doubts": {"k"}}, {"k": LOST_REPLY}, ""),
        ({"smtp_doubts": {"l"}}, {"k": LOST_REPLY}, "nobody hurt"),
        ({"http": {"doubt": 1}}, {"k": Doubt("awaiting_reply", "ses")}, ""),
        ({}, {"k": Doubt("awaiting_reply", "ses")}, "by HTTP"),
        ({"killed": 1}, dict.fromkeys("kl", LOST_WORKER), ""),
        (
            {"killed": 1},
            dict.fromkeys("klm", LOST_WORKER),
            "lost their",
        ),
    ],
)
def test_doubt_that_no_fault_explains_is_seen(
    changes: dict[str, Any], doubts: dict[str, Doubt], said: str
) -> None:
    found = "; ".join(of_doubts(outcome(**changes), doubts))

    assert said in found
    assert bool(found) == bool(said)


def test_a_provider_s_word_that_is_not_followed_is_seen() -> None:
    told = outcome(said={("k", "a"): "delivered"}, forged={403: 1})

    assert not list(of_words(told, {("k", "a"): "delivered"}))
    assert list(of_words(told, {("k", "a"): "uncertain"}))


def test_a_forged_word_that_is_taken_is_seen() -> None:
    assert not list(of_words(outcome(forged={403: 2, 0: 1}), {}))
    assert list(of_words(outcome(forged={403: 2, 200: 1}), {}))


@pytest.mark.parametrize(
    ("lengths", "is_bounded"),
    [
        ([Length(10, 2, 0)], True),  # one send in flight, one that has just ended
        ([Length(10, 5, 0)], False),
        ([Length(10, 9, 5)], True),  # five copies were put in
        ([Length(9, 0, 5), Length(10, 9, 5)], False),  # and had been taken out
        ([Length(30, 1, 0)], False),
        ([], False),
    ],
)
def test_a_queue_that_grows_beyond_what_is_in_flight_is_seen(
    lengths: list[Length], is_bounded: bool
) -> None:
    flights = [(8.0, 20.0), (1.0, 9.0)]

    assert bool(list(of_queue(outcome(lengths=lengths), flights))) != is_bounded


def test_mail_that_stands_still_after_a_blow_is_seen() -> None:
    assert not list(of_effort(outcome(blows_at=[5], taken_at=[4, 24])))
    assert list(of_effort(outcome(blows_at=[5], taken_at=[4, 26])))


def test_a_run_that_hurt_too_little_has_failed() -> None:
    profile = replace(outcome().profile, wire_kills=2)

    assert list(of_effort(outcome(profile=profile, wire_kills=1)))
    assert not list(of_effort(outcome(profile=profile, wire_kills=2)))
