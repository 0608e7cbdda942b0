"""Pure: the names of attachments, cleaned and written into headers (RFC 2231)."""

import re
import unicodedata
from collections.abc import Iterator

from outbound.words import cut_utf8, percent_encoded

NAME_LIMIT = 255
"""Octets of a file name, in UTF-8 (the page, "Attachments and size")."""

_UNNAMED = "attachment"
_DROPPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN = re.compile(r"[A-Za-z0-9 ._()+,&@#!$~^{}\[\]-]{1,50}")
_UNUSUAL = re.compile(r"[^A-Za-z0-9 ._()-]")
_SECTION = 50


def clean_filename(name: str) -> str:
    """Return the name without path and control characters, cut to 255 octets.

    A name of which nothing is left becomes ``attachment``.
    """
    last = re.split(r"[/\\]", _DROPPED.sub("", name).strip())[-1].strip()
    cut = cut_utf8(last.encode("utf-8"), NAME_LIMIT).decode("utf-8").strip()
    return _UNNAMED if cut in ("", ".", "..") else cut


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
        return bare[:_SECTION].strip(" ") or _UNNAMED
    return f"{stem[: _SECTION - len(extension) - 1]}{dot}{extension}".strip(" ")
