"""How every POST that sends no mail is answered: once for one ``Idempotency-Key``.

Authentication and rate limits come before; then the header, the size and the form, the
look-up, and only then the rules of the service (REST contract, section 1.5).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_optional_json
from core.canonical import key_hash
from core.errors import PylotaError
from core.fingerprint import fingerprint
from core.idempotency import HEADER, optional_key
from mailboxes.callers import caller_of
from mailboxes.repeats import (
    PLATFORM,
    Place,
    find_answer,
    hold_place,
    place_held,
    remember,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

KEY_HEADER: Final = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    type={"type": "string", "pattern": r"^[\x20-\x7E]{1,255}$"},
    description="Optional. The same call under the same key is done once; a repeat"
    " gets the first answer, without the secret that it may have shown.",
)


class Parses(Protocol[T_co]):
    """A form, or what chooses between some: gives what a body says."""

    def parse(self, body: dict[str, Any]) -> T_co:
        """Return it; raises InvalidRequest."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered with when it succeeds.

    ``kept`` is remembered in the body's place when that shows mail: none of it is
    stored a second time, and whoever repeats the call has it read again.
    """

    body: dict[str, Any]
    status: int = 201
    kept: dict[str, Any] | None = None


def answer_once(
    request: Request,
    form: Parses[T],
    do: Callable[[T], Answer],
    *,
    reach: Callable[[], object] = lambda: None,
    before: Callable[[T], object] | None = None,
    again: Callable[[dict[str, Any]], dict[str, Any]] = lambda kept: kept,
) -> Response:
    """Do what a POST asks for in one transaction, or give the answer it had before.

    ``do`` joins the transaction and may raise any refusal: then nothing is kept.
    ``reach`` raises when the path is out of the key's reach: such a path is not there,
    whatever else is wrong with the request. ``before`` is called outside of the
    transaction, for what asks the network, unless there is an answer already. ``again``
    makes the first answer of what was kept of it.
    """
    key, body, asked = _asked(request, form.parse, reach)
    if before is not None and not _is_answered(request, key, body):
        before(asked)
    with transaction.atomic(durable=True):
        if key is None:
            return _response(do(asked))
        place = _place(request, key, body)
        hold_place(place)
        if (earlier := find_answer(place)) is not None:
            return _replayed(again(earlier.body), status=earlier.status)
        answer = do(asked)
        _remember(place, answer)
    return _response(answer)


def answer_each_once(
    request: Request,
    parse: Callable[[dict[str, Any]], T],
    do: Callable[[T], Answer],
    *,
    reach: Callable[[], object],
) -> Response:
    """Do what a POST asks for in many transactions, or give the answer it had before.

    As ``answer_once``, but ``do`` commits part by part. A process that dies in between
    leaves what it did and no answer: a repeat is then judged afresh, so every part must
    refuse to be done twice.
    """
    key, body, asked = _asked(request, parse, reach)
    if key is None:
        return _response(do(asked))
    place = _place(request, key, body)
    with place_held(place):
        if (earlier := find_answer(place)) is not None:
            return _replayed(earlier.body, status=earlier.status)
        answer = do(asked)
        _remember(place, answer)
    return _response(answer)


def _asked(
    request: Request,
    parse: Callable[[dict[str, Any]], T],
    reach: Callable[[], object],
) -> tuple[str | None, dict[str, Any], T]:
    """Return the key, the body as it came, and what it says."""
    try:
        key = optional_key(request.META.get(HEADER))
        body = read_optional_json(request._request)
        return key, body, parse(body)
    except PylotaError:
        reach()
        raise


def _is_answered(request: Request, key: str | None, body: dict[str, Any]) -> bool:
    return key is not None and find_answer(_place(request, key, body)) is not None


def _remember(place: Place, answer: Answer) -> None:
    kept = answer.body if answer.kept is None else answer.kept
    remember(place, status=answer.status, body=kept)


def _replayed(body: dict[str, Any], *, status: int) -> Response:
    response = Response(body, status=status)
    response["Idempotent-Replayed"] = "true"
    return response


def _response(answer: Answer) -> Response:
    return Response(answer.body, status=answer.status)


def _place(request: Request, key: str, body: dict[str, Any]) -> Place:
    caller = caller_of(request)
    return Place(
        scope=caller.tenant_id or PLATFORM,
        key_id=caller.key_id,
        key_hash=key_hash(key),
        fingerprint=fingerprint("POST", request.get_full_path(), body),
    )
