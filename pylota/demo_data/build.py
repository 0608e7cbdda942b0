"""Builds the whole in one transaction: read this first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import transaction

from core.database import execute
from core.sanitize import sanitize
from mailboxes.models import Message, Tenant
from pylota.demo_data.books import Books, analyze
from pylota.demo_data.calls import tell_calls
from pylota.demo_data.draw import Draw
from pylota.demo_data.hooks import tell_endpoints
from pylota.demo_data.mail import Writer
from pylota.demo_data.plan import plan
from pylota.demo_data.records import Records
from pylota.demo_data.rows import Rows, take_keys
from pylota.demo_data.said import Said
from pylota.demo_data.senders import make_senders
from pylota.demo_data.shapes import BODIES, MARK
from pylota.demo_data.told import Feed

CHUNK: Final = 5000
"""Messages that are written together, and after which progress is said."""

STRANGERS: Final = 14


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much there is to be, drawn from which seed, up to which instant."""

    messages: int
    uncertain: int
    seed: int
    now: datetime


def found() -> int | None:
    """Return how many messages an earlier run has left; None if there was none."""
    mark = Tenant.objects.filter(slug=MARK).first()
    if mark is None:
        return None
    return Message.objects.filter(tenant__slug__startswith="demo-").count()


@transaction.atomic(durable=True)
def build(
    wanted: Wanted, *, say: Callable[[int], None] = lambda done: None
) -> Mapping[str, int]:
    """Make the deployment, or nothing of it; return how many rows by table.

    ``say`` hears how many messages are done. Raises NotPossible. Only for the local
    environment, and a database in which no earlier run has left its tenants.
    """
    if not settings.LOCAL:
        raise RuntimeError("made-up data is for the local environment")
    execute("SET LOCAL statement_timeout = 0")
    execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    draw, rows = Draw(wanted.seed, now=wanted.now), Rows()
    senders = make_senders(draw)
    planned = plan(senders, draw, messages=wanted.messages, uncertain=wanted.uncertain)
    keys = take_keys("messages", "pk", len(planned))
    writer = Writer(
        draw,
        rows,
        pages=[sanitize(body).html for body in BODIES],
        threads=take_keys("threads", "pk", len(planned)),
    )
    feed, said = Feed(draw, rows), Said(draw, rows)
    books, records = Books(draw, rows), Records(draw, rows)
    for n, (one, key) in enumerate(zip(planned, keys, strict=True), start=1):
        letter = writer.begin(one, key)
        tell_calls(letter, draw, rows)
        said.tell(letter)
        feed.tell(letter)
        records.tell(letter)
        books.count(letter)
        writer.end(letter)
        if n % CHUNK == 0:
            feed.number(before=one.at)
            rows.write()
            say(n)
    said.strangers(senders[0].address, STRANGERS)
    feed.number()
    feed.close()
    books.close(senders)
    records.close()
    tell_endpoints(list(feed.recent), draw, rows)
    rows.write()
    analyze()
    return rows.written
