"""HTML from mail made safe to show: what a reader sees, and nothing that acts or calls.

Rules: mailboxes, section 4.7. First what is hidden goes, then bleach lets through the
tags and attributes of the list. It takes milliseconds to minutes: ``core.sanitizing``
calls it, with a bound. Pure.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from bleach.sanitizer import Cleaner
from lxml import html as markup
from lxml.etree import ParserError

from core.hidden import Look, hides_element, look_inside, read_style
from core.invisible import Invisible
from core.sanitized import Sanitized

INPUT_LIMIT: Final = 2 * 2**20
"""Characters of HTML that are read; what follows is left out."""
OUTPUT_LIMIT: Final = 2**20
"""Octets of the copy that is stored."""
DEPTH_LIMIT: Final = 200
"""Levels of nesting that are kept; deeper elements lose their tags."""
LINK_RELATION: Final = "noopener noreferrer nofollow"

_TAGS: Final = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "center", "cite",
        "code", "col", "colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt",
        "em", "figcaption", "figure", "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
        "i", "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp",
        "small", "span", "strike", "strong", "sub", "summary", "sup", "table", "tbody",
        "td", "tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "wbr",
    }
)  # fmt: skip
_DROPPED_WHOLE: Final = frozenset(
    {
        "script", "style", "title", "noscript", "template", "iframe", "frameset",
        "object", "applet", "svg", "math", "select", "textarea", "button",
    }
)  # fmt: skip
_CELL: Final = frozenset({"colspan", "rowspan", "align", "valign", "width"})
_ATTRIBUTES: Final = {
    "img": frozenset({"alt", "width", "height"}),
    "td": _CELL,
    "th": _CELL,
    "table": frozenset({"width", "border", "cellpadding", "cellspacing", "align"}),
    "col": frozenset({"span", "width"}),
    "colgroup": frozenset({"span", "width"}),
    "ol": frozenset({"start", "type"}),
    "li": frozenset({"value"}),
    "time": frozenset({"datetime"}),
}
_EVERYWHERE: Final = frozenset({"lang", "title", "dir"})
_LINK: Final = re.compile(r"(?:https?://|mailto:|tel:)", re.IGNORECASE)
_EMBEDDED: Final = re.compile(r"cid:", re.IGNORECASE)
_BLANKS: Final = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029]")
_BREAKS: Final = re.compile("[\t\n\r]")
_UNREADABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]"
)


def sanitize(html: str, *, limit: int = OUTPUT_LIMIT) -> Sanitized:
    """Return what a reader sees of an HTML body, as at most ``limit`` octets.

    Nothing remote is named but by links that are followed by hand; images are those of
    the message itself. The result is whole HTML, also where it was cut.
    """
    readable = _UNREADABLE.sub("", html)
    seen = _Seen(Invisible())
    safe = _cleaned(_visible(readable[:INPUT_LIMIT], seen))
    is_truncated = len(readable) > INPUT_LIMIT
    room = limit
    while (size := len(safe.encode())) > limit:
        is_truncated = True
        # cleaning costs by the octet: cut by as much as the last copy was over
        room = min(room - 64, room * limit // size)
        safe = _cleaned(safe.encode()[:room].decode("utf-8", "ignore"))
    return Sanitized(safe, seen.has_hidden_text, is_truncated)


@dataclass(slots=True)
class _Seen:
    """What the walk over the document has come across."""

    invisible: Invisible
    has_removed_text: bool = False

    @property
    def has_hidden_text(self) -> bool:
        return self.has_removed_text or self.invisible.is_hiding


def _cleaned(html: str) -> str:
    # a cleaner has a parser's state: one each, since threads share nothing then
    cleaner = Cleaner(
        tags=_TAGS,
        attributes=_allows,
        protocols={"http", "https", "mailto", "tel", "cid"},
        strip=True,
        strip_comments=True,
    )
    return str(cleaner.clean(html))


def _allows(tag: str, name: str, value: str) -> bool:
    if tag == "a" and name == "href":
        return _LINK.match(_BLANKS.sub("", value)) is not None
    if tag == "a" and name == "rel":
        return value == LINK_RELATION
    if tag == "img" and name == "src":
        return _EMBEDDED.match(_BLANKS.sub("", value)) is not None
    return name in _EVERYWHERE or name in _ATTRIBUTES.get(tag, frozenset())


def _visible(html: str, seen: _Seen) -> str:
    """Return the HTML without what a reader does not see."""
    if not html.strip():
        return ""
    parser = markup.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    try:
        root = markup.document_fromstring(html.encode("utf-8"), parser=parser)
    except ParserError:  # nothing but comments, for example
        return ""
    waiting: list[tuple[Any, Look, int]] = [(root, Look(), 0)]
    while waiting:
        element, around, depth = waiting.pop()
        inside = _enter(element, around, seen)
        if inside is None:
            continue
        children = list(element)
        if depth > DEPTH_LIMIT and element.getparent() is not None:
            element.drop_tag()
        waiting += [(child, inside, depth + 1) for child in reversed(children)]
    return str(markup.tostring(root, encoding="unicode"))


def _enter(element: Any, around: Look, seen: _Seen) -> Look | None:
    """Clean one element and the text after it; None when it is gone with all in it."""
    if not isinstance(element.tag, str):
        element.drop_tree()
        return None
    tag = element.tag.lower()
    declared = read_style(element.get("style", ""))
    element.tail = _shown(element.tail, around, seen)
    if tag in _DROPPED_WHOLE:
        element.drop_tree()
        return None
    if element.get("hidden") is not None or hides_element(declared):
        seen.has_removed_text |= bool(element.text_content().strip())
        element.drop_tree()
        return None
    for name in ("title", "alt"):
        if (value := element.get(name)) is not None:
            # bleach escapes a value with double quotes twice
            element.set(name, _readable(value, seen).replace('"', "\u201d"))
    if tag == "a" and (target := element.get("href")) is not None:
        element.set("href", _as_url(target))
        element.set("rel", LINK_RELATION)
    inside = look_inside(around, tag, element.attrib, declared)
    element.text = _shown(element.text, inside, seen)
    return inside


def _shown(text: str | None, look: Look, seen: _Seen) -> str | None:
    """Return a text as a reader sees it, or nothing of it."""
    if not text:
        return text
    if look.hides_text and text.strip():
        seen.has_removed_text = True
        return ""
    return _readable(text, seen)


def _as_url(target: str) -> str:
    """Return a link as a browser reads it: no breaks, blanks and quotes spelled out."""
    bare = _BREAKS.sub("", _UNREADABLE.sub("", target)).strip()
    return bare.replace(" ", "%20").replace('"', "%22")


def _readable(text: str, seen: _Seen) -> str:
    """Return a text without what shows nothing; references can spell controls too."""
    return seen.invisible.stripped(_UNREADABLE.sub("", text))
