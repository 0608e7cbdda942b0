"""Logs: one JSON line an event, from a closed set of fields, never any content.

What is not in the set is dropped, whoever wrote it. Exceptions are told by their class
and place, never by their message, which may quote an address (security, section 6).
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO, cast

import structlog

FIELDS: Final = frozenset(
    [
        *("ts", "level", "event", "env", "version", "request_id", "tenant_id"),
        *("identity_id", "key_id", "route", "method", "status", "code", "queue"),
        *("attempt", "message_id", "domain_id", "event_id", "job_id", "address_ph"),
        *("transport", "provider_code", "smtp_code", "count", "bytes"),
        *("duration_ms", "detail"),
    ]
)
"""Every field that a line may have."""

WORD: Final = re.compile(r"[a-z0-9_.:-]{1,64}")
"""The form of ``event`` and ``detail``: words, not sentences."""

EventDict = MutableMapping[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def place_of(error: BaseException) -> str:
    """Return an exception's class and the line that raised it, as one word."""
    frames = traceback.extract_tb(error.__traceback__)
    module = frames[-1].filename.rpartition("/")[2] if frames else "unknown"
    line = frames[-1].lineno if frames else 0
    return f"{type(error).__name__}:{module}:{line}".lower()[:64]


def keep_known_fields(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Drop every field that is not in the closed set, and every sentence."""
    if (error := _exception_in(event)) is not None:
        event["detail"] = place_of(error)
    kept = {name: value for name, value in event.items() if name in FIELDS}
    for name in ("event", "detail"):
        if name in kept and WORD.fullmatch(str(kept[name])) is None:
            del kept[name]
    return kept


def configure(*, env: str, version: str, level: str) -> None:
    """Send structlog's lines to standard error, in the closed form."""

    def stamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"ts": now.replace("+00:00", "Z"), "env": env, "version": version} | {
            **event
        }

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            keep_known_fields,
            stamp,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_stderr_logger,
        cache_logger_on_first_use=False,
    )


class ClosedFormatter(logging.Formatter):
    """The same form for what libraries log: their name and place, not their words."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON line."""
        word = record.msg if isinstance(record.msg, str) else ""
        event: EventDict = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "event": word if WORD.fullmatch(word) else record.name.lower()[:64],
            "detail": f"{record.module}:{record.lineno}".lower(),
        }
        if record.exc_info:
            event["exc_info"] = record.exc_info
        context = structlog.contextvars.get_contextvars()
        return json.dumps(keep_known_fields(None, "", {**context, **event}))


class Unfailing:
    """Standard error, for whom a line lost is no error.

    A full disk or a reader that left would else end the thread that had something to
    say: the dispatcher, an alarm, or the record of a call.
    """

    def write(self, text: str) -> None:
        """Write it, or lose it."""
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            sys.stderr.write(text)

    def flush(self) -> None:
        """Flush what was written, or lose it."""
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def _stderr_logger(*_args: Any) -> structlog.WriteLogger:
    return structlog.WriteLogger(cast(TextIO, Unfailing()))


def _exception_in(event: EventDict) -> BaseException | None:
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    if isinstance(found, BaseException):
        return found
    if isinstance(found, tuple) and isinstance(found[1], BaseException):
        return found[1]
    return None
