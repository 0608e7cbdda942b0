"""What the doctor says of real brokers."""

from urllib.parse import urlsplit

import pytest
from pytest_django import Settings

from pylota.doctor import surroundings
from pylota.doctor.findings import Health
from tests.support.brokers import Broker

pytestmark = pytest.mark.brokers


def test_a_broker_that_answers_is_well(broker: Broker, settings: Settings) -> None:
    settings.CELERY_BROKER_URL = broker.url

    found = surroundings.broker()

    host, port = broker.address
    assert found.health == Health.OK
    assert found.detail == f"{broker.scheme}, {host}:{port}"


def test_a_log_in_that_is_refused_fails_without_the_password(
    broker: Broker, settings: Settings
) -> None:
    parts = urlsplit(broker.url)
    login = f"somebody:hush@{parts.hostname}:{parts.port}"
    settings.CELERY_BROKER_URL = parts._replace(netloc=login).geturl()

    found = surroundings.broker()

    assert found.health == Health.FAIL
    assert "gives no session" in found.detail
    assert "hush" not in str(found)
