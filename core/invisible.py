"""Characters that show nothing, and what they are used for in mail. Pure.

Rules: mailboxes, section 4.7.
"""

import re
from dataclasses import dataclass
from typing import Final

MOST_ZERO_WIDTH: Final = 2
"""More than this many in a text are there to hide something."""

_ZERO_WIDTH: Final = (
    "\u200b\u200c\u2060-\u2064\ufeff\u00ad\u034f\u180e\u115f\u1160\u3164\uffa0"
)
_OVERRIDE: Final = "\u202d\u202e"
_TAGS: Final = "\U000e0000-\U000e007f"
_EMOJI: Final = "\u00a9\u00ae\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff"
_LONE_JOINER: Final = f"(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}])"
"""A joiner is kept where it makes one emoji of two."""
_DROPPED: Final = re.compile(
    f"[{_ZERO_WIDTH}{_TAGS}\u202a-\u202e\u2066-\u2069]|{_LONE_JOINER}"
)
_COUNTED: Final = re.compile(f"[{_ZERO_WIDTH}]|{_LONE_JOINER}")
_ALWAYS_HIDING: Final = re.compile(f"[{_OVERRIDE}{_TAGS}]")


@dataclass(slots=True)
class Invisible:
    """Takes invisible characters out of texts, and remembers what it saw."""

    zero_width: int = 0
    has_hiding: bool = False

    def stripped(self, text: str) -> str:
        """Return the text as a reader sees it."""
        if text.isascii():
            return text
        self.zero_width += len(_COUNTED.findall(text))
        self.has_hiding = self.has_hiding or _ALWAYS_HIDING.search(text) is not None
        return _DROPPED.sub("", text)

    @property
    def is_hiding(self) -> bool:
        """Tell whether the characters seen so far were there to hide something."""
        return self.has_hiding or self.zero_width > MOST_ZERO_WIDTH
