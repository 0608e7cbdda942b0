"""What the doctor's lines say, and what they say of a database server."""

from datetime import timedelta

import pytest

from pylota.doctor.database import judge_server
from pylota.doctor.findings import (
    Finding,
    Found,
    age_of,
    fail,
    number_of,
    ok,
    unknown,
    unused,
)
from pylota.terminal import coloured


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (ok("1 ms"), "broker              ok        1 ms"),
        (ok(), "broker              ok"),
        (unused("none"), "broker              not used  none"),
        (unknown("away"), "broker              ?         away"),
        (
            fail("it hangs", then="start it"),
            "broker              FAIL      it hangs. Next: start it.",
        ),
    ],
)
def test_a_finding_is_one_line_with_the_next_step(found: Found, line: str) -> None:
    assert Finding("broker", found).line() == line


def test_a_finding_as_json_has_the_same_words() -> None:
    assert Finding("broker", fail("it hangs", then="start it")).to_json() == {
        "name": "broker",
        "status": "fail",
        "detail": "it hangs",
        "next": "start it",
    }


@pytest.mark.parametrize(
    ("found", "colour"),
    [(ok("x"), "\x1b[32mok"), (fail("x", then="y"), "\x1b[31mFAIL")],
)
def test_on_a_terminal_good_is_green_and_bad_is_red(found: Found, colour: str) -> None:
    assert colour in coloured(Finding("broker", found).line())


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        *((-1, "0 s"), (0.9, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min")),
        *((3600, "1 h"), (86399, "23 h"), (86400, "1 d"), (864000, "10 d")),
    ],
)
def test_an_age_is_told_in_its_largest_whole_unit(seconds: float, age: str) -> None:
    assert age_of(timedelta(seconds=seconds)) == age


def test_a_count_has_its_noun() -> None:
    assert [number_of(n, "send") for n in (0, 1, 2)] == ["0 sends", "1 send", "2 sends"]
    assert number_of(2, "is", "are") == "2 are"


@pytest.mark.parametrize(
    ("number", "is_standby", "is_bad"),
    [
        (140_012, False, True),
        (149_999, False, True),
        (150_000, False, False),
        (180_001, False, False),
        (150_004, True, True),
    ],
)
def test_a_server_must_be_postgresql_15_and_be_written_to(
    number: int, is_standby: bool, is_bad: bool
) -> None:
    found = judge_server(
        number, "15.4 (Debian 15.4-1)", is_standby=is_standby, seconds=0.004
    )

    assert Finding("database", found).is_bad is is_bad
    assert found.detail.startswith("PostgreSQL 15.4")
