"""Strings chosen to hurt whoever writes them into a mail header."""

from hypothesis import strategies as st

HURTFUL = [
    "=?utf-8?q?Subject=3A_x?=", "=?utf-8?b?DQpCY2M6IHhAeS56?=", "a =?us-ascii?q?b?= c",
    "=?", "?=", "=?utf-8?q?", "=?x?z?y?=", "(comment)", "a (b", 'say "hi"', '"', "\\",
    '\\"', "a, b; c: d", "Doe, Jane <jane@example.com>", "x@y.example", "<a@b.example>",
    "<>", "a.b", " ", "  ", "   both ends   ", "double  blank", "trailing ", "'quoted'",
    "Bcc: x@y.example", "\u0085", "\u2028", "a\u0085b\u2029c", "\u00a0", "\u200f\u202e",
    "é", "e\u0301", "日本語のとても長い件名" * 6, "Ωμέγα και άλφα", "שלום", "مرحبا",
    "😀" * 30, "👨‍👩‍👧", "\U0010ffff", "\ufeff", "_", "=20", "=E9", "%41", "?", "=",
    "a" * 77, "b" * 998, "ä" * 998, "c d " * 249, "e," * 120, "x" + " " * 100 + "y",
    "undisclosed-recipients:;", ".", "..", "-- ", "From ", "~", "A" * 75 + " B",
]  # fmt: skip

_CHARACTERS = st.characters(exclude_categories=["Cc", "Cs"], include_characters="\x85")

header_texts = st.one_of(
    st.sampled_from(HURTFUL),
    st.text(_CHARACTERS, max_size=120),
    st.text('=?_ qQbB-8utf"\\,()<>@.:;é\u2028', max_size=60),
    st.lists(st.sampled_from(HURTFUL), max_size=4).map(" ".join),
).map(lambda text: text[:998])
"""What may stand in a header: no controls, at most 998 characters."""

names = header_texts.map(lambda text: text[:256])

bodies = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.lists(
        st.sampled_from(
            [".", "..", ".x", "", "-- ", " ", "\t", "From me", "x" * 1200, "é" * 600,
             "=", "=3D", "a\rb", "\r", "\x00", "\x0b", "\u0085", "\u2028", "日本語",
             "a" * 998, "--=_01k0000000000000000000000a_a", "trailing  "]
        ),
        max_size=8,
    ).map("\n".join),
)  # fmt: skip
