"""What sending found out about a domain: noted, and checked at once."""

from datetime import datetime
from typing import Any

from django.db import transaction

from core.clock import database_now
from domains.models import Domain


@transaction.atomic(durable=True)
def note_issue(domain_id: str, code: str) -> None:
    """Note an issue that a transport call met, and make the domain's check due now.

    A transaction of its own, after the outcome's: a domain's row is never locked
    together with a mailbox's.
    """
    now = database_now()
    domain = Domain.objects.select_for_update(no_key=True).get(id=domain_id)
    others = [issue for issue in domain.issues if issue.get("code") != code]
    domain.issues = [*others, _issue(code, now)]
    domain.next_check_at = now
    domain.save(update_fields=["issues", "next_check_at"])


def _issue(code: str, now: datetime) -> dict[str, Any]:
    return {"code": code, "source": "transport", "seen_at": now.isoformat()}
