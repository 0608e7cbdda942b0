"""Pure: the parts of a message (RFC 2045, 2046, 2387), as bytes with CRLF line ends.

Each function returns a whole entity: its ``Content-*`` fields, a blank line, its body.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.filenames import clean_filename
from outbound.filenames import disposition_parameters, plain_fallback
from outbound.headers import LINE_LIMIT, is_message_id

Disposition = Literal["attachment", "inline"]

BOUNDARY_MARK = b"=_"
"""Starts every boundary, and never stands in quoted-printable or base64 text."""

_CONTROLS = bytes([*range(9), 11, 12, 13, *range(14, 32), 127])
_HIGH = bytes(range(128, 256))
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")
_OPAQUE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes with a message; an inline one has the id that the HTML names."""

    filename: str | None
    content_type: str
    disposition: Disposition
    content_id: str | None
    content: bytes


def text_part(subtype: Literal["plain", "html"], text: str) -> bytes:
    """Return a text entity: 7bit where that is safe, else the shorter encoding.

    Line ends become CRLF; a lone CR, a NUL or any other control character is encoded
    and so comes back as it was.
    """
    data = text.replace("\r\n", "\n").encode("utf-8")
    encoding, body = _encoded(data)
    return (
        f"Content-Type: text/{subtype}; charset=utf-8\r\n"
        f"Content-Transfer-Encoding: {encoding}\r\n\r\n"
    ).encode("ascii") + body


def attachment_part(attachment: Attachment) -> bytes:
    """Return an attachment as an entity whose bytes come back exactly.

    ``message/*`` and ``multipart/*`` may not be base64 (RFC 2046 section 5), and any
    other encoding would change their bytes: they travel as opaque files.
    Raises ValueError for a content type or id that cannot stand in a header.
    """
    fields = [*_type_fields(attachment), "Content-Transfer-Encoding: base64"]
    if attachment.content_id:
        content_id = attachment.content_id.strip("<>")
        if not is_message_id(content_id):
            raise ValueError("a content id holds what cannot stand in a header")
        fields.append(f"Content-ID: <{content_id}>")
    head = "\r\n".join(fields).encode("ascii")
    return head + b"\r\n\r\n" + _base64(attachment.content)


def multipart(
    subtype: str, boundary: str, parts: Iterable[bytes], *, root: str = ""
) -> bytes:
    """Return the parts as one entity; ``root`` is the type of a related one's first."""
    fields = [f"Content-Type: multipart/{subtype};", f' boundary="{boundary}"']
    if root:
        fields[-1] += f'; type="{root}"'
    opening = f"--{boundary}\r\n".encode("ascii")
    return b"".join(
        [
            "\r\n".join([*fields, ""]).encode("ascii"),
            *(b"\r\n" + opening + part for part in parts),
            f"\r\n--{boundary}--\r\n".encode("ascii"),
        ]
    )


def _type_fields(attachment: Attachment) -> Sequence[str]:
    kind = attachment.content_type
    if not _TYPE.fullmatch(kind):
        raise ValueError("a content type is not of the form type/subtype")
    if kind.lower().startswith(("message/", "multipart/")):
        kind = _OPAQUE
    if attachment.filename is None:
        return [f"Content-Type: {kind}", _disposition(attachment, [])]
    name = clean_filename(attachment.filename)
    return [
        f"Content-Type: {kind};",
        f' name="{plain_fallback(name)}"',
        _disposition(attachment, disposition_parameters(name)),
    ]


def _disposition(attachment: Attachment, parameters: Iterable[str]) -> str:
    if attachment.disposition not in ("attachment", "inline"):
        raise ValueError("a disposition is attachment or inline")
    lines = [f"Content-Disposition: {attachment.disposition}", *parameters]
    return ";\r\n ".join(lines)


def _encoded(data: bytes) -> tuple[str, bytes]:
    if _is_seven_bit(data):
        return "7bit", data.replace(b"\n", b"\r\n")
    high = len(data) - len(data.translate(None, _HIGH))
    if b"\r" in data or high > len(data) // 6:
        return "base64", _base64(data.replace(b"\n", b"\r\n"))
    quoted = binascii.b2a_qp(data)  # soft line breaks at 76; a lone dot is encoded
    return "quoted-printable", quoted.replace(b"\n", b"\r\n")


def _is_seven_bit(data: bytes) -> bool:
    return (
        data.isascii()
        and len(data.translate(None, _CONTROLS)) == len(data)
        and BOUNDARY_MARK not in data
        and max(map(len, data.split(b"\n"))) <= LINE_LIMIT
    )


def _base64(data: bytes) -> bytes:
    return base64.encodebytes(data).rstrip(b"\n").replace(b"\n", b"\r\n")
