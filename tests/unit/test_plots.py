"""Plots: every value can be read, in grey and without seeing it."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.plots import HEIGHT, LEFT, WIDTH, Ranked, Series, bars, ranked, short, stacked

SVG = "{http://www.w3.org/2000/svg}"
DAYS = [f"{month:02}-{day:02}" for month in (9, 10, 11) for day in range(1, 31)]


def drawn(labels: Sequence[str], *series: Series) -> ElementTree.Element:
    text = bars("Sends a day", labels, series)
    return ElementTree.fromstring(  # noqa: S314  our own
        text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    )


def rects(plot: ElementTree.Element, texture: str) -> list[dict[str, float]]:
    return [
        {name: float(rect.attrib[name]) for name in ("x", "y", "width", "height")}
        for rect in plot.iterfind(f"{SVG}g/{SVG}rect[@class='plot-{texture}']")
    ]


def test_a_bar_is_as_high_as_its_value_and_says_what_it_is() -> None:
    plot = drawn(
        ["a", "b", "c"], Series("sends", [10, 0, 5]), Series("mails", [4, 0, 0])
    )

    first, second = rects(plot, "hatched")
    (solid,) = rects(plot, "solid")
    assert first["height"] == pytest.approx(2 * second["height"], abs=0.02)
    assert solid["height"] == pytest.approx(0.4 * first["height"], abs=0.02)
    assert solid["width"] < first["width"]
    assert solid["x"] + solid["width"] / 2 == pytest.approx(
        first["x"] + first["width"] / 2, abs=0.02
    )
    titles = [title.text for title in plot.iter(f"{SVG}title")]
    assert titles == ["a: 10 sends, 4 mails", "c: 5 sends, 0 mails"]


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, "2"), (1, "2"), (3, "3"), (11, "20"), (501, "600"), (9001, "10k"), (10, "10")],
)
def test_the_scale_ends_at_a_round_number_above_the_highest(
    most: int, top: str
) -> None:
    plot = drawn(["a"], Series("sends", [most]))

    texts = [text.text for text in plot.iterfind(f"{SVG}text[@text-anchor='end']")]
    assert texts[0] == "0"
    assert top in texts


def test_the_first_and_the_last_day_are_named_and_few_between() -> None:
    plot = drawn(DAYS, Series("sends", [1] * len(DAYS)))

    named = [t.text for t in plot.iterfind(f"{SVG}text") if t.text in DAYS]
    assert (named[0], named[-1], len(named)) == (DAYS[0], DAYS[-1], 4)


@given(st.lists(st.integers(0, 10**12), max_size=92))
def test_whatever_the_values_all_stays_inside(values: list[int]) -> None:
    plot = drawn([str(n) for n in range(len(values))], Series("sends", values))

    for rect in rects(plot, "hatched"):
        assert LEFT <= rect["x"] <= rect["x"] + rect["width"] <= WIDTH
        assert 0 <= rect["y"] < rect["y"] + rect["height"] <= HEIGHT
        assert rect["height"] >= 1
    assert len(rects(plot, "hatched")) == len([n for n in values if n])


def test_text_is_data() -> None:
    text = bars('"<b>', ["<i>"], [Series("<u>&", [1])])

    assert not re.search("<[biu]>", text)
    assert text.count("&lt;i&gt;") == 2


def test_no_colour_is_named_and_no_other_place() -> None:
    text = bars("Sends", ["a"], [Series(name, [1]) for name in "abc"])

    assert not re.search(r"#[0-9a-f]{3}|rgb|http|style=|fill=", text)


@pytest.mark.parametrize("values", [[], [1, 2]])
def test_a_series_of_another_length_is_refused(values: list[int]) -> None:
    with pytest.raises(ValueError, match="one value for each label"):
        bars("Sends", ["a"], [Series("sends", values)])


def test_a_fourth_series_is_refused() -> None:
    with pytest.raises(ValueError, match="three"):
        bars("Sends", ["a"], [Series("sends", [1])] * 4)


@pytest.mark.parametrize(
    ("value", "text"),
    [(950, "950"), (1500, "1.5k"), (20_000, "20k"), (3 * 10**6, "3M"), (10**9, "1G")],
)
def test_a_number_is_cut_to_what_the_axis_has_room_for(value: int, text: str) -> None:
    assert short(value) == text


def test_parts_of_a_whole_stand_on_one_another() -> None:
    text = stacked(
        "Sends", ["a", "b"], [Series("failed", [1, 0]), Series("went out", [3, 4])]
    )
    plot = ElementTree.fromstring(  # noqa: S314  our own
        text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    )

    (below,) = rects(plot, "hatched")
    first, second = rects(plot, "solid")
    assert first["height"] == pytest.approx(3 * below["height"], abs=0.05)
    assert first["y"] + first["height"] == pytest.approx(below["y"], abs=0.05)
    assert first["y"] == pytest.approx(second["y"], abs=0.05)
    titles = [title.text for title in plot.iter(f"{SVG}title")]
    assert titles == ["a: 1 failed, 3 went out", "b: 0 failed, 4 went out"]


def test_a_pile_takes_no_more_series_than_there_are_textures() -> None:
    with pytest.raises(ValueError, match="three textures"):
        stacked("Sends", ["a"], [Series("s", [1])] * 4)
    with pytest.raises(ValueError, match="one value for each"):
        stacked("Sends", ["a", "b"], [Series("s", [1])])


def test_a_rankings_bars_fill_their_share_and_never_more_than_the_row() -> None:
    text = ranked("Caps", [Ranked("<b>: 5 of 10", 0.5), Ranked("full", 2.0, 1.0)])
    plot = ElementTree.fromstring(text)  # noqa: S314  our own

    solid = [
        float(r.attrib["width"]) for r in plot.iterfind("rect[@class='plot-solid']")
    ]
    hatched = [
        float(r.attrib["width"]) for r in plot.iterfind("rect[@class='plot-hatched']")
    ]
    assert solid == [WIDTH / 2, WIDTH]
    assert hatched == [0, 0]
    assert [one.text for one in plot.iterfind("text")] == ["<b>: 5 of 10", "full"]
