"""Logs: a closed set of fields, words instead of sentences, places instead of texts."""

import json
import logging

from pylota.logs import ClosedFormatter, keep_known_fields, place_of


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
