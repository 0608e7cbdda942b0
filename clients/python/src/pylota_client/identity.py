"""One sender: its sends, its answers, and what became of them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, Unpack
from uuid import uuid4

from pylota_client.bodies import (
    ForwardFields,
    Recipients,
    ReplyFields,
    SendFields,
    encode,
    usable_id,
    usable_key,
)
from pylota_client.calls import Call, Calls
from pylota_client.errors import PylotaError, WaitTimedOut
from pylota_client.failures import Failure
from pylota_client.messages import SETTLED, Message
from pylota_client.results import Accepted, DryRun

R_co = TypeVar("R_co", covariant=True)

FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.2, 5.0, 1.5
"""Seconds between two looks at a message, and how they grow."""


class _Post(Protocol[R_co]):
    def __call__(self, path: str, body: bytes, key: str | None) -> R_co: ...


class Sends(Generic[R_co]):
    """The four ways to send.

    Each takes ``text``, ``html``, ``attachments``, ``from_address``, ``labels``,
    ``headers`` and ``metadata``; a send and a reply also ``kind``, ``unsubscribe`` and
    ``consent``; a send and a forward also ``cc`` and ``bcc``. Raises PylotaError, and
    TypeError or ValueError for what cannot be a request at all.

    Give an ``idempotency_key`` of your own, one for each message that you mean to send,
    and a repetition is safe even after a crash of your program. Without one a key is
    made, which covers the repetitions within the call; results and errors carry it.
    """

    def __init__(self, identity_id: str, post: _Post[R_co]) -> None:
        self._messages = f"/v1/identities/{usable_id(identity_id)}/messages"
        self._post = post

    def send(
        self,
        *,
        to: Recipients,
        subject: str,
        idempotency_key: str | None = None,
        **fields: Unpack[SendFields],
    ) -> R_co:
        """Send a new message; ``thread_id`` puts it into a thread."""
        body = {"to": to, "subject": subject, **fields}
        return self._post(self._messages, encode(body), idempotency_key)

    def reply(
        self,
        message_id: str,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[ReplyFields],
    ) -> R_co:
        """Answer who wrote a message."""
        return self._answer(message_id, "reply", idempotency_key, fields)

    def reply_all(
        self,
        message_id: str,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[ReplyFields],
    ) -> R_co:
        """Answer all who can see each other in a message."""
        return self._answer(message_id, "reply-all", idempotency_key, fields)

    def forward(
        self,
        message_id: str,
        *,
        to: Recipients,
        idempotency_key: str | None = None,
        **fields: Unpack[ForwardFields],
    ) -> R_co:
        """Pass a message on, with its files unless ``include_attachments=False``."""
        body = {"to": to, **fields}
        return self._answer(message_id, "forward", idempotency_key, body)

    def _answer(
        self, message_id: str, verb: str, key: str | None, fields: Mapping[str, Any]
    ) -> R_co:
        path = f"{self._messages}/{usable_id(message_id)}/{verb}"
        return self._post(path, encode(fields), key)


class Identity(Sends[Accepted]):
    """One sender. Made by ``Client.identity``; ``dry_run`` sends nothing."""

    def __init__(self, calls: Calls, identity_id: str) -> None:
        super().__init__(identity_id, self._accept)
        self.id = identity_id
        self._calls = calls
        self.dry_run: Sends[DryRun] = Sends(identity_id, self._try)

    def __repr__(self) -> str:
        """Name the sender."""
        return f"Identity({self.id!r})"

    def get(self, message_id: str) -> Message:
        """Return a message as it is now."""
        return self._get(message_id, within=None)

    def wait(
        self,
        message_id: str,
        *,
        timeout: float = 60.0,
        until: Collection[str] = SETTLED,
    ) -> Message:
        """Return a message once its status is in ``until``: final, or uncertain.

        A relay reports nothing after ``submitted``: for mail that leaves by one, wait
        with ``until=SENT``. Raises WaitTimedOut after ``timeout`` seconds.
        """
        clock = self._calls.clock
        end = clock.monotonic() + timeout
        last: Message | None = None
        for pause in _pauses():
            try:
                last = self._get(message_id, within=max(0, end - clock.monotonic()))
            except PylotaError as error:
                if not error.gave_up:
                    raise
                raise _timed_out(message_id, last, timeout) from error
            if last.status in until:
                return last
            if (left := end - clock.monotonic()) <= 0:
                break
            clock.sleep(min(pause, left))
        raise _timed_out(message_id, last, timeout)

    def _get(self, message_id: str, *, within: float | None) -> Message:
        path = f"{self._messages}/{usable_id(message_id)}"
        return self._calls.make(Call("GET", path), Message.read, within=within)

    def _accept(self, path: str, body: bytes, key: str | None) -> Accepted:
        chosen = str(uuid4()) if key is None else usable_key(key)
        return self._calls.make(
            Call("POST", path, body=body, key=chosen),
            lambda raw: Accepted.read(raw, idempotency_key=chosen),
        )

    def _try(self, path: str, body: bytes, key: str | None) -> DryRun:
        # the API neither looks a key up here nor stores it
        del key
        call = Call("POST", path, params={"dry_run": "true"}, body=body)
        return self._calls.make(call, DryRun.read)


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * GROWTH, LONGEST_PAUSE)


def _timed_out(message_id: str, last: Message | None, timeout: float) -> WaitTimedOut:
    status = "not known" if last is None else last.status
    fix = "Nothing is lost: read it later with get()."
    if status == "submitted":
        fix += " A relay reports nothing more; wait(until=SENT) ends here."
    return WaitTimedOut(
        Failure(
            code="wait_timed_out",
            message=f"After {timeout:g} s the status of {message_id} is {status}.",
            fix=fix,
            retryable=True,
        ),
        last,
    )
