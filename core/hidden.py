"""What a style hides from a reader: by whole elements, and by the look of their text.

Rules: mailboxes, section 4.7. An element can be hidden with all that is in it; colour,
size and visibility of text are inherited, and what is inside may set them anew. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import tinycss2
from tinycss2.color3 import RGBA, parse_color

STYLE_LIMIT: Final = 8192
"""Characters of one style attribute that are read."""
FAR_AWAY: Final = -999.0
FAINT: Final = 0.05
TINY: Final = 1.0

Colour = tuple[int, int, int]
Declarations = Mapping[str, list[Any]]

_PIXELS: Final = {
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
}
_RELATIVE: Final = {"em": 1.0, "rem": 1.0, "ex": 0.5, "ch": 0.5}
_OFFSETS: Final = (
    "left", "right", "top", "bottom", "text-indent",
    "margin", "margin-left", "margin-right", "margin-top", "margin-bottom",
)  # fmt: skip
_SIZES: Final = ("width", "height", "max-width", "max-height")
_CLIPPED: Final = (
    "rect(0000)", "rect(0,0,0,0)", "rect(1111)", "rect(1,1,1,1)",
    "inset(50)", "inset(100)", "circle(0)",
)  # fmt: skip
_LINK: Final = (0, 0, 238)


@dataclass(frozen=True, slots=True)
class Look:
    """How text looks at some place: pixels, colours, and whether it is shown at all.

    ``behind`` is None where an image is: nobody can tell what it hides.
    """

    size: float = 16.0
    colour: Colour | None = (0, 0, 0)
    behind: Colour | None = (255, 255, 255)
    is_visible: bool = True

    @property
    def hides_text(self) -> bool:
        """Tell whether a reader cannot see text that looks like this."""
        is_clear = self.colour is None
        is_same = self.behind is not None and self.colour == self.behind
        return not self.is_visible or self.size <= TINY or is_clear or is_same


@lru_cache(maxsize=1024)
def read_style(style: str) -> Declarations:
    """Return the declarations of a style attribute; the last of a name counts.

    Mail repeats its styles, and reading one takes a while: the result is shared.
    """
    found: dict[str, list[Any]] = {}
    important: set[str] = set()
    parsed = tinycss2.parse_declaration_list(
        style[:STYLE_LIMIT], skip_comments=True, skip_whitespace=True
    )
    for declared in parsed:
        if declared.type != "declaration":
            continue
        if declared.lower_name in important and not declared.important:
            continue
        if declared.important:
            important.add(declared.lower_name)
        found[declared.lower_name] = _tokens(declared.value)
    return found


def hides_element(declared: Declarations) -> bool:
    """Tell whether an element is hidden with all that is in it."""
    return (
        "none" in _words(declared, "display")
        or _first_number(declared, "opacity", default=1.0) <= FAINT
        or _has_no_room(declared)
        or any(_is_far_away(declared.get(name, [])) for name in _OFFSETS)
        or any(_is_clipped(declared.get(name, [])) for name in ("clip", "clip-path"))
    )


def look_inside(
    look: Look, tag: str, attributes: Mapping[str, str], declared: Declarations
) -> Look:
    """Return how text looks inside an element, given how it looks around it."""
    look = replace(look, size=_size(look.size, declared))
    look = _coloured(look, tag, attributes, declared)
    visibility = _words(declared, "visibility")
    if visibility & {"hidden", "collapse"}:
        return replace(look, is_visible=False)
    return replace(look, is_visible=True) if "visible" in visibility else look


def _coloured(
    look: Look, tag: str, attributes: Mapping[str, str], declared: Declarations
) -> Look:
    if tag == "a" and "href" in attributes:
        look = replace(look, colour=_LINK)
    legacy = attributes.get("color" if tag == "font" else "text", "")
    for colour in (_named(legacy), _colour_of(declared.get("color", []))):
        if colour is not None:
            look = replace(look, colour=_opaque(colour))
    if "background" in attributes or _has_image(declared):
        return replace(look, behind=None)
    behind = [_named(attributes.get("bgcolor", ""))]
    behind += [
        _colour_of(declared.get(name, []))
        for name in ("background", "background-color")
    ]
    for colour in behind:
        if colour is not None and (seen := _opaque(colour)) is not None:
            look = replace(look, behind=seen)
    return look


def _size(around: float, declared: Declarations) -> float:
    tokens = declared.get("font-size") or [
        token
        for token in declared.get("font", [])
        if token.type in ("dimension", "percentage")
        or (token.type == "number" and token.value == 0)
    ]
    for token in tokens[:1]:
        pixels = _pixels(token, relative_to=around)
        return around if pixels is None else pixels
    return around


def _pixels(token: Any, *, relative_to: float) -> float | None:
    if token.type == "number":
        return float(token.value) if token.value == 0 else None
    if token.type == "percentage":
        return float(token.value) / 100 * relative_to
    if token.type != "dimension":
        return None
    if token.lower_unit in _RELATIVE:
        return float(token.value) * _RELATIVE[token.lower_unit] * relative_to
    factor = _PIXELS.get(token.lower_unit)
    return None if factor is None else float(token.value) * factor


def _has_no_room(declared: Declarations) -> bool:
    hides_rest = {"hidden", "clip"} & (
        _words(declared, "overflow")
        | _words(declared, "overflow-x")
        | _words(declared, "overflow-y")
    )
    sizes = (_first_number(declared, name, default=1.0) for name in _SIZES)
    return bool(hides_rest) and any(size == 0 for size in sizes)


def _is_far_away(tokens: Iterable[Any]) -> bool:
    pixels = (_pixels(token, relative_to=16.0) for token in tokens)
    return any(amount is not None and amount <= FAR_AWAY for amount in pixels)


def _is_clipped(tokens: Iterable[Any]) -> bool:
    for token in tokens:
        if token.type == "function":
            inside = "".join(_plain(part) for part in token.arguments)
            if f"{token.lower_name}({inside})" in _CLIPPED:
                return True
    return False


def _plain(token: Any) -> str:
    if token.type in ("number", "dimension", "percentage"):
        return str(token.int_value if token.is_integer else token.value)
    return str(token.value) if token.type == "literal" else ""


def _first_number(declared: Declarations, name: str, *, default: float) -> float:
    for token in declared.get(name, []):
        if token.type in ("number", "dimension"):
            return float(token.value)
        if token.type == "percentage":
            return float(token.value) / 100
    return default


def _has_image(declared: Declarations) -> bool:
    tokens = [*declared.get("background", []), *declared.get("background-image", [])]
    return any(
        token.type == "url" or (token.type == "function" and parse_color(token) is None)
        for token in tokens
    )


def _colour_of(tokens: Iterable[Any]) -> RGBA | None:
    return next(_colours(tokens), None)


def _colours(tokens: Iterable[Any]) -> Iterator[RGBA]:
    for token in tokens:
        if isinstance(colour := parse_color(token), RGBA):
            yield colour


def _named(text: str) -> RGBA | None:
    """Return the colour of an old attribute, which may lack its ``#``."""
    for spelled in (text.strip(), f"#{text.strip()}"):
        if isinstance(colour := parse_color(spelled), RGBA):
            return colour
    return None


def _opaque(colour: RGBA) -> Colour | None:
    """Return a colour in 0 to 255; None for one that lets through what is behind."""
    if colour.alpha <= FAINT:
        return None
    return (
        round(colour.red * 255),
        round(colour.green * 255),
        round(colour.blue * 255),
    )


def _words(declared: Declarations, name: str) -> set[str]:
    tokens = declared.get(name, [])
    return {token.lower_value for token in tokens if token.type == "ident"}


def _tokens(value: Iterable[Any]) -> list[Any]:
    return [token for token in value if token.type not in ("whitespace", "comment")]
