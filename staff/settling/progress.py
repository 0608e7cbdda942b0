"""How far a settlement is, as its page shows it."""

from typing import Any, Final

from django.http import HttpRequest

from mailboxes.models import Message
from staff.models import Settlement
from staff.statuses import Duty, SettlementState

SHOWN: Final = 50
"""Sends of each kind that the end of a settlement names."""


def may_resolve(request: HttpRequest) -> bool:
    """Tell whether this person may settle uncertain sends."""
    return request.user.has_perm(Duty.RESOLVE.permission)


def progress(request: HttpRequest, settlement: Settlement) -> dict[str, Any]:
    """Return how far it is; once it is done, the sends to look at too."""
    looked_at = settlement.settled + len(settlement.overtaken + settlement.changed)
    is_done = settlement.state == SettlementState.DONE
    return {
        "settlement": settlement,
        "total": len(settlement.keys),
        "looked_at": looked_at,
        "is_done": is_done,
        "may_resolve": may_resolve(request),
        "overtaken": _named(settlement.overtaken) if is_done else (),
        "changed": _named(settlement.changed) if is_done else (),
        "settled": _named(_settled(settlement)) if is_done else (),
        "shown": SHOWN,
    }


def _settled(settlement: Settlement) -> list[int]:
    others = {*settlement.overtaken, *settlement.changed}
    return [key for key in settlement.keys if key not in others]


def _named(keys: list[int]) -> list[Message]:
    rows = Message.objects.filter(key__in=keys[:SHOWN]).order_by("key")
    return list(rows.only("key", "public_id", "status"))
