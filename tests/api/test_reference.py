"""The reference page: complete from this deployment alone."""

import re

from django.contrib.staticfiles import finders
from django.test import Client


def test_the_reference_is_served_without_a_key_and_without_another_host() -> None:
    page = Client().get("/docs")

    text = page.content.decode()
    assert page.status_code == 200
    assert 'data-description="/openapi.json"' in text
    assert not re.search(r"""(src|href|action)=["'](https?:)?//""", text)
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_every_file_of_the_reference_is_there() -> None:
    text = Client().get("/docs").content.decode()

    files = re.findall(r'(?:src|href)="/static/([^"]+)"', text)
    assert len(files) == 4
    assert [name for name in files if finders.find(name) is None] == []


def test_the_reference_is_only_read() -> None:
    refused = Client().post("/docs")

    assert refused.status_code == 405
