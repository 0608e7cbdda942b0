"""What an operator and a domain are told of calls, and when that is over.

Told in transactions of their own, after the outcome's: neither an alert nor a domain's
row is locked together with a mailbox's. What ends an alert is mail that goes out again.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from django.db import transaction

from core.clock import database_now
from domains.issues import note_issue
from mailboxes.models import Message
from mailboxes.services import raise_alert, resolve_alerts
from mailboxes.statuses import Provider, Severity
from outbound.senders import HELD_BACK_FOR
from outbound.transports.base import (
    Accepted,
    Rejected,
    RetryLater,
    TransportResult,
)

ACCOUNTS: Final = frozenset({Provider.CLOUDFLARE, Provider.SES})
"""Providers whose one account carries everybody's mail."""

PASSING: Final = ("provider_quota", "ses_sending_paused", "cloudflare_sending_paused")
"""Alerts of an account that are over when it takes mail again."""

STUCK: Final = ("sent_copy_missing", "claim_failed")
"""Alerts of a message that cannot be sent until somebody mends something."""


def told_by(
    result: TransportResult, *, provider: Provider, domain_id: str
) -> Iterator[Callable[[], None]]:
    """Return what a recorded call says of domain and provider: each a transaction."""
    if isinstance(result, Rejected) and result.issue is not None:
        yield partial(note_issue, domain_id, result.issue)
    if isinstance(result, Rejected | RetryLater) and result.alert is not None:
        yield partial(_alert, provider, result.alert, code=result.code)
    if isinstance(result, Accepted) and provider in ACCOUNTS:
        yield partial(_end_alerts, provider)


@transaction.atomic(durable=True)
def _alert(provider: Provider, alert: str, *, code: str) -> None:
    """Alert that a provider refuses what no caller can mend."""
    raise_alert(
        alert, subject=str(provider), severity=Severity.PAGE, details={"code": code}
    )


def _end_alerts(provider: Provider) -> None:
    """End what a provider said of its account, if it has not said so for a while.

    Not at once: a quota lets some mail through, and would alert anew each time.
    """
    quiet_since = database_now() - HELD_BACK_FOR
    resolve_alerts(*PASSING, subject=str(provider), quiet_since=quiet_since)


@transaction.atomic(durable=True)
def report_stuck(message_id: str, alert: str) -> None:
    """Alert that a queued message cannot be sent until somebody mends something."""
    raise_alert(alert, subject=message_id, severity=Severity.PAGE)


def end_wait(message: Message, *, domain_id: str) -> None:
    """End what kept a message waiting, now that it is claimed for a call.

    Joins the caller's transaction.
    """
    resolve_alerts(*STUCK, subject=message.public_id)
    resolve_alerts("relay_credentials_unreadable", subject=domain_id)
