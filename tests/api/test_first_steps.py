"""The first steps of docs/api.md, run as they stand there."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.support.api import JSON, ApiClient

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def lines() -> list[tuple[str, str, str]]:
    """Return each line of curl: the variable that it sets, curl, the filter of jq."""
    return re.findall(
        r"^(?:(\w+)=\$\()?(curl .*?)(?: \| jq (?:-r )?([^)\n]*))?\)?$",
        PAGE.read_text(),
        re.MULTILINE,
    )


def run(line: str, known: dict[str, str]) -> Any:
    """Do what a line of curl does, with its variables filled in as a shell would."""
    line = re.sub(r"'\$(\w+)'|\$(\w+)", lambda m: known[m[1] or m[2]], line)
    words = shlex.split(line)[1:]
    method, path, body = "GET", "", b""
    headers = {}
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0).encode()
        elif word != "-sS":
            path = word
    return ApiClient("", "").request(
        method, path, data=body, content_type=JSON, headers=headers
    )


def test_the_first_steps_lead_to_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("provision", "--platform-key", "--json")
    known = {"PM": "", "PLATFORM": json.loads(capsys.readouterr().out)["api_key"]}
    *writes, (_, read, _) = lines()

    for name, line, shown in writes:
        answer = run(line, known)
        assert answer.status_code in (201, 202), answer.content
        if name:
            known[name] = answer.json()[shown.removeprefix(".")]

    assert {"TENANT", "KEY", "IDENTITY", "MESSAGE"} <= set(known)
    answer = run(read, known)
    assert [message["subject"] for message in answer.json()["data"]] == [
        "Re: Your booking",
        "Your booking",
    ]


def test_the_contents_name_every_section_in_its_order() -> None:
    page = PAGE.read_text()
    sections = re.findall(r"^## (.+)$", page, re.MULTILINE)

    named = re.findall(r"^- \[(.+)\]\(#(.+)\)$", page, re.MULTILINE)

    assert named == [(s, s.lower().replace(" ", "-")) for s in sections]
