"""Logs: a closed set of fields, words instead of sentences, places instead of texts."""

import json
import logging
import sys

import pytest
import structlog

from pylota.logs import ClosedFormatter, configure, keep_known_fields, place_of


def raised(message: str) -> ValueError:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_unknown_fields_and_sentences_are_dropped() -> None:
    kept = keep_known_fields(
        None,
        "info",
        {
            "event": "send.accepted",
            "message_id": "msg_1",
            "subject": "Hello",
            "detail": "A sentence, with jo@example.net",
        },
    )

    assert kept == {"event": "send.accepted", "message_id": "msg_1"}


def test_an_exception_is_told_by_its_class_and_place() -> None:
    error = raised("jo@example.net was refused")

    kept = keep_known_fields(None, "error", {"event": "x", "exc_info": error})

    assert kept["detail"] == place_of(error)
    assert kept["detail"].startswith("valueerror:test_logs.py:")


def test_what_a_library_logs_loses_its_words() -> None:
    error = raised("secret")
    record = logging.LogRecord(
        "django.request",
        logging.ERROR,
        "base.py",
        7,
        "Internal Server Error: /v1/x/%s",
        ("jo",),
        (ValueError, error, error.__traceback__),
    )

    line = ClosedFormatter().format(record)

    logged = json.loads(line)
    assert logged["event"] == "django.request"
    assert logged["detail"].startswith("valueerror:test_logs.py:")
    assert "secret" not in line
    assert "jo" not in line


def test_a_log_that_nobody_can_write_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = structlog.get_config()
    configure(env="local", version="1", level="info")
    full = open("/dev/full", "w")  # noqa: SIM115  its end fails, on purpose
    monkeypatch.setattr(sys, "stderr", full)

    try:
        for _ in range(3):
            structlog.get_logger().warning("dispatcher_failed")
    finally:
        structlog.configure(**before)
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()  # the stream is indeed one that fails
