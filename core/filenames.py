"""Pure: the names of attachments, as they are kept and shown."""

import re
from typing import Final

from core.text import cut_utf8

NAME_LIMIT: Final = 255
"""Octets of a file name, in UTF-8 (the page, "Attachments and size")."""
UNNAMED: Final = "attachment"

_DROPPED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_filename(name: str) -> str:
    """Return the name without path and control characters, cut to 255 octets.

    A name of which nothing is left becomes ``attachment``.
    """
    last = re.split(r"[/\\]", _DROPPED.sub("", name).strip())[-1].strip()
    cut = cut_utf8(last.encode("utf-8"), NAME_LIMIT).decode("utf-8").strip()
    return UNNAMED if cut in ("", ".", "..") else cut
