"""``manage.py`` tells an operator in one line what to set right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import load_command_class

from tests.e2e.test_settings import PRODUCTION, ROOT
from tests.support.processes import free_port


def manage(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run one command; return its status and what it wrote on both streams."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PM_", "CELERY", "DATABASE", "DJANGO", "PYTEST"))
    }
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**inherited, "PM_DATA_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["migrate", "provision", "createsuperuser"])
def test_with_nothing_set_it_says_how_to_run_on_ones_own_machine(
    tmp_path: Path, command: str
) -> None:
    status, output, errors = manage(tmp_path, command)

    assert (status, output) == (1, "")
    assert len(errors.splitlines()) == 1
    assert errors.startswith("config_invalid: PM_API_HOST is not set.")
    assert errors.endswith("On your own machine: PM_ENV=local.\n")


def test_a_deployment_that_lacks_one_setting_is_told_of_that_alone(
    tmp_path: Path,
) -> None:
    status, _, errors = manage(tmp_path, "migrate", **{**PRODUCTION, "PM_HASH_KEY": ""})

    assert status == 1
    assert errors == (
        "config_invalid: PM_HASH_KEY is not set. Set it; .env.example explains it.\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("migrate",),
        ("up", "--port", "0"),
        ("provision", "--tenant", "t1", "--mode", "live", "--identity", "bookings"),
    ],
)
def test_a_database_that_is_away_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    url = f"postgres://u:hush@127.0.0.1:{free_port()}/d"

    status, _, errors = manage(tmp_path, *arguments, PM_ENV="local", DATABASE_URL=url)

    assert status == 1
    assert len(errors.splitlines()) == 1
    assert errors.startswith("The database of DATABASE_URL fails: connection failed")
    assert "hush" not in errors


REFUSED = "argument --port: must be a number from 0 to 65535\n"


@pytest.mark.parametrize("command", ["up", "demo"])
@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], command: str, port: str
) -> None:
    found = load_command_class("pylota", command)
    vars(found)["_called_from_command_line"] = True
    parser = found.create_parser("manage.py", command)

    with pytest.raises(SystemExit) as ended:
        parser.parse_args([f"--port={port}"])

    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(REFUSED)


def test_a_port_that_is_none_starts_nothing(tmp_path: Path) -> None:
    database = "postgres://127.0.0.1:1/d"

    status, _, errors = manage(
        tmp_path, "up", "--port=-1", PM_ENV="local", DATABASE_URL=database
    )

    assert status == 2
    assert errors.endswith(REFUSED)
