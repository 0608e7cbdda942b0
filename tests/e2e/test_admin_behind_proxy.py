"""The admin's log-in in production, where a proxy ends TLS in front of the web."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from tests.e2e.test_settings import PRODUCTION
from tests.support.database import database_url
from tests.support.processes import Processes, Running

HOST = PRODUCTION["PM_API_HOST"]
PATH = "/admin/login/?next=/admin/"
PROXIED = {"Host": HOST, "X-Forwarded-Proto": "https"}


@pytest.fixture(scope="module")
def in_production(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A web that is configured as in production."""
    environment: dict[str, Any] = {
        **PRODUCTION,
        "DATABASE_URL": database_url(),
        "CELERY_BROKER_URL": "memory://",
    }
    group = Processes(tmp_path_factory.mktemp("production"))
    yield group.web(**environment)
    group.end_all()


@pytest.fixture
def production(
    transactional_db: None, in_production: Running
) -> Iterator[httpx.Client]:
    """Talk to a web in production like the proxy of docker/ does."""
    with httpx.Client(
        base_url=in_production.url, headers=PROXIED, timeout=30
    ) as client:
        yield client


def log_in(client: httpx.Client, *, origin: str) -> httpx.Response:
    """Fill in the form as a browser does that sees https://HOST."""
    page = client.get(PATH)
    form = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert form is not None, page.text
    token = page.headers["Set-Cookie"].split(";")[0]
    return client.post(
        PATH,
        data={"username": "op", "password": "s3cret", "csrfmiddlewaretoken": form[1]},
        headers={"Origin": origin, "Cookie": token},
    )


def test_a_log_in_over_https_behind_the_proxy_succeeds_with_secure_cookies(
    production: httpx.Client,
) -> None:
    User.objects.create_superuser("op", password="s3cret")

    answer = log_in(production, origin=f"https://{HOST}")

    assert (answer.status_code, answer.headers.get("Location")) == (302, "/admin/")
    cookies = answer.headers.get_list("Set-Cookie")
    assert {cookie.split("=")[0] for cookie in cookies} == {"csrftoken", "sessionid"}
    assert all("Secure" in cookie for cookie in cookies)


def test_a_log_in_from_another_origin_is_forbidden(production: httpx.Client) -> None:
    User.objects.create_superuser("op", password="s3cret")

    assert log_in(production, origin="https://evil.example").status_code == 403


def test_a_proxy_that_does_not_say_https_still_lets_the_operator_in(
    production: httpx.Client,
) -> None:
    User.objects.create_superuser("op", password="s3cret")
    del production.headers["X-Forwarded-Proto"]

    assert log_in(production, origin=f"https://{HOST}").status_code == 302
