"""Processes whose own clock runs ahead or behind, without touching the machine's."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SITE = Path(__file__).parent / "site"


def with_shifted_clock(
    environment: Mapping[str, str], *, seconds: float
) -> dict[str, Any]:
    """Return an environment in which Python's clocks are off by so many seconds.

    It holds for the process and for every Python process that it starts.
    """
    paths = [str(SITE), environment.get("PYTHONPATH", "")]
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "TEST_CLOCK_SHIFT_SECONDS": str(seconds),
    }
