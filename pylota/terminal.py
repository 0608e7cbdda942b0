"""Lines for a person: one a step, coloured on a terminal and plain anywhere else."""

import os
import re
from typing import Final

from django.core.management.base import OutputWrapper

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_GREEN, _RED = "\x1b[32m", "\x1b[31m"
_CLEAR: Final = "\r\x1b[K"
_GOOD: Final = re.compile(r"\b(202|submitted|delivered|ready)\b(?!@)")
_OK: Final = re.compile(r"^( *)(ok)\b")
_BAD: Final = re.compile(r"^( *)(FAIL)\b")
_TIME: Final = re.compile(r"\b(\d+\.\d+ s)\b")


class Terminal:
    """Says lines to a stream; on a terminal it also shows what is being waited for.

    ``NO_COLOR`` turns both off.
    """

    def __init__(self, stream: OutputWrapper) -> None:
        """Take the stream of a management command."""
        self._stream = stream
        self._is_live = stream.isatty() and not os.environ.get("NO_COLOR")

    def say(self, text: str) -> None:
        """Write one line, in place of what was being waited for."""
        self._stream.write(f"{_CLEAR}{coloured(text)}" if self._is_live else text)
        self._stream.flush()

    def begin(self, name: str) -> None:
        """Show on a terminal that a step has begun; its line will take this place."""
        if self._is_live:
            self._stream.write(f"{_CLEAR}{_DIM}{name:<26} …{_PLAIN}", ending="\r")
            self._stream.flush()


def coloured(text: str) -> str:
    """Return a line with its label bold, good ends green, bad ones red, times dim."""
    label, gap, rest = text.partition("  ")
    rest = _GOOD.sub(rf"{_GREEN}\1{_PLAIN}", rest)
    rest = _OK.sub(rf"\1{_GREEN}\2{_PLAIN}", rest)
    rest = _BAD.sub(rf"\1{_RED}\2{_PLAIN}", rest)
    rest = _TIME.sub(rf"{_DIM}\1{_PLAIN}", rest)
    return f"{_BOLD}{label}{_PLAIN}{gap}{rest}" if label else text
