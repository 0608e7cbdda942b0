"""Buckets of rate limits (security, section 7), by the minute.

Windows are approximate: kept in this process, or shared through Redis. A Redis that is
away limits nobody.
"""

import functools
import math
import time
from typing import TYPE_CHECKING, Final

import structlog
from django.conf import settings

from core.errors import RateLimited
from core.sealing import keyed_hash

if TYPE_CHECKING:
    from limits.strategies import FixedWindowRateLimiter

PATIENCE: Final = 0.5
"""Seconds that a request waits for Redis before it is let through."""
FAILURES_PER_MINUTE: Final = 600
"""Refused keys that one client may show; more are answered 429."""


@functools.cache
def limiter() -> "FixedWindowRateLimiter":
    """Return this process's windows; made at the first call that counts.

    The library is loaded here: a tenth of the start of every other command.
    """
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter

    url, options = settings.PM_REDIS_URL or "memory://", {}
    if not url.startswith("memory"):
        options = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
    storage = storage_from_string(url, wrap_exceptions=True, **options)
    return FixedWindowRateLimiter(storage)


def count(bucket: str, *identifiers: str, per_minute: int) -> None:
    """Count one call in a bucket; raises RateLimited once the minute is full.

    A limit of 0 counts nothing.
    """
    if per_minute == 0:
        return
    from limits import RateLimitItemPerMinute
    from limits.errors import StorageError

    item = RateLimitItemPerMinute(per_minute)
    try:
        if limiter().hit(item, bucket, *identifiers):
            return
        reset = limiter().get_window_stats(item, bucket, *identifiers).reset_time
    except StorageError as error:
        structlog.get_logger().warning("throttle.storage_away", exc_info=error)
        return
    wait = max(1, math.ceil(reset - time.time()))
    raise RateLimited(
        f"More than {per_minute} in a minute.",
        details={"retry_after": wait, "bucket": bucket, "limit": per_minute},
    )


def count_failure(client: str) -> None:
    """Count a refused key against its client, who is known by a keyed hash alone."""
    pseudonym = keyed_hash(settings.PM_HASH_KEY, client)
    count("client", pseudonym, per_minute=FAILURES_PER_MINUTE)
