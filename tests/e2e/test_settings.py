"""A wrong or missing variable stops the start, and names itself."""

import base64
import os
import subprocess
import sys
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


def start(folder: Path, **changed: str) -> str:
    """Load the settings in a process of its own; return what it said if it failed."""
    done = load(folder, "import pylota.settings", **changed)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def load(
    folder: Path, program: str, **changed: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process of its own, with a whole configuration."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PM_", "CELERY", "DATABASE", "DJANGO", "PYTEST"))
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**inherited, "PM_DATA_DIR": str(folder), **PRODUCTION, **changed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_rates_that_nobody_set_are_the_documented_ones(tmp_path: Path) -> None:
    rates = "PM_RATE_SENDS", "PM_RATE_PER_KEY", "PM_RATE_PER_TENANT"
    shown = "; ".join(f"print(pylota.settings.{name})" for name in rates)

    said = load(tmp_path, f"import pylota.settings; {shown}").stdout

    assert said.split() == ["120", "600", "1800"]


def test_a_whole_configuration_starts(tmp_path: Path) -> None:
    assert start(tmp_path) == ""


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
def test_what_production_needs_is_missed_by_name(tmp_path: Path, name: str) -> None:
    assert f"config_invalid: {name} is not set" in start(tmp_path, **{name: ""})


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
    tmp_path: Path, name: str, value: str
) -> None:
    said = start(tmp_path, **{name: value})

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
    tmp_path: Path, keys: dict[str, str], missing: str
) -> None:
    said = start(tmp_path, **{**keys, missing: ""})

    assert f"config_invalid: {missing} is not set, but PM_" in said
    assert "hush" not in said


@pytest.mark.parametrize("keys", [SES, CLOUDFLARE])
def test_a_whole_set_of_a_providers_keys_starts(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    assert start(tmp_path, **keys) == ""


def test_a_queue_without_its_account_stops_the_start(tmp_path: Path) -> None:
    said = start(tmp_path, PM_CF_QUEUE_ID="9f8e7d6c")

    assert "config_invalid: PM_CF_ACCOUNT_ID is not set, but PM_CF_QUEUE_ID" in said


def test_a_domain_without_a_relay_may_wait_for_another_transport(
    tmp_path: Path,
) -> None:
    assert start(tmp_path, PM_PLATFORM_TRANSPORT="", PM_PLATFORM_RELAY_URL="") == ""


def test_the_local_environment_needs_nothing_and_keeps_its_secrets(
    tmp_path: Path,
) -> None:
    nothing = dict.fromkeys(PRODUCTION, "")

    assert start(tmp_path, **{**nothing, "PM_ENV": "local"}) == ""
    secrets = tmp_path / "secrets.json"
    assert secrets.stat().st_mode & 0o077 == 0
    before = secrets.read_bytes()
    assert start(tmp_path, **{**nothing, "PM_ENV": "local"}) == ""
    assert secrets.read_bytes() == before
