"""The client: one server, one API key, one pool of connections."""

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import httpx

from pylota_client.calls import Calls
from pylota_client.clock import Clock
from pylota_client.feed import Feed
from pylota_client.identity import Identity
from pylota_client.results import Event
from pylota_client.version import __version__

TIMEOUT = 40.0
"""Seconds for one attempt: a little more than the server takes at most."""

GIVE_UP_AFTER = 600.0
"""Seconds for one call with all its attempts."""

_API_KEY = re.compile(r"[\x21-\x7e]+")


class Client:
    """Speaks to one Pylota with one API key; threads may share it.

    ``base_url`` is the server's, without ``/v1``. ``timeout`` bounds each attempt and
    ``give_up_after`` a call with all its repetitions, in seconds. Use it as a context
    manager, or call ``close``.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = TIMEOUT,
        give_up_after: float = GIVE_UP_AFTER,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.base_url = _usable_url(base_url)
        self._http = httpx.Client(
            base_url=self.base_url,
            headers=_headers(api_key),
            transport=transport,
            follow_redirects=False,
        )
        self._calls = Calls(
            self._http,
            timeout=timeout,
            give_up_after=give_up_after,
            clock=clock or Clock(),
        )

    def __repr__(self) -> str:
        """Name the server, and not the key."""
        return f"Client({self.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def identity(self, identity_id: str) -> Identity:
        """Return one sender, to send from; asks the server nothing."""
        return Identity(self._calls, identity_id)

    def events(
        self,
        *,
        after_id: str | None = None,
        type: str | None = None,
        identity_id: str | None = None,
        message_id: str | None = None,
        every: float | None = None,
    ) -> Iterator[Event]:
        """Yield events, oldest first, after the event ``after_id``.

        Ends with what there is; with ``every`` it asks again after so many seconds, for
        ever. Keep the id of the last event that you have dealt with and resume after
        it. One that you had dealt with, and not kept, comes again with the same id.
        """
        filters = {"type": type, "identity_id": identity_id, "message_id": message_id}
        named = {name: value for name, value in filters.items() if value is not None}
        feed = Feed(self._calls, {**named, "limit": "100"})
        return (
            feed.read(after_id) if every is None else feed.follow(after_id, every=every)
        )


def _headers(api_key: str) -> dict[str, str]:
    if not _API_KEY.fullmatch(api_key):
        raise ValueError("an API key is printable ASCII, without spaces or line ends")
    return {
        "Authorization": f"Bearer {api_key}",
        "Accept": "application/json",
        "User-Agent": f"pylota-client/{__version__}",
    }


def _usable_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError("base_url is no URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("base_url starts with http:// or https:// and a host")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("base_url has no user, query or fragment")
    return str(url).rstrip("/")
