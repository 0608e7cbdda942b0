"""What operations.md tells to do after a restore: nothing queued is sent again."""

import re
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.statuses import MessageStatus
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


@pytest.mark.parametrize("is_claimed", [False, True])
def test_what_stood_queued_in_a_backup_becomes_uncertain_and_is_not_sent(
    scripted: ScriptedTransport, *, is_claimed: bool
) -> None:
    # Given a message that stands queued in a backup, claimed or not
    message = QueuedMessageFactory.create(recipients=("jo@example.net",))
    if is_claimed:
        OutboundState.objects.update(
            dispatch_at=None,
            claim_token="0f" * 16,
            claimed_at=database_now() - timedelta(seconds=1),
        )

    # When the page's command is run before the workers start
    command, flag = re.findall(r"manage\.py (rebuild_ledger) (--since) ", _section())[0]
    said = StringIO()
    since: datetime = database_now()
    call_command(command, f"{flag}={since.isoformat()}", stdout=said)
    assert "1 queued made uncertain" in said.getvalue()
    assert work(message.public_id, scripted) is None

    # Then nothing was sent, and a person is asked
    message.refresh_from_db()
    assert scripted.calls == []
    assert message.status == MessageStatus.UNCERTAIN
    assert statuses(message) == {"jo@example.net": "uncertain"}
    assert events_of(message) == ["message.uncertain"]
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


def _section() -> str:
    _, _, rest = PAGE.read_text().partition("## Backup and restore\n")
    return rest.partition("\n## ")[0]
