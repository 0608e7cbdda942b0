"""Signed links: good for one file until an instant; and which files become links."""

import base64
import hashlib
import hmac
import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import new_id
from outbound.body import Bodies
from outbound.compose import Attachment, ComposeInput, Mailbox, compose
from outbound.links import (
    LinkedFile,
    LinkTarget,
    files_to_link,
    human_size,
    mint_link,
    read_link,
    with_links,
)

KEY = bytes(range(32))
NOW = datetime(2026, 9, 14, 8, 12, tzinfo=UTC)
EXPIRES = NOW + timedelta(hours=72)
TARGET = LinkTarget(
    "ten_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "idn_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "att_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    EXPIRES,
)
TOKEN = mint_link(TARGET, kid="3", key=KEY)
LIMIT = 5 * 2**20 - 8192


def ring(kid: str) -> bytes | None:
    return KEY if kid == "3" else None


def test_a_token_is_the_payload_and_sixteen_octets_of_its_mac() -> None:
    octets = base64.urlsafe_b64decode(TOKEN + "=" * (-len(TOKEN) % 4))

    assert octets[:-16] == (
        b"l1:3:att:ten_01ARZ3NDEKTSV4RRFFQ69G5FAV:idn_01ARZ3NDEKTSV4RRFFQ69G5FAV:"
        b"msg_01ARZ3NDEKTSV4RRFFQ69G5FAV:att_01ARZ3NDEKTSV4RRFFQ69G5FAV:"
        + str(int(EXPIRES.timestamp())).encode()
    )
    assert set(TOKEN) <= set(string.ascii_letters + string.digits + "-_")
    assert len(TOKEN) < 250


def test_a_link_is_good_until_its_instant() -> None:
    assert read_link(TOKEN, key_of=ring, now=NOW) == TARGET
    last = EXPIRES - timedelta(seconds=1)
    assert read_link(TOKEN, key_of=ring, now=last) == TARGET
    assert read_link(TOKEN, key_of=ring, now=EXPIRES) is None


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(string.ascii_letters + "-_="))
def test_a_token_with_one_changed_character_is_good_for_nothing(
    place: int, character: str
) -> None:
    changed = TOKEN[:place] + character + TOKEN[place + 1 :]

    found = read_link(changed, key_of=ring, now=NOW)

    assert (found is None) == (changed != TOKEN)


@pytest.mark.parametrize(
    "token",
    ["", "x", "=", TOKEN + "=", TOKEN[:-1], TOKEN + "A", " " + TOKEN, "é", "A" * 1000,
     base64.urlsafe_b64encode(b"l1:3:att:a:b:c:d:1" + b"0" * 16).decode()],
)  # fmt: skip
def test_anything_else_is_no_link(token: str) -> None:
    assert read_link(token, key_of=ring, now=NOW) is None


@pytest.mark.parametrize(
    "payload",
    [b"l2:3:att", b"l1:3:raw", b"l1:3", b"l1:3:att:x", b"l1:i:att", b"\xff:3"],
)
def test_a_signed_payload_of_another_kind_is_no_link(payload: bytes) -> None:
    mac = hmac.new(KEY, payload, hashlib.sha256).digest()[:16]
    token = base64.urlsafe_b64encode(payload + mac).rstrip(b"=").decode()

    assert read_link(token, key_of=lambda kid: KEY, now=NOW) is None


def test_a_key_past_its_time_makes_every_link_of_it_void() -> None:
    assert read_link(TOKEN, key_of=lambda kid: None, now=NOW) is None
    assert read_link(TOKEN, key_of=lambda kid: b"other", now=NOW) is None


def composed_with(contents: list[bytes], linked: frozenset[int]) -> int:
    """Return the size of a real message with the files that are not linked."""
    files = [
        LinkedFile(f"file{n}.bin", len(contents[n]), f"https://x.example/{n}", EXPIRES)
        for n in sorted(linked)
    ]
    bodies = with_links(Bodies("Hello", "<p>Hello</p>"), files)
    message = ComposeInput(
        message_id="msg_01ARZ3NDEKTSV4RRFFQ69G5FAV",
        sent_at=NOW,
        from_=Mailbox("a@acme.example"),
        subject="Files",
        to=(Mailbox("b@x.example"),),
        text=bodies.text,
        html=bodies.html,
        attachments=tuple(
            Attachment(
                f"file{n}.bin", "application/octet-stream", "attachment", None, c
            )
            for n, c in enumerate(contents)
            if n not in linked
        ),
    )
    return len(compose(message).mime)


def linked_of(contents: list[bytes], limit: int) -> frozenset[int] | None:
    return files_to_link(
        [len(content) for content in contents],
        embedded=[False] * len(contents),
        composed_size=lambda linked: composed_with(contents, linked),
        limit=limit,
    )


def test_a_message_that_fits_keeps_its_files() -> None:
    assert linked_of([b"a" * 100, b"b" * 200], LIMIT) == frozenset()


def test_g5_the_largest_files_become_links_until_it_fits() -> None:
    sizes = [400_000, 3_000_000, 1_000_000, 2_000_000]
    contents = [b"x" * size for size in sizes]

    linked = linked_of(contents, LIMIT)

    assert linked == frozenset({1})
    assert linked_of([*contents, b"y" * 2_500_000], LIMIT) == frozenset({1, 4})


def test_to_the_byte_a_message_at_the_limit_keeps_its_files() -> None:
    contents = [b"x" * 1000, b"y" * 2000]
    whole = composed_with(contents, frozenset())

    assert linked_of(contents, whole) == frozenset()
    assert linked_of(contents, whole - 1) == frozenset({1})


def test_a_message_that_never_fits_is_refused() -> None:
    smallest = composed_with([b"x" * 1000], frozenset({0}))

    assert linked_of([b"x" * 1000], smallest) == frozenset({0})
    assert linked_of([b"x" * 1000], smallest - 1) is None
    assert linked_of([], 10) is None


def test_of_equal_files_the_first_goes_and_shown_ones_go_last() -> None:
    def size(linked: frozenset[int]) -> int:
        return 100 - 10 * len(linked)

    equal = files_to_link([5, 5], embedded=[False] * 2, composed_size=size, limit=90)
    shown = files_to_link([9, 5], embedded=[True, False], composed_size=size, limit=90)

    assert equal == frozenset({0})
    assert shown == frozenset({1})


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 300))
def test_no_file_leaves_that_could_have_stayed(sizes: list[int], limit: int) -> None:
    def size(linked: frozenset[int]) -> int:
        return sum(s for n, s in enumerate(sizes) if n not in linked)

    linked = files_to_link(
        sizes, embedded=[False] * len(sizes), composed_size=size, limit=limit
    )

    assert linked is not None
    assert size(linked) <= limit
    if linked:
        smallest = min(linked, key=lambda n: (sizes[n], -n))
        assert size(linked - {smallest}) > limit
        assert all(sizes[n] <= sizes[smallest] for n in set(range(len(sizes))) - linked)


def test_links_stand_in_both_parts_with_name_size_and_end() -> None:
    file = LinkedFile(
        "Größe <1>.pdf", 3_825_000, "https://x.example/v1/links/t", EXPIRES
    )

    bodies = with_links(Bodies("Hi", "<body>Hi</body>"), [file])

    assert bodies.text == (
        "Hi\n\nGröße <1>.pdf (3.8 MB): https://x.example/v1/links/t"
        " (available until 2026-09-17T08:12:00Z)"
    )
    assert bodies.html == (
        '<body>Hi<p><a href="https://x.example/v1/links/t">Größe &lt;1&gt;.pdf</a>'
        " (3.8 MB, available until 2026-09-17T08:12:00Z)</p></body>"
    )
    assert with_links(Bodies("", None), [file]).html is None
    assert with_links(Bodies("Hi", None), []) == Bodies("Hi", None)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5_242_880, "5.2 MB"),
        (12_000_000_000, "12.0 GB"),
    ],
)
def test_sizes_for_people(size: int, shown: str) -> None:
    assert human_size(size) == shown


def test_ids_of_this_process_fit_a_link() -> None:
    fresh = LinkTarget(
        new_id("ten"), new_id("idn"), new_id("msg"), new_id("att"), EXPIRES
    )

    token = mint_link(fresh, kid="3", key=KEY)

    assert read_link(token, key_of=ring, now=NOW) == fresh


def test_nothing_is_composed_while_the_files_alone_are_too_large() -> None:
    composed: list[int] = []

    def size(linked: frozenset[int]) -> int:
        composed.append(len(linked))
        return 10 * (32 - len(linked)) + 1

    linked = files_to_link(
        [10] * 32, embedded=[False] * 32, composed_size=size, limit=50
    )

    assert linked == frozenset(range(28))
    assert composed == [27, 28]
