"""A shifted process lives in its own time, and so do the processes it starts."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.support.clocks import with_shifted_clock

WHAT_TIME_IS_IT = """
import json, sys, time
from datetime import datetime, timezone
print(json.dumps([time.time(), datetime.now(timezone.utc).timestamp(),
                  time.mktime(time.localtime()), time.time_ns() / 1e9]))
"""
IN_A_CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


def clocks_of(*arguments: str, seconds: float) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        env=with_shifted_clock(os.environ, seconds=seconds),
        capture_output=True,
        check=True,
        timeout=20,
    )
    answers: list[float] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("seconds", [600.0, -600.0])
def test_every_clock_of_the_process_is_off_by_the_same_time(seconds: float) -> None:
    before = time.time()
    told = clocks_of(WHAT_TIME_IS_IT, seconds=seconds)
    after = time.time()
    for instant in told:
        assert before + seconds - 1 <= instant <= after + seconds + 1


def test_a_child_of_the_process_is_off_too() -> None:
    before = time.time()
    told = clocks_of(IN_A_CHILD, WHAT_TIME_IS_IT, seconds=600)
    assert before + 599 <= told[0] <= time.time() + 601
