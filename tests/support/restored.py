"""A database that went back to T, while the objects stayed: fault 48."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction

from core.clock import database_now
from mailboxes.models import Message
from outbound.models import LedgerEntry
from tests.support.api import ApiClient, booking
from tests.support.invariants import NO_SUCH_ROWS

FILE = {
    "filename": "plan.txt",
    "content_type": "text/plain",
    "content_base64": base64.b64encode(b"first floor").decode(),
}


@dataclass
class Restore:
    """What was accepted after T, which the database has then forgotten."""

    api: ApiClient
    since: datetime
    requests: dict[str, Callable[[], Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def accept(self, key: str, request: Callable[[], Any]) -> str:
        answer = request()
        assert answer.status_code == 202, answer.content
        self.requests[key], self.answers[key] = request, answer.json()
        return str(answer.json()["id"])

    def rebuild(self) -> str:
        return rebuild(self.since)


def rebuild(since: datetime) -> str:
    """Run the command, and return what it says."""
    said = StringIO()
    call_command("rebuild_ledger", since=since.isoformat(), stdout=said)
    return said.getvalue()


def restored(api: ApiClient) -> Restore:
    """Accept a send, one with BCC and a file, and a reply; then go back to before.

    The rollback to a savepoint leaves every table as it was at T; objects stay.
    """
    known = api.send(booking(subject="Known"), key="before").json()["id"]
    scene = Restore(api, database_now())
    at_t = transaction.savepoint()
    scene.accept("plain", lambda: api.send(booking(), key="plain"))
    full = booking(cc=["al@example.net"], bcc=["boss@example.org"], attachments=[FILE])
    scene.accept("full", lambda: api.send(full, key="full"))
    scene.accept("reply", lambda: api.answer("reply", known, key="reply"))
    transaction.savepoint_rollback(at_t)
    assert Message.objects.count() == LedgerEntry.objects.count() == 1
    return scene


def assert_books_agree() -> None:
    with connection.cursor() as cursor:
        for what, statement in NO_SUCH_ROWS.items():
            cursor.execute(statement)
            assert cursor.fetchall() == [], what
