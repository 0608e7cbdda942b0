"""What an answer of Cloudflare means, and what only looks as if it meant it: pure."""

import json
from typing import Any

import pytest

from core.http_answer import Answer
from outbound.transports.base import (
    Accepted,
    RecipientSuppressed,
    Rejected,
    RetryLater,
    TransportResult,
    Unknown,
)
from outbound.transports.cloudflare_answers import CODES, SUFFIXES, result_of

PREFIX = "email.sending.error."
A = "a@example.net"


def meaning(
    message: object, *, code: object = 10000, status: int = 400
) -> TransportResult:
    """Return what one error means."""
    body = {"success": False, "errors": [{"code": code, "message": message}]}
    return _read(body, status)


def _read(body: object, status: int = 200) -> TransportResult:
    return result_of(Answer(status, json.dumps(body).encode()), hidden=[A])


# --- words that somebody else wrote --------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        f"{PREFIX}something_new: subject 'E_VALIDATION_ERROR' could not be stored",
        "lost the connection while storing 'E_RECIPIENT_NOT_ALLOWED'",
        f"{PREFIX}something_new while writing to jo@email.invalid",
        "the queue did not answer for jo@mail.forbidden",
        "internal trouble with mail to jo@suppress.example",
        "internal trouble with header X-Auto-Response-Suppress",
    ],
)
def test_an_unknown_error_that_repeats_our_words_stays_unknown(message: str) -> None:
    """A caller's subject, address or header must not make doubt definite."""
    assert isinstance(meaning(message), Unknown)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("E_HEADER_NOT_ALLOWED", "X-Auto-Response-Suppress is not allowed"),
        ("E_HEADER_VALUE_INVALID", "the value 'suppressed' of X-Group is not valid"),
        ("E_VALIDATION_ERROR", "X-Suppress-Footer: a value is too long"),
        ("E_DELIVERY_FAILED", "no route to jo@suppressed.example"),
        (10000, "E_HEADER_NOT_ALLOWED: X-Auto-Response-Suppress"),
    ],
)
def test_a_header_or_an_address_that_names_suppression_suppresses_nobody(
    code: object, message: str
) -> None:
    """Or a recipient who did nothing would get no mail any more."""
    assert isinstance(meaning(message, code=code), Rejected)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("E_RECIPIENT_SUPPRESSED", "no"),
        (10000, "E_RECIPIENT_SUPPRESSED: a@example.net"),
        (10204, f"{PREFIX}recipient_suppressed"),
        (10204, f"{A} is suppressed"),
        (10204, "Recipient is on the account's suppression list"),
        ("E_VALIDATION_ERROR", "a recipient is on the suppression list"),
    ],
)
def test_an_error_that_names_suppression_itself_is_about_the_recipients(
    code: object, message: str
) -> None:
    assert isinstance(meaning(message, code=code), RecipientSuppressed)


# --- the codes, wherever they stand --------------------------------------------------


@pytest.mark.parametrize("code", CODES)
def test_a_code_means_the_same_in_its_field_and_before_the_words(code: str) -> None:
    apart = meaning("what was wrong", code=code)

    for message in (code, f"{code}: what was wrong", f"{PREFIX}{code}"):
        assert type(meaning(message)) is type(apart)
    if not isinstance(apart, Unknown):
        found = meaning(code)
        assert not isinstance(found, Unknown | Accepted)
        assert found.code == code


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_suffix_means_the_same_with_any_prefix_and_number(suffix: str) -> None:
    kinds = {
        type(meaning(f"{prefix}{suffix}", code=number))
        for prefix in ("", PREFIX, "other.", "v2.email.sending.error.")
        for number in (10000, 10200, "10202", None)
    }

    assert len(kinds) == 1


# --- almost the documented shape -----------------------------------------------------

GOOD: dict[str, Any] = {"delivered": [A], "permanent_bounces": [], "queued": []}
DENIED = {"success": True, "errors": [{"code": 10002, "message": "internal_server"}]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**DENIED, "result": GOOD}, 200),
        ({"success": "true", "errors": [], "result": GOOD}, 200),
        ({"success": 1, "errors": [], "result": GOOD}, 200),
        ({"errors": [], "result": GOOD}, 200),
        ({"success": True, "errors": [], "result": None}, 200),
        ({"success": True, "errors": [], "result": [GOOD]}, 200),
        ({"success": True, "errors": [], "result": GOOD}, 400),
        ({"success": True, "errors": [], "result": GOOD}, 302),
        ({"success": True, "errors": [], "result": GOOD}, 101),
        ({"success": False, "errors": [], "result": GOOD}, 200),
        ({"success": False, "errors": {"code": "E_DELIVERY_FAILED"}}, 400),
        ({"success": False, "errors": ["", None]}, 400),
        ([{"success": True, "errors": [], "result": GOOD}], 200),
    ],
)
def test_what_is_almost_an_answer_is_none(body: object, status: int) -> None:
    assert isinstance(_read(body, status), Unknown)


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"null",
        b"\xff\xfe{",
        b'{"success": true, "errors": [], "result": {"queued": ["a@example.net"',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"success": false, "errors": [' + b"[" * 900 + b"]" * 900 + b"]}",
        b'{"success": true, "errors": [], "result": ' + b"1" * 5000 + b"}",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    ],
    ids=lambda octets: repr(octets[:12]),
)
def test_octets_that_are_no_answer_break_nothing(octets: bytes) -> None:
    assert isinstance(result_of(Answer(200, octets), hidden=[]), Unknown)


@pytest.mark.parametrize("bounced", [[A, A.upper(), A], [A, None, 7, {}, "z@x.test"]])
def test_whoever_else_is_named_and_however_often_changes_no_acceptance(
    bounced: object,
) -> None:
    found = _read({"success": True, "errors": [], "result": {**GOOD, "queued": "x"}})
    assert isinstance(found, Accepted)
    named = {**GOOD, "permanent_bounces": bounced, "suppressed_recipients": "a@x"}

    found = _read({"success": True, "errors": [], "result": named})

    assert isinstance(found, Accepted)
    assert A in found.bounced
    assert found.suppressed == ()


def test_two_definite_errors_are_definite_and_a_doubtful_third_is_not() -> None:
    invalid = {"code": 10001, "message": f"{PREFIX}invalid_request_schema"}
    throttled = {"code": 10004, "message": f"{PREFIX}throttled"}
    new = {"code": 1, "message": "new"}

    assert isinstance(
        _read({"success": False, "errors": [invalid, throttled]}), Rejected
    )
    assert isinstance(
        _read({"success": False, "errors": [throttled, invalid]}), RetryLater
    )
    assert isinstance(
        _read({"success": False, "errors": [invalid, throttled, new]}), Unknown
    )
