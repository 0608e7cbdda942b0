"""One call: attempt, decide, wait and repeat, until it is answered or out of time."""

import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import httpx

from pylota_client.clock import Clock
from pylota_client.errors import error_of
from pylota_client.failures import NO_ANSWER, UNEXPECTED, Failure
from pylota_client.retries import (
    Json,
    failure_of,
    json_object,
    leaves_doubt,
    next_wait,
)

log = logging.getLogger("pylota_client")

T = TypeVar("T")

LEAST_TIMEOUT = 1.0
"""Seconds that even the last attempt before the end may take."""

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, the same however often it is made."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that only this call has."""
        found = {} if self.body is None else {"Content-Type": "application/json"}
        return found if self.key is None else {**found, "Idempotency-Key": self.key}


class _Missed(Exception):
    """One attempt brought no usable answer."""

    def __init__(self, failure: Failure, *, in_doubt: bool) -> None:
        super().__init__(failure)
        self.failure = failure
        self.in_doubt = in_doubt


class _Effort:
    """The attempts of one call so far, and the time that is left for more."""

    def __init__(self, call: Call, clock: Clock, *, seconds: float) -> None:
        self._call = call
        self._clock = clock
        self._started = clock.monotonic()
        self._seconds = seconds
        self._attempts = 0
        self._in_doubt = False

    @property
    def left(self) -> float:
        return self._seconds - self._took

    @property
    def _took(self) -> float:
        return self._clock.monotonic() - self._started

    def note(self, missed: _Missed) -> Failure:
        """Return the failure of the call if this attempt was its last."""
        self._attempts += 1
        self._in_doubt = self._in_doubt or missed.in_doubt
        return replace(
            missed.failure,
            attempts=self._attempts,
            seconds=self._took,
            idempotency_key=self._call.key,
            may_be_accepted=self._call.key is not None and self._in_doubt,
        )


class Calls:
    """Makes calls over one HTTP client; may be shared by threads."""

    def __init__(
        self, http: httpx.Client, *, timeout: float, give_up_after: float, clock: Clock
    ) -> None:
        self.clock = clock
        self._http = http
        self._timeout = timeout
        self._give_up_after = give_up_after

    def make(
        self, call: Call, read: Callable[[Json], T], *, within: float | None = None
    ) -> T:
        """Return what ``read`` makes of the answer, however often it takes to get one.

        ``within`` gives the call fewer seconds than the client would. Raises
        PylotaError.
        """
        seconds = self._give_up_after
        seconds = seconds if within is None else min(within, seconds)
        effort = _Effort(call, self.clock, seconds=seconds)
        while True:
            try:
                return self._attempt(call, read, left=effort.left)
            except _Missed as missed:
                failure, cause = effort.note(missed), missed.__cause__
            wait = next_wait(failure, spread=self.clock.spread())
            if wait is None:
                raise error_of(failure) from cause
            if wait > effort.left:
                raise error_of(replace(failure, gave_up=True)) from cause
            self._rest(call, failure, wait)

    def _rest(self, call: Call, failure: Failure, wait: float) -> None:
        log.warning(
            "attempt %d of %s %s failed (%s), again in %.1f s",
            *(failure.attempts, call.method, call.path, failure.code, wait),
        )
        self.clock.sleep(wait)

    def _attempt(self, call: Call, read: Callable[[Json], T], *, left: float) -> T:
        try:
            response = self._http.request(
                call.method,
                call.path,
                params=call.params,
                content=call.body,
                headers=call.headers,
                timeout=min(self._timeout, max(left, LEAST_TIMEOUT)),
            )
        except httpx.RequestError as error:
            unsent = isinstance(error, _NEVER_SENT)
            raise _Missed(_no_answer(error), in_doubt=not unsent) from error
        if not response.is_success:
            failure = failure_of(
                *(response.status_code, response.headers, response.content),
                now=self.clock.now(),
            )
            raise _Missed(failure, in_doubt=leaves_doubt(failure))
        return _read(response, read)


def _read(response: httpx.Response, read: Callable[[Json], T]) -> T:
    try:
        found = json_object(response.content)
        if found is None:
            raise ValueError("no JSON object")
        return read(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        failure = Failure(
            code=UNEXPECTED,
            message="The answer is not one of Pylota's.",
            fix="Check base_url, and what stands between here and there.",
            status=response.status_code,
            request_id=response.headers.get("Request-Id"),
        )
        raise _Missed(failure, in_doubt=True) from error


def _no_answer(error: httpx.RequestError) -> Failure:
    is_untrusted = _comes_from_certificate(error)
    return Failure(
        code=NO_ANSWER,
        message=f"No answer: {type(error).__name__}: {error}".rstrip(": "),
        fix="Trust the certificate's issuer, or correct base_url."
        if is_untrusted
        else "Check base_url, the network, and that the server runs.",
        retryable=not is_untrusted,
    )


def _comes_from_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
