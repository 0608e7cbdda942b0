"""The signed cursor of a list."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CursorExpired, InvalidRequest
from mailboxes.cursors import Cursor, read_cursor, write_cursor
from mailboxes.keyring import RingKey

NOW = datetime(2026, 11, 2, 9, 15, 20, tzinfo=UTC)
KEY = RingKey("3", b"s" * 32)
MADE = Cursor("listThings", "b" * 64, ["2026-11-02T09:00:00+00:00", "x_1"], NOW)
TEXT = write_cursor(MADE, key=KEY)


def read(
    text: str,
    *,
    operation: str = "listThings",
    binding: str = "b" * 64,
    now: datetime = NOW,
    keys: dict[str, bytes] | None = None,
) -> list[object]:
    known = {"3": KEY.secret} if keys is None else keys
    return list(
        read_cursor(
            text, operation=operation, binding=binding, find_key=known.get, now=now
        )
    )


def test_a_cursor_gives_back_where_its_page_ended() -> None:
    assert TEXT.startswith("c_")
    assert read(TEXT) == list(MADE.keyset)


def test_a_cursor_of_another_list_filter_or_key_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        read(TEXT, operation="listOthers")
    with pytest.raises(InvalidRequest):
        read(TEXT, binding="c" * 64)
    with pytest.raises(InvalidRequest):
        read(TEXT, keys={"4": KEY.secret})
    with pytest.raises(InvalidRequest):
        read(TEXT, keys={"3": b"t" * 32})


def test_a_cursor_counts_for_24_hours() -> None:
    assert read(TEXT, now=NOW + timedelta(hours=24))
    with pytest.raises(CursorExpired):
        read(TEXT, now=NOW + timedelta(hours=24, seconds=1))


@given(st.data())
def test_any_change_of_a_character_is_noticed(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(TEXT) - 1))
    letter = data.draw(st.sampled_from("Ac_-9=. é").filter(lambda c: c != TEXT[place]))

    with pytest.raises(InvalidRequest):
        read(TEXT[:place] + letter + TEXT[place + 1 :])


@given(st.text() | st.binary().map(lambda b: "c_" + base64.b64encode(b).decode()))
def test_what_we_did_not_sign_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read(text)


def test_a_second_spelling_of_the_same_bytes_is_no_cursor() -> None:
    with pytest.raises(InvalidRequest):
        read(TEXT + "=")
