"""What is forgotten: keys whose time has ended, unless their send is still open."""

from datetime import timedelta

import pytest

from core.clock import database_now
from core.ids import new_id
from mailboxes.statuses import OUTBOUND_STATUSES, MessageStatus, Operation
from outbound import purge
from outbound.models import LedgerEntry
from tests.factories import QueuedMessageFactory, key_hash_of

pytestmark = pytest.mark.django_db


def remembered(
    key: str,
    *,
    days: float | None,
    status: str = "submitted",
    deliveries: tuple[str, ...] = ("submitted",),
) -> str:
    """Write a ledger row that ends in so many days, with its message; return its id.

    The message has one recipient for each status of ``deliveries``.
    """
    people = [f"r{n}@example.net" for n in range(len(deliveries))]
    message = QueuedMessageFactory.create(status=status, recipients=people)
    for address, delivery_status in zip(people, deliveries, strict=True):
        message.deliveries.filter(address=address).update(status=delivery_status)
    ends = None if days is None else database_now() + timedelta(days=days)
    LedgerEntry.objects.create(
        identity_id=message.identity_id,
        key_hash=key_hash_of(key),
        tenant_id=message.tenant_id,
        fingerprint=key_hash_of("body"),
        operation=Operation.SEND,
        message_id=message.public_id,
        response={},
        expires_at=ends,
    )
    return message.public_id


def left() -> set[str]:
    return set(LedgerEntry.objects.values_list("message_id", flat=True))


def test_only_what_has_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given rows that have ended, one that has not, and one that never ends
    monkeypatch.setattr(purge, "BATCH", 2)
    for n in range(5):
        remembered(f"old-{n}", days=-1)
    kept = {remembered("young", days=1), remembered("for ever", days=None)}

    # When they are purged in batches of two, then the others stay
    assert purge.purge_ledger() == 5
    assert left() == kept


@pytest.mark.parametrize("status", sorted(OUTBOUND_STATUSES))
def test_a_key_whose_message_is_open_is_not_forgotten(status: str) -> None:
    message_id = remembered("old", days=-1, status=status)

    purge.purge_ledger()

    is_open = status in {MessageStatus.QUEUED, MessageStatus.UNCERTAIN}
    assert left() == ({message_id} if is_open else set())


@pytest.mark.parametrize("still_open", ["queued", "uncertain"])
def test_a_key_is_kept_while_the_end_is_unknown_for_one_recipient(
    still_open: str,
) -> None:
    # Given a message that one recipient's relay took, and another's perhaps
    message_id = remembered("old", days=-1, deliveries=("submitted", still_open))

    assert purge.purge_ledger() == 0
    assert left() == {message_id}


def test_a_canceled_message_holds_no_key_although_its_deliveries_stay_queued() -> None:
    remembered("old", days=-1, status="canceled", deliveries=("queued",))

    assert purge.purge_ledger() == 1


def test_a_key_whose_message_was_deleted_ends_like_any_other() -> None:
    remembered("old", days=-1)
    LedgerEntry.objects.update(message_id=new_id("msg"))

    assert purge.purge_ledger() == 1
