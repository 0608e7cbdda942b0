"""A transport that this deployment cannot use: mail waits for it, and none is lost."""

import pytest

from delivery.models import Attempt, OutboundState
from mailboxes.statuses import MessageStatus, TenantMode
from outbound import claims
from outbound.ways import WAYS
from tests.support.queued import queued_for

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("transport", list(WAYS))
def test_mail_for_a_transport_that_is_not_configured_waits_unclaimed(
    transport: str,
) -> None:
    message = queued_for(transport)

    assert claims.claim(message.public_id) is None

    message.refresh_from_db()
    assert message.status == MessageStatus.QUEUED
    assert Attempt.objects.count() == 0
    row = OutboundState.objects.get()
    assert row.backoff_n == 1
    assert row.retry_at is not None


@pytest.mark.parametrize("transport", list(WAYS))
def test_a_test_tenants_mail_leaves_by_no_real_transport(transport: str) -> None:
    message = queued_for(transport)
    message.tenant.mode = TenantMode.TEST
    message.tenant.save()

    claim = claims.claim(message.public_id)

    assert claim is not None
    assert claim.provider == "loopback"
