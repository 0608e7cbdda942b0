"""Python runs this at the start of each process that has this folder on its path.

``TEST_CLOCK_SHIFT_SECONDS`` moves the process's own clock by so many seconds: what
``time.time``, ``datetime.now`` and the rest of Python answer, from the first import on.
The machine's clock, and the database's, stay where they are.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

if shift := os.environ.get("TEST_CLOCK_SHIFT_SECONDS"):
    # it would import pytest, by which our settings know that they are under test
    sys.modules["pytest"] = None  # type: ignore[assignment]  # an import then fails
    import time_machine

    del sys.modules["pytest"]
    time_machine.travel(
        datetime.now(UTC) + timedelta(seconds=float(shift)), tick=True
    ).start()
