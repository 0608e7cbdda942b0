"""A wrong or missing variable stops the start, and names itself."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def key(n: int) -> str:
    return base64.b64encode(bytes([n]) * 32).decode()


PRODUCTION = {
    "PM_ENV": "production",
    "PM_API_HOST": "api.example.com",
    "PM_PLATFORM_DOMAIN": "agents.example.com",
    "PM_PLATFORM_TRANSPORT": "smtp",
    "PM_PLATFORM_RELAY_URL": "smtps://user:hush@smtp.relay.com",
    "PM_KEY_PEPPER": key(1),
    "PM_HASH_KEY": key(2),
    "PM_MASTER_KEY": key(3),
    "PM_DJANGO_SECRET": key(4),
    "DATABASE_URL": "postgres://pylota:hush@db.example.com/pylota",
    "CELERY_BROKER_URL": "amqp://pylota:hush@rabbit.example.com//",
}


# forks itself for each line of variables, with all but the settings imported
LOADER = """
import json, os, sys
import core.sealing, dj_database_url, domains.relay, mailboxes.policy
import pylota.api.answer_headers, pylota.env, pylota.local, pylota.logs
for line in sys.stdin:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writing, 2)
        os.environ.clear()
        os.environ.update(json.loads(line))
        import pylota.settings
        sys.exit()
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    print(json.dumps([os.waitpid(child, 0)[1], said]), flush=True)
"""
Start = Callable[..., str]


def environment_of(folder: Path, changed: Mapping[str, str]) -> dict[str, str]:
    """Return a whole configuration, changed."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PM_", "CELERY", "DATABASE", "DJANGO", "PYTEST"))
    }
    return {**inherited, "PM_DATA_DIR": str(folder), **PRODUCTION, **changed}


@pytest.fixture(scope="module")
def loader() -> Iterator["subprocess.Popen[str]"]:
    """A process that loads the settings in forks of itself."""
    with subprocess.Popen(
        [sys.executable, "-c", LOADER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.fixture
def start(loader: "subprocess.Popen[str]", tmp_path: Path) -> Start:
    """Load the settings in a process of its own; give what it said if it failed."""

    def load(**changed: str) -> str:
        assert loader.stdin is not None
        assert loader.stdout is not None
        loader.stdin.write(json.dumps(environment_of(tmp_path, changed)) + "\n")
        loader.stdin.flush()
        status, said = json.loads(loader.stdout.readline())
        return "" if status == 0 else str(said).strip().splitlines()[-1]

    return load


def test_the_rates_that_nobody_set_are_the_documented_ones(tmp_path: Path) -> None:
    rates = "PM_RATE_SENDS", "PM_RATE_PER_KEY", "PM_RATE_PER_TENANT"
    shown = "; ".join(f"print(pylota.settings.{name})" for name in rates)

    said = subprocess.check_output(
        [sys.executable, "-c", f"import pylota.settings; {shown}"],
        cwd=ROOT,
        env=environment_of(tmp_path, {}),
        text=True,
    )

    assert said.split() == ["120", "600", "1800"]


def test_a_whole_configuration_starts(start: Start) -> None:
    assert start() == ""


@pytest.mark.parametrize(
    "name",
    [
        "PM_API_HOST",
        "PM_PLATFORM_DOMAIN",
        "PM_PLATFORM_RELAY_URL",
        "PM_KEY_PEPPER",
        "PM_HASH_KEY",
        "PM_MASTER_KEY",
        "PM_DJANGO_SECRET",
        "DATABASE_URL",
    ],
)
def test_what_production_needs_is_missed_by_name(start: Start, name: str) -> None:
    assert f"config_invalid: {name} is not set" in start(**{name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PM_ENV", "prod"),
        ("PM_PLATFORM_TRANSPORT", "sendmail"),
        ("PM_PLATFORM_RELAY_URL", "smtps://user:hush@127.0.0.1"),
        ("PM_DEFAULT_POLICY", "[]"),
        ("PM_BILLING", "on"),
        ("PM_MASTER_KEY", "short"),
        ("PM_MASTER_KEY_ACTIVE", "b"),
        ("PM_MASTER_KEY_B", key(3)),
        ("PM_CLAIM_SECONDS", "five"),
        ("PM_BACKOFF_SCALE", "0.01"),
        ("PM_WORKERS", "0"),
        ("DATABASE_URL", "sqlite:///x"),
        ("PM_API_HOST", "https://api.example.com"),
        ("PM_PLATFORM_DOMAIN", "agents"),
        ("PM_REDIS_URL", "http://:hush@redis.example.com"),
        ("CELERY_BROKER_URL", "sqs://u:hush@x"),
        ("PM_RELAY_CA_FILE", "/nowhere/ca.pem"),
        ("PM_DJANGO_SECRET", key(1)),
        ("PM_SES_REGION", "hush"),
        ("PM_SES_ACCESS_KEY_ID", "hu sh"),
        ("PM_SES_SECRET_ACCESS_KEY", "hush\thush"),
        ("PM_SES_SNS_TOPIC_ARN", "hush"),
        ("PM_SNS_CERT_DIR", "/nowhere/hush"),
        ("PM_SES_ENDPOINT_URL", "http://hush.example.com"),
        ("PM_CF_ACCOUNT_ID", "../zones"),
        ("PM_CF_API_TOKEN", "hush hush"),
        ("PM_CF_API_BASE", "http://api.cloudflare.com/client/v4"),
        ("PM_CF_JOURNAL", "often"),
        ("PM_CF_QUEUE_ID", "../hush"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_shown(
    start: Start, name: str, value: str
) -> None:
    said = start(**{name: value})

    assert f"config_invalid: {name}" in said
    assert "hush" not in said


SES = {
    "PM_SES_REGION": "eu-west-1",
    "PM_SES_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "PM_SES_SECRET_ACCESS_KEY": "hush/hush+hush",
}


CLOUDFLARE = {"PM_CF_ACCOUNT_ID": "0123-abc", "PM_CF_API_TOKEN": "hush/hush+hush"}


@pytest.mark.parametrize(
    ("keys", "missing"),
    [(keys, missing) for keys in (SES, CLOUDFLARE) for missing in keys],
)
def test_half_a_set_of_a_providers_keys_stops_the_start(
    start: Start, keys: dict[str, str], missing: str
) -> None:
    said = start(**{**keys, missing: ""})

    assert f"config_invalid: {missing} is not set, but PM_" in said
    assert "hush" not in said


@pytest.mark.parametrize("keys", [SES, CLOUDFLARE])
def test_a_whole_set_of_a_providers_keys_starts(
    start: Start, keys: dict[str, str]
) -> None:
    assert start(**keys) == ""


def test_a_queue_without_its_account_stops_the_start(start: Start) -> None:
    said = start(PM_CF_QUEUE_ID="9f8e7d6c")

    assert "config_invalid: PM_CF_ACCOUNT_ID is not set, but PM_CF_QUEUE_ID" in said


def test_a_domain_without_a_relay_may_wait_for_another_transport(
    start: Start,
) -> None:
    assert start(PM_PLATFORM_TRANSPORT="", PM_PLATFORM_RELAY_URL="") == ""


def test_the_local_environment_needs_nothing_and_keeps_its_secrets(
    start: Start, tmp_path: Path
) -> None:
    nothing = dict.fromkeys(PRODUCTION, "")

    assert start(**{**nothing, "PM_ENV": "local"}) == ""
    secrets = tmp_path / "secrets.json"
    assert secrets.stat().st_mode & 0o077 == 0
    before = secrets.read_bytes()
    assert start(**{**nothing, "PM_ENV": "local"}) == ""
    assert secrets.read_bytes() == before
