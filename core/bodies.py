"""Request bodies: a length first, then strict JSON (REST contract, section 1).

What a lenient parser would let through is refused with its place: NUL and lone
surrogates (PostgreSQL cannot store them), NaN, numbers without a finite value, and a
name that stands twice in one object. A body has so many names and no more: a million
of them would take a gigabyte to be refused one by one.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from django.http import HttpRequest

from core.errors import FieldError, InvalidRequest, LengthRequired, PayloadTooLarge

BODY_LIMIT: Final = 7 * 2**20
"""The largest body that is read, in bytes."""
JSON: Final = "application/json"
NAMES_LIMIT: Final = 20_000
"""Names in all objects of a body; twice what the largest send could use."""


def read_json(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object that the request carries.

    Raises LengthRequired, PayloadTooLarge (before anything is read) or InvalidRequest.
    """
    return parse_json_object(read_body(request))


def read_optional_json(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object of a call that may come without one: then an empty one.

    Raises the same as read_json.
    """
    announced = str(request.META.get("CONTENT_LENGTH") or "0")
    chunked = request.META.get("HTTP_TRANSFER_ENCODING")
    return {} if announced == "0" and not chunked else read_json(request)


def read_body(
    request: HttpRequest,
    *,
    limit: int = BODY_LIMIT,
    media_types: Sequence[str] = (JSON,),
) -> bytes:
    """Return the whole body, exactly as long as it was announced.

    Raises LengthRequired, PayloadTooLarge (over ``limit`` bytes) or InvalidRequest (cut
    short, or of another media type).
    """
    announced = str(request.META.get("CONTENT_LENGTH") or "")
    if request.META.get("HTTP_TRANSFER_ENCODING") or not announced.isdecimal():
        raise LengthRequired("The body came without a usable Content-Length.")
    length = int(announced)
    if length > limit:
        raise PayloadTooLarge(f"The body is {length} bytes; {limit} is the most.")
    _check_media_type(request.content_type or "", media_types)
    body = request.read(length)
    if len(body) != length:
        raise InvalidRequest("The body is shorter than its Content-Length.")
    return body


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Return a JSON object; raises InvalidRequest for anything else."""
    try:
        text = body.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_Objects(),
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        errors = list(_unstorable(value, "")) if "\\u" in text else []
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON: line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise InvalidRequest("The JSON is nested too deeply.") from None
    except ValueError:
        raise InvalidRequest("The JSON holds a number out of range.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    if errors:
        raise InvalidRequest("Some text cannot be stored.", errors=errors)
    return value


def _check_media_type(media_type: str, wanted: Sequence[str]) -> None:
    if media_type and media_type not in wanted:
        named = " or ".join(wanted)
        raise InvalidRequest(f"Send the body with Content-Type: {named}.")


class _Objects:
    """Makes the objects of one body, and counts their names."""

    def __init__(self) -> None:
        self._names = 0

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._names += len(pairs)
        if self._names > NAMES_LIMIT:
            raise InvalidRequest(f"The JSON holds more than {NAMES_LIMIT} names.")
        made = dict(pairs)
        if len(made) != len(pairs):
            (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            message = "This name stands twice in one object."
            raise InvalidRequest.at(_shown(twice), message)
        return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _unstorable(value: Any, path: str) -> Iterator[FieldError]:
    """Yield each string that PostgreSQL would refuse; only escapes can make one."""
    if isinstance(value, str):
        if "\x00" in value:
            yield FieldError(path, "The character U+0000 cannot be stored.")
        elif any("\ud800" <= letter <= "\udfff" for letter in value):
            yield FieldError(path, "Half of a surrogate pair is no character.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unstorable(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{path}.{_shown(name)}".lstrip(".")
            yield from _unstorable(name, inner)
            yield from _unstorable(item, inner)


def _shown(name: str) -> str:
    """Return a name in a form that any response can carry."""
    return name.encode("utf-8", "backslashreplace").decode()[:100]
