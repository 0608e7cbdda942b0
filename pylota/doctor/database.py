"""The database: is it there, is it the right one, does it keep our promises?"""

import time
from typing import Final

from core.clock import database_now
from core.database import fetch_one
from core.sealing import SealBroken
from domains.models import Domain
from domains.services import relay_of
from mailboxes.keyring_services import open_all_keys
from pylota import checks
from pylota.doctor.findings import Found, fail, number_of, ok
from webhooks.models import WebhookEndpoint
from webhooks.secrets import open_secrets

OLDEST: Final = 150_000
"""PostgreSQL 15, as the server numbers itself."""

MOST_SEALED: Final = 1000


def server() -> Found:
    """Ask the server who it is."""
    began = time.monotonic()
    row = fetch_one(
        "SELECT current_setting('server_version_num')::int,"
        " current_setting('server_version'), pg_is_in_recovery()"
    )
    assert row is not None  # noqa: S101  a SELECT without FROM has one row
    number, version, is_standby = row
    return judge_server(
        number, version, is_standby=is_standby, seconds=time.monotonic() - began
    )


def judge_server(
    number: int, version: str, *, is_standby: bool, seconds: float
) -> Found:
    """Say whether this server will do."""
    name = f"PostgreSQL {version.partition(' ')[0]}"
    if number < OLDEST:
        return fail(f"{name} is too old", then="upgrade it to PostgreSQL 15 or later")
    if is_standby:
        return fail(
            f"{name} is a standby, which nothing can be written to",
            then="let DATABASE_URL name the primary",
        )
    return ok(f"{name}, {seconds * 1000:.0f} ms")


def session() -> Found:
    """Read back the settings of a session that the promises need."""
    wrong = checks.wrong_session_settings()
    if wrong:
        return fail(
            ", ".join(f"{name} {what}" for name, what in wrong.items()),
            then="take the override out of DATABASE_URL",
        )
    return ok("READ COMMITTED, synchronous_commit on, lock and idle time-outs set")


def migrations() -> Found:
    """Compare the tables with the code."""
    due = checks.due_migrations()
    if due:
        return fail(
            f"{number_of(len(due), 'migration is', 'migrations are')} due,"
            f" {due[0]} first",
            then="python manage.py migrate",
        )
    return ok("none is due")


def credentials() -> Found:
    """Open what is sealed in the database with the keys that are set."""
    then = "set PM_MASTER_KEY or PM_MASTER_KEY_B to the key that sealed it"
    try:
        signing = number_of(open_all_keys(), "signing key")
    except SealBroken:
        return fail("the keys that sign tokens and links cannot be read", then=then)
    sealed = Domain.objects.exclude(smtp_sealed=None).order_by("id")[:MOST_SEALED]
    if broken := [domain.id for domain in sealed if not _opens(domain)]:
        return fail(
            f"the relay of {number_of(len(broken), 'domain')} cannot be read,"
            f" {broken[0]} first",
            then=then,
        )
    endpoints = WebhookEndpoint.objects.order_by("id")[:MOST_SEALED]
    if closed := [one.id for one in endpoints if not _signs(one)]:
        return fail(
            f"the secret of {number_of(len(closed), 'webhook')} cannot be read,"
            f" {closed[0]} first",
            then=then,
        )
    relays = number_of(len(sealed), "relay")
    return ok(
        f"{signing}, {relays} and {number_of(len(endpoints), 'webhook')} readable"
    )


def _signs(endpoint: WebhookEndpoint) -> bool:
    try:
        open_secrets(endpoint, now=database_now())
    except SealBroken:
        return False
    return True


def _opens(domain: Domain) -> bool:
    try:
        relay_of(domain)
    except SealBroken:
        return False
    return True
