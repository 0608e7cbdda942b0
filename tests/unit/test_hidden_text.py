"""Hidden text goes and is reported; what a reader sees in ordinary mail stays."""

import pytest

from core.sanitize import sanitize
from tests.support.html_reader import Reader


@pytest.mark.parametrize(
    "style",
    [
        "display:none",
        "DISPLAY : NONE !important",
        "dis\\play:none",
        "display:/**/none",
        "display:none;color:red",
        "opacity:0",
        "opacity:0.05",
        "opacity:5%",
        "width:0;overflow:hidden",
        "max-height:0px;overflow:hidden",
        "height:0;overflow-y:hidden",
        "position:absolute;left:-9999px",
        "text-indent:-999px",
        "margin-left:-1000pt",
        "margin:0 0 0 -5000px",
        "top:-999px",
        "clip:rect(0,0,0,0)",
        "clip: rect(0 0 0 0)",
        "clip:rect(1px,1px,1px,1px)",
        "clip-path:inset(50%)",
        "clip-path: inset(100%)",
        "clip-path:circle(0)",
        "visibility:hidden",
        "visibility:collapse",
        "font-size:0",
        "font-size:1px",
        "font-size:0.5pt",
        "font:0/0 a",
        "font-size:0.01em",
        "font-size:5%",
        "color:transparent",
        "color:rgba(1,2,3,0)",
        "color:#fff",
        "color:white",
        "color:rgb(255,255,255)",
        "background:#123456;color:#123456",
        "color:hsl(0,100%,50%);background-color:red",
    ],
)
def test_hidden_text_goes_and_is_reported(style: str) -> None:
    made = sanitize(f'<p>seen</p><div style="{style}">secret</div>tail')

    assert "secret" not in made.html
    assert made.has_hidden_text
    assert Reader(made.html).text == "seentail"


@pytest.mark.parametrize(
    "html",
    [
        "<div hidden>secret</div>",
        "<font color=white>secret</font>",
        "<font color='#FFFFFF'>secret</font>",
        "<table bgcolor=red><tr><td style='color:red'>secret</td></tr></table>",
        "<body bgcolor=000000 text=000000>secret</body>",
        "<div style='display:none'><p>a <b>secret</b></p></div>",
        "<div style='visibility:hidden'><p>secret</p></div>",
    ],
)
def test_hidden_by_attributes_or_by_what_is_around_it(html: str) -> None:
    made = sanitize(f"{html}seen")

    assert "secret" not in made.html
    assert made.has_hidden_text


@pytest.mark.parametrize(
    "html",
    [
        "<div style='font-size:0'><span style='font-size:14px'>shown</span></div>",
        "<div style='visibility:hidden'><b style='visibility:visible'>shown</b></div>",
        "<div style='background:#000'><p style='color:#fff'>shown</p></div>",
        "<td bgcolor='#000000'><font color=white>shown</font></td>",
        "<div style='color:#fff'><a href='https://x.example/'>shown</a></div>",
        "<div style='background:url(cid:x) #fff;color:#fff'>shown</div>",
        "<b style='background-image:linear-gradient(red,blue);color:#fff'>shown</b>",
        "<table background='cid:x'><tr><td style='color:#fff'>shown</td></tr></table>",
        "<p style='margin-left:-20px;opacity:.5;height:0;font-size:small'>shown</p>",
        "<p style='color:inherit;background:transparent'>shown</p>",
        "<p style='width:0'>shown</p>",
        "<p style='clip:rect(0,10px,10px,0)'>shown</p>",
        "<p style='{{{;;color'>shown</p>",
    ],
)
def test_what_a_reader_sees_stays_and_is_no_hidden_text(html: str) -> None:
    made = sanitize(html)

    assert "shown" in made.html
    assert not made.has_hidden_text


def test_a_hidden_element_without_text_hides_nothing() -> None:
    html = "<p>a</p><div style='display:none'> <img src='cid:x'></div>"

    assert sanitize(html).html == "<p>a</p>"
    assert not sanitize(html).has_hidden_text


def test_the_text_after_what_goes_stays_in_its_place() -> None:
    html = "<p>one <script>x</script>two <b hidden>no</b>three</p>four"

    assert Reader(sanitize(html).html).text == "one two threefour"


@pytest.mark.parametrize(
    "character",
    "\u200b\u200c\u2060\u2064\ufeff\u00ad\u034f\u180e\u115f\u1160\u3164\uffa0\u200d",
)
def test_characters_that_show_nothing_go_and_three_of_them_are_hiding(
    character: str,
) -> None:
    assert sanitize(f"<p>a{character}b{character}c</p>").html == "<p>abc</p>"
    assert not sanitize(f"a{character}b{character}c").has_hidden_text
    assert sanitize(character.join("abcd")).has_hidden_text


@pytest.mark.parametrize("character", ["\u202d", "\u202e", "\U000e0041", "\U000e007f"])
def test_overrides_and_tag_characters_are_always_hiding(character: str) -> None:
    made = sanitize(f"<p title='x{character}y'>a{character}b</p>")

    assert made.html == '<p title="xy">ab</p>'
    assert made.has_hidden_text


@pytest.mark.parametrize("character", "\u202a\u202b\u202c\u2066\u2067\u2068\u2069")
def test_other_directions_go_and_hide_nothing(character: str) -> None:
    assert sanitize(f"a{character}b").html == "ab"
    assert not sanitize(f"a{character}b").has_hidden_text


@pytest.mark.parametrize(
    "emoji", ["👩\u200d💻", "❤\ufe0f\u200d🔥", "👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈"]
)
def test_a_joined_emoji_stays_one(emoji: str) -> None:
    assert sanitize(f"<p>{emoji * 3}</p>").html == f"<p>{emoji * 3}</p>"
    assert not sanitize(emoji * 3).has_hidden_text


def test_invisible_characters_written_as_references_go_too() -> None:
    assert sanitize("a&#8203;b&ZeroWidthSpace;c&shy;d&#x202e;e").html.startswith("ab")
    assert "\u200b" not in sanitize("a&#8203;b").html
