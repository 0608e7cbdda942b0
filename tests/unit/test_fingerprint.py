"""The fingerprint: the same for the same content, different for any other."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.canonical import DEPTH_LIMIT, canonical_json, key_hash
from core.fingerprint import fingerprint

TARGET = "idn_01K0000000000000000000000A"
VECTOR = "f00e43effcf83c7474a78399bac39f9dd43ac62a83b47b8853bdfa8cddbbd462"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


def of(text: str) -> str:
    return fingerprint("send", TARGET, json.loads(text))


def test_the_hash_covers_body_operation_and_target_in_canonical_form() -> None:
    whole = (
        '{"body":{"to":["a@b.example"]},"operation":"send","target":"' + TARGET + '"}'
    )

    assert of(' { "to" : [ "a@b.example" ] } ') == sha256(whole.encode()).hexdigest()


def test_a_known_vector_stays_as_it_is() -> None:
    # stored in ledgers: a change would turn every replay into a conflict
    body = {
        "to": ["ana@example.com"],
        "subject": "Größe “1”\n\u2028",
        "metadata": {"b": "2", "a": "1"},
    }
    assert fingerprint("send", TARGET, body) == VECTOR


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', '{ "b": {"d":3, "c":2},\n\t"a": 1 }'),
        (r'{"a":"\u00e9\/\ud83d\ude00"}', '{"a":"é/😀"}'),
        (r'{"\u0061":1}', '{"a":1}'),
        ('{"a":1e2}', '{"a":100.0}'),
        ('{"a":10000000000000000.0}', '{"a":1E+16}'),
        ('{"a":18446744073709551616}', '{"a":1.8446744073709552e19}'),
    ],
)
def test_spelling_does_not_matter(one: str, other: str) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"to":["a","b"]}', '{"to":["b","a"]}'),
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":0.0}', '{"a":-0.0}'),
        ('{"a":null}', "{}"),
        ('{"a":"x"}', '{"a":"x "}'),
        ('{"a":"X"}', '{"a":"x"}'),
        ('{"a":"\u00e9"}', '{"a":"e\u0301"}'),
        ('{"a":[]}', '{"a":{}}'),
        (r'{"a":"\ud800"}', r'{"a":"\ud801"}'),
        ('{"a":18446744073709551615}', '{"a":18446744073709551616}'),
    ],
)
def test_any_value_matters(one: str, other: str) -> None:
    assert of(one) != of(other)


def test_operation_and_target_matter() -> None:
    hashes = {
        fingerprint("send", TARGET, {}),
        fingerprint("reply", TARGET, {}),
        fingerprint("reply", TARGET + "/msg_01K0000000000000000000000B", {}),
    }
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("0", "0"),
        ("-1", "-1"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9.223372036854776e18"),
        ("1.0", "1.0"),
        ("-0.0", "-0.0"),
        ("0.1", "0.1"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("123456789012345678.0", "1.2345678901234568e17"),
        ("0.0001", "0.0001"),
        ("1e-5", "0.00001"),
        ("-1.25e-5", "-0.0000125"),
        ("1e-6", "1e-6"),
        ("1.5e-7", "1.5e-7"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
    ],
)
def test_numbers_take_the_forms_of_serde_json(number: str, written: str) -> None:
    assert canonical_json(json.loads(number)) == written.encode()


def test_strings_take_the_minimal_escapes() -> None:
    text = '"\\/\b\f\n\r\t\x00\x1f\x7f\u0085\u2028é😀'

    written = canonical_json(text).decode()

    assert written == '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u0085\u2028é😀"'


def test_names_are_sorted_by_their_bytes() -> None:
    # in UTF-16, as some languages sort, the last two would change places
    names = ["", "A", "B", "a", "é", "\uffff", "😀"]

    assert list(json.loads(canonical_json(dict.fromkeys(reversed(names))))) == names


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**400,
        {1: 2},
        b"x",
        json.loads("[" * 200 + "]" * 200),
    ],
)
def test_what_json_cannot_say_has_no_form(value: Any) -> None:
    with pytest.raises(ValueError, match=r"double|JSON|strings|nested"):
        canonical_json(value)


def test_nesting_is_read_to_its_limit() -> None:
    deepest: Any = json.loads("[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT)

    assert canonical_json(deepest) == b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT


@given(JSON)
def test_the_canonical_form_is_json_of_an_equal_value(value: Any) -> None:
    again = json.loads(canonical_json(value))

    assert canonical_json(again) == canonical_json(value)
    assert _doubles(again) == _doubles(value)


def _doubles(value: Any) -> Any:
    """Return the value with the integers beyond 64 bits as a double holds them."""
    match value:
        case list():
            return [_doubles(item) for item in value]
        case dict():
            return {name: _doubles(item) for name, item in value.items()}
        case int() if not -(2**63) <= value < 2**64:
            return float(value)
    return value


def test_a_key_is_stored_as_its_hash() -> None:
    assert key_hash("demo-2291") == sha256(b"demo-2291").hexdigest()
