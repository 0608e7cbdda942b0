"""Canonical JSON and the hashes made from it (the page, "Idempotency fingerprint").

Numbers are written as serde_json writes the values that it reads: integers that fit 64
bits as they are, all others as the nearest double in its shortest form (``1e16``,
``0.00001``, ``1.0``, ``-0.0``). Two differences remain: Python reads ``-0`` as the
integer ``0``, and rounds every decimal exactly.
"""

import hashlib
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

DEPTH_LIMIT = 128
"""Levels of nesting that are read; serde_json's own limit."""

_INTEGERS = range(-(2**63), 2**64)


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value, as UTF-8.

    Object keys are sorted by their UTF-8 bytes at every level, no insignificant white
    space, strings with minimal escapes, numbers in shortest form, arrays in order. A
    lone surrogate, which JSON can spell and UTF-8 cannot, becomes its three bytes.
    Raises ValueError for what has no JSON form: nesting deeper than DEPTH_LIMIT, a
    number beyond a double, a NaN, or a Python object that JSON does not know.
    """
    return "".join(_pieces(value, DEPTH_LIMIT)).encode("utf-8", "surrogatepass")


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield encode_basestring(value)
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, int | float):
        yield _number(value)
    elif depth == 0:
        raise ValueError(f"nested deeper than {DEPTH_LIMIT} levels")
    elif isinstance(value, list | tuple):
        yield from _array(value, depth - 1)
    elif isinstance(value, Mapping):
        yield from _object(value, depth - 1)
    else:
        raise ValueError(f"{type(value).__name__} is no JSON value")


def _array(items: list[Any] | tuple[Any, ...], depth: int) -> Iterator[str]:
    yield "["
    for index, item in enumerate(items):
        if index:
            yield ","
        yield from _pieces(item, depth)
    yield "]"


def _object(members: Mapping[Any, Any], depth: int) -> Iterator[str]:
    if not all(isinstance(name, str) for name in members):
        raise ValueError("an object's names are strings")
    yield "{"
    # UTF-8 byte order is code point order, which is how Python sorts strings
    for index, name in enumerate(sorted(members)):
        yield ("," if index else "") + encode_basestring(name) + ":"
        yield from _pieces(members[name], depth)
    yield "}"


def _number(value: float) -> str:
    if isinstance(value, int) and value in _INTEGERS:
        return str(int(value))
    try:
        shortest = repr(float(value))
    except OverflowError as error:
        raise ValueError("a number beyond the range of a double") from error
    if shortest in ("inf", "-inf", "nan"):
        raise ValueError("a number beyond the range of a double")
    mantissa, marker, exponent = shortest.partition("e")
    if not marker:
        return shortest
    if exponent == "-05":  # the one size that Python and serde_json lay out differently
        sign = "-" if mantissa.startswith("-") else ""
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
    return f"{mantissa}e{int(exponent)}"


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def key_hash(idempotency_key: str) -> str:
    """Return what the ledger stores of an ``Idempotency-Key``: its SHA-256, in hex."""
    return sha256_hex(idempotency_key.encode())
