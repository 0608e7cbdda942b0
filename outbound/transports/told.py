"""What a transport's peer said, as it may be kept: pure."""

import re
from collections.abc import Collection

LONGEST_DETAIL = 512


def starred(text: str, hidden: Collection[str]) -> str:
    """Return a text with the ``hidden`` words starred, cut to 512 characters."""
    for word in sorted(hidden, key=len, reverse=True):
        text = re.sub(re.escape(word), "***", text, flags=re.IGNORECASE)
    return text[:LONGEST_DETAIL]
