"""What time and domains do to addresses: they retire, and they become active."""

from typing import Final

from django.db import transaction

from core.clock import database_now
from core.sweeps import one_by_one
from mailboxes.address_rows import note, tell
from mailboxes.address_rules import SendingDomain
from mailboxes.models import Address
from mailboxes.services import lock_mailbox
from mailboxes.statuses import AddressStatus

SWEEP_BATCH: Final = 500


def retire_due() -> int:
    """Retire every address whose time has come; return how many."""
    due = Address.objects.filter(
        status=AddressStatus.RETIRING, retire_at__lte=database_now()
    )
    rows = list(
        due.order_by("retire_at").values_list("id", "identity_id")[:SWEEP_BATCH]
    )
    return one_by_one("address_retirement", rows, _retire_one)


@transaction.atomic(durable=True)
def _retire_one(row: tuple[str, str]) -> bool:
    address_id, identity_id = row
    lock_mailbox(identity_id)
    now = database_now()
    due = Address.objects.filter(
        id=address_id, status=AddressStatus.RETIRING, retire_at__lte=now
    )
    if not due.update(status=AddressStatus.RETIRED, retired_at=now):
        return False
    address = Address.objects.get(id=address_id)
    tell("address_retired", address, now=now)
    note("address.retire", address, None)
    return True


def activate_addresses(domain: SendingDomain) -> int:
    """Activate every address that was waiting for a domain; return how many.

    Joins the transaction that made the domain ready, and locks the mailboxes in the
    order of their ids.
    """
    waiting = Address.objects.filter(domain_id=domain.id, status=AddressStatus.PENDING)
    found = sorted(waiting.values_list("identity_id", "id"))
    activated = 0
    for identity_id, address_id in found:
        lock_mailbox(identity_id)
        now = database_now()
        if not waiting.filter(id=address_id).update(status=AddressStatus.ACTIVE):
            continue
        activated += 1
        tell("address_activated", Address.objects.get(id=address_id), now=now)
    return activated
