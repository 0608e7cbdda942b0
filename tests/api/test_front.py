"""What a browser finds without a path, and under a name that is not ours."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.support.api import code_of

pytestmark = pytest.mark.django_db


def test_the_first_page_links_to_inbox_admin_and_description(client: Client) -> None:
    page = client.get("/")

    assert page.status_code == 200
    assert "default-src 'none'" in page["Content-Security-Policy"]
    for address in ("/local/inbox", "/admin/", "/openapi.json"):
        assert f'href="{address}"' in page.content.decode()
        assert client.get(address, follow=True).status_code == 200


def test_there_is_no_first_page_outside_the_local_environment(
    client: Client, settings: Settings
) -> None:
    settings.LOCAL = False

    answer = client.get("/")

    assert (answer.status_code, code_of(answer)) == (404, "route_not_found")


def test_the_admin_is_found_without_its_slash(client: Client) -> None:
    answer = client.get("/admin")

    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    assert client.post("/admin").status_code == 405


@pytest.mark.parametrize("path", ["/", "/health", "/v1/me", "/admin/", "/local/inbox"])
@pytest.mark.parametrize(
    "host", ["rebound.evil.example", "127.0.0.1.evil.example", "192.0.2.1:8000"]
)
def test_a_host_that_is_not_this_machine_is_told_so_in_the_envelope(
    client: Client, path: str, host: str
) -> None:
    answer: Any = client.get(path, headers={"Host": host})

    assert (answer.status_code, code_of(answer)) == (400, "invalid_request")
    error = answer.json()["error"]
    assert error["message"] == "The Host header is not PM_API_HOST."


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8080", "[::1]:8000"])
def test_the_names_of_this_machine_are_served_in_the_local_environment(
    client: Client, host: str
) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200
