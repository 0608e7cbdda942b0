"""The object store: sent copies and attachments, each with its metadata.

Disk or S3 is a matter of settings (``STORAGES["objects"]``); callers see bytes, and two
things that can go wrong: ObjectStoreAway and ObjectMissing. No call takes longer than
10 s, whatever the disk does (architecture section 3, step 6).
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar, cast

from django.core.files.storage import storages

from core.disk import SIDECAR, DurableFileStorage
from core.errors import ObjectStoreAway
from core.patience import Impatient, TooSlow

__all__ = [
    "DurableFileStorage",
    "ObjectMissing",
    "ObjectStorage",
    "ObjectStoreAway",
    "delete",
    "exists",
    "get",
    "listing",
    "metadata",
    "put",
]

SECONDS = 10.0
"""How long a caller waits for the store, the wait for a free thread included."""
THREADS = 32
"""Calls that run at once; hung ones keep their thread, and the rest is refused."""

T = TypeVar("T")

_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_KEY = re.compile(rf"{_NAME}(?:/{_NAME})*")
_KEY_LIMIT = 500


class ObjectMissing(Exception):
    """There is no object under this key."""


class ObjectStorage(Protocol):
    """What a backend offers beside Django's Storage: bodies together with metadata.

    ``read`` and ``read_metadata`` raise FileNotFoundError; ``remove`` does not.
    """

    def write(self, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        """Store both so that they outlive a crash; the metadata first."""

    def read(self, key: str) -> bytes:
        """Return the body."""

    def read_metadata(self, key: str) -> dict[str, str]:
        """Return the metadata."""

    def remove(self, key: str) -> None:
        """Delete both; the body first."""

    def exists(self, name: str) -> bool:
        """Tell whether there is a body."""

    def listing(self, after: str, limit: int) -> list[tuple[str, datetime]]:
        """Return keys past ``after`` in a fixed order, and when each was stored."""


def put(key: str, body: bytes, *, metadata: Mapping[str, str]) -> None:
    """Store an object durably, in place of an earlier one. Raises ObjectStoreAway.

    After a failure the object may or may not be there: whoever gives up deletes it.
    """
    copied = dict(metadata)
    _run(key, lambda store: store.write(key, body, copied))


def get(key: str) -> bytes:
    """Return an object's bytes. Raises ObjectMissing, ObjectStoreAway."""
    return _found(key, lambda store: store.read(key))


def metadata(key: str) -> dict[str, str]:
    """Return an object's metadata. Raises ObjectMissing, ObjectStoreAway."""
    return _found(key, lambda store: store.read_metadata(key))


def delete(key: str) -> None:
    """Delete an object if it is there. Raises ObjectStoreAway."""
    _run(key, lambda store: store.remove(key))


def exists(key: str) -> bool:
    """Tell whether there is an object under this key. Raises ObjectStoreAway."""
    return _run(key, lambda store: store.exists(key))


def listing(*, after: str = "", limit: int) -> list[tuple[str, datetime]]:
    """Return up to ``limit`` keys past ``after``, and when each was stored.

    In an order that does not change while objects come and go: the last key is where
    the next call goes on. The instants are of the store's clock.
    Raises ObjectStoreAway.
    """
    return _call(lambda store: store.listing(after, limit))


_threads = Impatient("objects", threads=THREADS)


def _run(key: str, call: Callable[[ObjectStorage], T]) -> T:
    check_key(key)
    return _call(call)


def _call(call: Callable[[ObjectStorage], T]) -> T:
    store = cast(ObjectStorage, storages["objects"])
    try:
        return _threads.run(lambda: call(store), seconds=SECONDS)
    except TooSlow as error:
        raise ObjectStoreAway("the object store does not answer") from error
    except Exception as error:  # whatever a backend raises, it could not do it
        kind = type(error).__name__
        raise ObjectStoreAway(f"the object store failed ({kind})") from error


def _found(key: str, call: Callable[[ObjectStorage], T]) -> T:
    try:
        return _run(key, call)
    except ObjectStoreAway as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise ObjectMissing(key) from error
        raise


def check_key(key: str) -> None:
    """Refuse a key that could leave the store's root, or pose as a sidecar."""
    if not _KEY.fullmatch(key) or len(key) > _KEY_LIMIT or key.endswith(SIDECAR):
        raise ValueError("an object key is a relative path of plain names")
