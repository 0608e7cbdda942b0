"""What operations.md tells to do after a restore: nothing queued is sent again."""

import re
from pathlib import Path

import pytest

from core.database import execute
from delivery.models import OutboundState
from mailboxes.statuses import MessageStatus
from outbound.alarms import sweep_claims
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, statuses
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def test_what_stood_queued_in_a_backup_becomes_uncertain_and_is_not_sent(
    scripted: ScriptedTransport,
) -> None:
    # Given a message that stands queued in a backup, and the page's statement
    message = QueuedMessageFactory.create(recipients=("jo@example.net",))
    (statement,) = re.findall(r"```sql\n(.*?);\n +```", PAGE.read_text(), re.DOTALL)

    # When it is run before the workers start
    assert execute(statement, {}) == 1
    assert sweep_claims() == 1
    assert work(message.public_id, scripted) is None

    # Then nothing was sent, and a person is asked
    message.refresh_from_db()
    assert scripted.calls == []
    assert message.status == MessageStatus.UNCERTAIN
    assert statuses(message) == {"jo@example.net": "uncertain"}
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)
