"""What stands in a message besides what the caller wrote, in the page's order. Pure.

The page, "Body: signature, disclosure, unsubscribe": the caller's text and HTML; for a
forward, the transfer note; signature; disclosure; the visible way out of marketing.
"""

import html as markup
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from mailboxes.recipients import Party
from outbound.unsubscribe import Unsubscribe

NOTE_LINE: Final = "---------- Forwarded message ---------"
SIGNATURE_LINE: Final = "-- "

_END_OF_PAGE: Final = re.compile(r"</body\s*>|</html\s*>", re.IGNORECASE)
_COMMENT: Final = re.compile(r"<!--(?:-?>|.*?(?:--!?>|(?P<open>\Z)))", re.DOTALL)
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Bodies:
    """A message's text, and its HTML if it has any."""

    text: str = field(repr=False)
    html: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """An identity's signature; its HTML was sanitised when it was saved."""

    text: str | None = None
    html: str | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """A message that is forwarded, as it is stored; its HTML is the sanitised copy."""

    sender: Party | None
    sent_at: datetime
    subject: str
    to: Sequence[Party]
    text: str = field(repr=False)
    html: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyInput:
    """All that goes into a message's bodies.

    ``disclosure`` is the text of the AI disclosure where its mode is ``footer``;
    ``original`` is set for a forward, ``unsubscribe`` for marketing.
    """

    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    signature: Signature = Signature()
    disclosure: str | None = None
    unsubscribe: Unsubscribe | None = None
    original: Original | None = None


def build_bodies(said: BodyInput, *, to_text: Callable[[str], str]) -> Bodies:
    """Return a message's text and HTML, with everything that is added to them.

    A text that is missing is made from the HTML by ``to_text``; HTML that is missing is
    not made, but for a forward without a word of its own: that shows the original as it
    was. Nothing is added twice, and HTML is added before the page's end.
    """
    bodies = _given(said, to_text)
    if said.original is not None:
        bodies = _with_note(bodies, said.original)
    bodies = _with_signature(bodies, said.signature)
    if said.disclosure:
        bodies = _with_disclosure(bodies, said.disclosure)
    if said.unsubscribe is not None and said.unsubscribe.is_visible:
        bodies = _with_way_out(bodies, said.unsubscribe.url)
    return bodies


def append_html(page: str | None, fragment: str) -> str | None:
    """Return a page with a fragment at its end, inside its body; None stays None."""
    if page is None:
        return None
    # what stands in a comment is no end, and nobody would see what is added there
    seen = _COMMENT.sub(lambda found: " " * len(found.group()), page)
    ends = list(_END_OF_PAGE.finditer(seen))
    if not ends:
        place = _visible_end(page)
        return page[:place] + fragment + page[place:]
    # the last </body>, or where there is none the last </html>
    bodies = [end for end in ends if end.group().lower().startswith("</body")]
    place = (bodies or ends)[-1].start()
    return page[:place] + fragment + page[place:]


def _visible_end(page: str) -> int:
    """Return where a page ends for its reader: before a comment that is left open."""
    comments = list(_COMMENT.finditer(page))
    is_open = bool(comments) and comments[-1]["open"] is not None
    return comments[-1].start() if is_open else len(page)


def escape_text(text: str) -> str:
    """Return a text as HTML that shows the same, line by line."""
    return markup.escape(text).replace("\r\n", "\n").replace("\n", "<br>")


def _given(said: BodyInput, to_text: Callable[[str], str]) -> Bodies:
    if said.text is not None:
        return Bodies(said.text, said.html)
    if said.html is not None:
        return Bodies(to_text(said.html), said.html)
    has_page = said.original is not None and said.original.html is not None
    return Bodies("", "" if has_page else None)


def _with_signature(bodies: Bodies, signature: Signature) -> Bodies:
    text, page = bodies.text, bodies.html
    if signature.text:
        text += f"\n\n{SIGNATURE_LINE}\n{signature.text}"
    if signature.html:
        page = append_html(page, f"<br><br>{SIGNATURE_LINE}<br>{signature.html}")
    return Bodies(text, page)


def _with_disclosure(bodies: Bodies, disclosure: str) -> Bodies:
    return Bodies(
        f"{bodies.text}\n\n{disclosure}",
        append_html(bodies.html, f"<p>{markup.escape(disclosure)}</p>"),
    )


def _with_way_out(bodies: Bodies, url: str) -> Bodies:
    text, page = bodies.text, bodies.html
    escaped = markup.escape(url)
    if url not in text:
        text += f"\n\nUnsubscribe: {url}"
    if page is not None and url not in page and escaped not in page:
        page = append_html(page, f'<p><a href="{escaped}">Unsubscribe</a></p>')
    return Bodies(text, page)


def _with_note(bodies: Bodies, original: Original) -> Bodies:
    lines = _note(original)
    apart = "\n\n" if bodies.text else ""
    text = bodies.text + apart + "\n".join([*lines, "", original.text])
    shown = "<br>".join(markup.escape(line) for line in lines)
    quoted = original.html if original.html is not None else escape_text(original.text)
    fragment = f"<div><br>{shown}<br><br></div><blockquote>{quoted}</blockquote>"
    return Bodies(text, append_html(bodies.html, fragment))


def _note(original: Original) -> list[str]:
    """Return the lines of the transfer note, each of which stays one line."""
    sent = format_datetime(original.sent_at.astimezone(UTC))
    lines = [
        NOTE_LINE,
        f"From: {_shown(original.sender) if original.sender else ''}",
        f"Date: {sent}",
        f"Subject: {original.subject}",
        f"To: {', '.join(map(_shown, original.to))}",
    ]
    return [_CONTROLS.sub(" ", line).rstrip() for line in lines]


def _shown(party: Party) -> str:
    return f"{party.name} <{party.address}>" if party.name else party.address
