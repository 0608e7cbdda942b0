"""Pure: the plain text of an HTML body, for mail that brings none of its own.

The layout is the one of mailboxes, section 4.8. Inscriptis knows blocks, what is hidden
and white space; what it would lay out otherwise (links, images, lists, tables, quotes)
is turned into plain blocks and spans before it looks.
"""

import re
from collections.abc import Callable, Iterator

from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_engine import Inscriptis
from inscriptis.html_properties import Display
from inscriptis.model.config import ParserConfig
from inscriptis.model.html_element import HtmlElement as Layout
from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from core.text import cut_utf8

SIZE_LIMIT = 1_048_576
"""Octets of HTML that are read; what follows is left out of the text."""

DEPTH_LIMIT = 200
"""Levels of nesting that are laid out, a frame each; more give their bare text."""

ELEMENT_LIMIT = 10_000
"""Elements that are laid out, in about half a second; more give their bare text."""

_COMPARED = 4000  # characters of a link's text, which could be the whole page

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # never characters of a text
_UNREADABLE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff{_OPEN}{_CLOSE}]")
_BLANK_LINES = re.compile(r"\n{4,}")
_HIDDEN = ("template", "noscript", "textarea", "select", "button", "svg")
_CONFIG = ParserConfig(
    css={
        **STRICT_CSS_PROFILE,
        **{tag: Layout(display=Display.none) for tag in _HIDDEN},
        "tr": Layout(display=Display.block),
        "item": Layout(display=Display.block),
        "nested": Layout(display=Display.block, padding_inline=2),
    }
)


def text_from_html(html: str) -> str:
    """Return the text that a reader of the HTML sees, in lines that end in LF.

    Never fails: of what cannot be read as HTML, the text that there is, or none; what
    is nested deeper than the parser goes (2,000 elements) is left out.
    """
    readable = cut_utf8(_UNREADABLE.sub("", html).encode("utf-8"), SIZE_LIMIT)
    try:
        tree = _parsed(readable)
    except etree.ParserError:  # nothing in it
        return ""
    text = _laid_out(tree) if _is_simple(tree) else _bare(tree)
    return _UNREADABLE.sub("", text)  # which entities may have brought back


def _bare(tree: HtmlElement) -> str:
    etree.strip_elements(tree, "head", "script", "style", *_HIDDEN, with_tail=False)
    return "\n".join(" ".join(text.split()) for text in tree.itertext() if text.strip())


def _parsed(html: bytes) -> HtmlElement:
    # huge_tree: else all that stands deeper than 256 elements would be lost
    parser = HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    return document_fromstring(html, parser=parser)


def _is_simple(tree: HtmlElement) -> bool:
    """Tell whether the tree is laid out in little time, and in few frames."""
    depth = 0
    steps = etree.iterwalk(tree, events=("start", "end"))
    for count, (event, _) in enumerate(steps):
        depth += 1 if event == "start" else -1
        if depth > DEPTH_LIMIT or count > 2 * ELEMENT_LIMIT:
            return False
    return True


def _laid_out(tree: HtmlElement) -> str:
    for image in list(tree.iter("img")):  # first: a link looks at the text within
        _image(image)
    for element in list(tree.iter(*_REWRITES)):
        if (rewrite := _REWRITES.get(element.tag)) is not None:
            rewrite(element)
    laid_out = Inscriptis(tree, _CONFIG).get_text().replace("\r", "\n")
    lines = "\n".join(_quoted(line.rstrip() for line in laid_out.split("\n")))
    return _BLANK_LINES.sub("\n\n\n", lines).strip("\n")


def _link(link: HtmlElement) -> None:
    url = " ".join((link.get("href") or "").split())
    shown = " ".join("".join(link.itertext())[:_COMPARED].split())
    if not url.lower().startswith(("http://", "https://", "mailto:", "tel:")):
        return
    bare = re.sub(r"^(mailto:|tel:|https?://)|/$", "", url, flags=re.IGNORECASE)
    if shown in (url, bare, url.removesuffix("/"), bare.removeprefix("www.")):
        return
    target = bare if url.lower().startswith(("mailto:", "tel:")) else url
    _append(link, f" ({target})" if shown else target)


def _image(image: HtmlElement) -> None:
    alt = " ".join((image.get("alt") or "").split())
    image.tag = "span"
    image.text = f"[image: {alt}]" if alt else None


def _list(items: HtmlElement) -> None:
    is_numbered = items.tag == "ol"
    parent = items.getparent()
    items.tag = "nested" if parent is not None and parent.tag == "item" else "div"
    for place, item in enumerate(items.iterchildren("li"), start=1):
        _mark(item, f"{place}. " if is_numbered else "- ")


def _stray_item(item: HtmlElement) -> None:
    _mark(item, "- ")


def _mark(item: HtmlElement, mark: str) -> None:
    item.tag = "item"
    first = item
    while not (first.text or "").strip() and len(first):
        first = first[0]
        if first.tag == "p":  # the mark and its text stand on one line
            first.tag = "div"
    first.text = mark + (first.text or "").lstrip()


def _row(row: HtmlElement) -> None:
    seen = False
    for cell in list(row):
        if cell.tag not in ("td", "th"):
            continue
        filled = bool("".join(cell.itertext()).strip())
        if filled and seen:
            mark = row.makeelement("span")
            mark.text = " | "
            cell.addprevious(mark)
        seen = seen or filled
        cell.tag = "span"


def _block(element: HtmlElement) -> None:
    element.tag = "div"


def _quote(quote: HtmlElement) -> None:
    quote.tag = "div"
    opening = quote.makeelement("div")
    opening.text, opening.tail = _OPEN, quote.text
    quote.text = None
    quote.insert(0, opening)
    closing = quote.makeelement("div")
    closing.text = _CLOSE
    quote.append(closing)


_REWRITES: dict[str, Callable[[HtmlElement], None]] = {
    "a": _link,
    "li": _stray_item,
    "ul": _list,
    "ol": _list,
    "tr": _row,
    "table": _block,
    "hr": _block,
    "blockquote": _quote,
}


def _append(element: HtmlElement, text: str) -> None:
    added = element.makeelement("span")
    added.text = text
    element.append(added)


def _quoted(lines: Iterator[str]) -> Iterator[str]:
    depth = 0
    for line in lines:
        if line.strip() == _OPEN:
            depth += 1
        elif line.strip() == _CLOSE:
            depth -= 1
        else:
            yield f"{'> ' * depth}{line}".rstrip() if depth else line
