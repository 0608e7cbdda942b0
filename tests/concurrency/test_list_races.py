"""Entries of send lists, put and taken off by many at once."""

from contextlib import suppress

import pytest

from core.errors import ListEntryNotFound
from mailboxes.models import AuditRow
from suppressions.list_services import SendList, put_entry, remove_entry
from suppressions.models import SendListEntry
from suppressions.statuses import ListDirection, ListKind
from tests.factories import TenantFactory
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)

ENTRY = "@example.net"
KEY = "key_" + "0" * 26


def test_an_entry_that_is_put_and_taken_off_at_once_is_never_an_error(
    racers: Racers,
) -> None:
    """Twenty rounds of five who put it and three who take it off, five times each."""
    place = SendList(TenantFactory.create().id, ListDirection.SEND, ListKind.BLOCK)

    def put() -> None:
        for _ in range(5):
            put_entry(place, ENTRY, note=None, actor_key_id=KEY)

    def remove() -> None:
        for _ in range(5):
            with suppress(ListEntryNotFound):
                remove_entry(place, ENTRY, actor_key_id=KEY)

    for _ in range(20):
        got = racers.at_once([*[put] * 5, *[remove] * 3])

        assert [one for one in got if one is not None] == []
    assert SendListEntry.objects.count() <= 1
    assert AuditRow.objects.filter(action="list_entry.put").count() == 20 * 25
