"""Pure: the names of attachments, written into headers (RFC 2231)."""

import re
import unicodedata
from collections.abc import Iterator

from core.filenames import UNNAMED
from outbound.words import percent_encoded

_PLAIN = re.compile(r"[A-Za-z0-9 ._()+,&@#!$~^{}\[\]-]{1,50}")
_UNUSUAL = re.compile(r"[^A-Za-z0-9 ._()-]")
_SECTION = 50


def disposition_parameters(name: str) -> Iterator[str]:
    """Yield the ``filename`` parameter, in sections where one line cannot hold it."""
    if _PLAIN.fullmatch(name):
        yield f'filename="{name}"'
        return
    pieces = percent_encoded(name, room=_SECTION)
    for index, piece in enumerate(pieces):
        section = f"*{index}*" if len(pieces) > 1 else "*"
        charset = "" if index else "utf-8''"
        yield f"filename{section}={charset}{piece}"


def plain_fallback(name: str) -> str:
    """Return an ASCII likeness of the name, for readers that know no RFC 2231."""
    bare = unicodedata.normalize("NFKD", name)
    bare = "".join(c for c in bare if not unicodedata.combining(c))
    bare = _UNUSUAL.sub("_", bare)
    stem, dot, extension = bare.rpartition(".")
    if len(bare) <= _SECTION or not 0 < len(extension) <= 10:
        return bare[:_SECTION].strip(" ") or UNNAMED
    return f"{stem[: _SECTION - len(extension) - 1]}{dot}{extension}".strip(" ")
