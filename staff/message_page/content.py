"""The content of a mail, for those whose role may read it; nothing in it runs.

HTML is the sanitised copy, in a frame without scripts, forms, remote files or this
site's origin; the source is plain text.
"""

from typing import Final

from django.http import HttpResponse

from core import objects
from core.errors import ObjectStoreAway, Unavailable
from mailboxes.models import Message
from outbound.stored_html import sanitized_html

LONGEST_SOURCE: Final = 262_144
"""Octets of a source that a page shows; the API hands out all of it."""
FRAME_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)


def html_frame(message: Message) -> HttpResponse:
    """Return the HTML of a message as a page that is shown in a frame."""
    try:
        page = sanitized_html(message)
    except (ObjectStoreAway, Unavailable):
        return _framed("The HTML cannot be read just now. Try again in a minute.", 503)
    return _framed(page if page is not None else "This message has no HTML.", 200)


def source(message: Message) -> HttpResponse:
    """Return headers and body as they went over the wire, cut, as plain text."""
    try:
        octets = objects.get(message.raw_key) if message.raw_key else b""
    except ObjectStoreAway:
        return _plain("The object store cannot be reached. Try again in a minute.", 503)
    except objects.ObjectMissing:
        octets = b""
    if not octets:
        return _plain("The source of this message is no longer kept.", 410)
    text = octets[:LONGEST_SOURCE].decode("utf-8", "replace")
    cut = "\n[cut here]" if len(octets) > LONGEST_SOURCE else ""
    return _plain(text + cut, 200)


def _framed(page: str, status: int) -> HttpResponse:
    answer = HttpResponse(page, content_type="text/html; charset=utf-8", status=status)
    answer["Content-Security-Policy"] = FRAME_POLICY
    answer["X-Frame-Options"] = "SAMEORIGIN"
    answer["Referrer-Policy"] = "no-referrer"
    return _kept_by_nobody(answer)


def _plain(text: str, status: int) -> HttpResponse:
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)
    answer["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return _kept_by_nobody(answer)


def _kept_by_nobody(answer: HttpResponse) -> HttpResponse:
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer
