"""Every cell of the table, through the database: what is written, told and charged."""

from itertools import permutations

import pytest
from django.db.models import QuerySet

from delivery.models import Delivery, ProviderEvent
from delivery.services import apply_event
from delivery.statuses import (
    ACCEPTED,
    RESULT_OF,
    TRANSITIONS,
    DeliveryKind,
    DeliveryStatus,
)
from mailboxes.models import Event, Identity, Message
from mailboxes.statuses import MessageStatus
from quota.services import settle
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.doubts import A, doubts, stored, told

pytestmark = pytest.mark.django_db

D, K = DeliveryStatus, DeliveryKind
CELLS = [
    (status, kind, hard)
    for status in D
    for kind in RESULT_OF
    for hard in ([True, False] if kind == K.BOUNCED else [False])
]
SAID = {"smtp_code": "250", "enhanced_code": "2.0.0", "smtp_response": "said"}
DETAILS = ("status", "bounce_type", *SAID)
TELLS = {K.DELIVERED, K.DEFERRED, K.BOUNCED, K.COMPLAINED}


def standing(message: Message, status: DeliveryStatus) -> None:
    """Let the only recipient stand so, as if something had been said before."""
    is_charged = status in ACCEPTED
    Delivery.objects.filter(message=message).update(
        status=status,
        smtp_code="451",
        smtp_response="before",
        charged_at=message.received_at if is_charged else None,
    )
    if is_charged:
        settle(message.tenant_id, ref="before", consume=1, is_first=True)
    named = {} if status == D.UNCERTAIN else {"provider_message_id": "p"}
    Message.objects.filter(pk=message.pk).update(status=status, **named)


def of_mail() -> QuerySet[Event]:
    """Return what was told of mail; so many complaints pause their sender as well."""
    return Event.objects.exclude(type="identity.paused").order_by("seq")


def test_every_cell_writes_tells_and_charges_what_the_page_says(
    identity: Identity,
) -> None:
    for message, (status, kind, hard) in zip(
        doubts(identity, len(CELLS)), CELLS, strict=True
    ):
        cell = f"{status} {kind} {hard}"
        standing(message, status)
        Suppression.objects.all().delete()
        before = of_mail().count()
        event = told(message, kind, hard=hard, tag=message.public_id, **SAID)

        assert apply_event(*stored(event)) == "applied", cell

        delivery = Delivery.objects.filter(message=message)
        row = delivery.values(*DETAILS, "charged_at", "provider_event_ids").get()
        kept = row.pop("provider_event_ids")
        is_charged = row.pop("charged_at") is not None
        message.refresh_from_db()
        new = of_mail()[before:]
        types = [one.type for one in new]
        after = TRANSITIONS.get((status, kind))
        assert kept == [event.event_id], cell
        assert is_charged == (status in ACCEPTED or after in ACCEPTED), cell
        if after is None:
            assert row == {
                "status": status,
                "bounce_type": None,
                "smtp_code": "451",
                "enhanced_code": None,
                "smtp_response": "before",
            }, cell
            assert types == [], cell
            assert not Suppression.objects.exists(), cell
            assert message.status == status, cell
            continue
        kind_of_bounce = ("hard" if hard else "soft") if kind == K.BOUNCED else None
        assert row == {"status": after, "bounce_type": kind_of_bounce, **SAID}, cell
        assert message.status == after, cell
        expected = ["message.reconciled"] if status == D.UNCERTAIN else []
        expected += ["message.sent"] if status == D.QUEUED and kind in TELLS else []
        expected += [f"message.{kind}"] if kind in TELLS else []
        if kind in (K.REJECTED, K.FAILED):
            expected += [f"message.{kind}"]
        if kind == K.COMPLAINED or hard:
            expected += ["suppression.created"]
            reason = "complaint" if kind == K.COMPLAINED else "hard_bounce"
            assert Suppression.objects.get().reason == reason, cell
        assert types == expected, cell
        assert [one.payload["sequence"] for one in new] == [one.seq for one in new]
    assert_units_add_up(message)


SAYINGS = [
    *((kind, False) for kind in (K.DEFERRED, K.DELIVERED, K.BOUNCED, K.REJECTED)),
    (K.COMPLAINED, False),
    (K.BOUNCED, True),
]
PAIRS = list(permutations(SAYINGS, 2))


def test_every_order_of_two_events_each_twice_is_applied_as_the_table_says(
    identity: Identity,
) -> None:
    """Row 19: the feed has each applied transition once."""
    messages = doubts(identity, len(PAIRS))
    for message, order in zip(messages, PAIRS, strict=True):
        expected = D.UNCERTAIN
        for n, (kind, hard) in enumerate(order):
            expected = TRANSITIONS.get((expected, kind), expected)
            id_ = message.public_id
            event = told(
                message, kind, hard=hard, event_id=f"{id_}:{n}", provider_message_id=id_
            )
            (row,) = stored(event)
            assert apply_event(row) == "applied"
            assert apply_event(row) is None
            assert stored(event) == [row]

        message.refresh_from_db()
        assert statuses(message) == {A: expected}, order
        assert message.status == MessageStatus(expected.value), order
        assert (message.flags, message.evidence) == (["reconciled"], "match")

    assert events_of(messages[0]).count("message.reconciled") == len(PAIRS)
    assert_units_add_up(messages[0])
    applied = ProviderEvent.objects.filter(state="applied").count()
    assert applied == ProviderEvent.objects.count()
