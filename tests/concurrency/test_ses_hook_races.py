"""One notification posted twice at the same moment: both get 200, one is stored."""

from functools import partial
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from delivery.models import ProviderEvent, ReceivedBody
from tests.support.racers import Racers
from tests.support.sns import (
    FILE,
    TOPIC,
    Publisher,
    certificate_pem,
    delivery,
    post,
    rsa_key,
    ses_event,
)

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 100


def test_the_same_notification_at_once_is_stored_once(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(certificate_pem(rsa_key()))
    settings.PM_SNS_CERT_DIR = str(tmp_path)
    settings.PM_SES_SNS_TOPIC_ARN = TOPIC
    publisher = Publisher()
    recipients = ("a@example.net", "b@example.net")
    racers = Racers(2)
    try:
        for _ in range(ROUNDS):
            event = ses_event("Delivery", **delivery(*recipients))
            told = publisher.notification(event)
            posted = [partial(post, Client(), told) for _ in range(2)]
            answers = racers.at_once(posted)
            assert [getattr(a, "status_code", a) for a in answers] == [200] * 2
    finally:
        racers.close()

    assert ReceivedBody.objects.count() == ROUNDS
    assert ProviderEvent.objects.count() == ROUNDS * len(recipients)
