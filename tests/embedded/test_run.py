"""``python -m pylota.embedded run`` and what ``manage.py`` does before Django."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dj_database_url
import pytest

from pylota.embedded import defaults, processes
from pylota.embedded.accounts import server_account
from tests.support.embedded_place import PEOPLE, ROOT, Place

LAUNCH = [sys.executable, "-m", "pylota.embedded", "run"]


@pytest.fixture
def own(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The shared cluster of the person that runs the tests."""
    shared: Place = request.getfixturevalue("cluster_of")(PEOPLE[0])
    yield shared
    shared.end_processes()


def _environment(place: Place, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "PM_ENV")}
    return {**kept, "PM_DATA_DIR": str(place.data_dir), **more}


def _run(command: list[str], place: Place, **more: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(place, **more),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _is_idle(place: Place) -> bool:
    data = place.base / "data"
    return processes.processes_in(data, server_account(data)) == []


def test_a_command_gets_a_database_and_its_status_comes_back(own: Place) -> None:
    select = "import os, psycopg; c = psycopg.connect(os.environ['DATABASE_URL']);"
    select += "print(*c.execute('SELECT current_user').fetchone()); raise SystemExit(7)"

    status, output, _ = _run([*LAUNCH, "--", sys.executable, "-c", select], own)

    assert (status, output) == (7, "app\n")
    assert _is_idle(own)


def test_tests_get_a_cluster_of_their_own_without_fsync(own: Place) -> None:
    select = "import os, psycopg; c = psycopg.connect(os.environ['DATABASE_URL']);"
    select += "print(os.environ['DATABASE_URL'], *c.execute('SHOW fsync').fetchone())"

    status, output, _ = _run(
        [*LAUNCH, "--fast", "--", sys.executable, "-c", select], own
    )

    url, fsync = output.split()
    assert (status, fsync) == (0, "off")
    assert dj_database_url.parse(url)["HOST"] == str(
        own.data_dir / "postgres-test" / "run"
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_command_and_the_server_stops_after_it(
    own: Place, signum: signal.Signals
) -> None:
    # Given a command that tells what it got, and takes its time
    wait = (
        "import os, signal, sys\n"
        "def got(signum, frame):\n"
        "    os.write(1, b'%d\\n' % signum)\n"
        "    sys.exit(5)\n"
        f"signal.signal({int(signum)}, got)\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [*LAUNCH, "--", sys.executable, "-c", wait],
        cwd=ROOT,
        env=_environment(own),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"

        process.send_signal(signum)

        assert process.stdout.read() == f"{int(signum)}\n"
        assert process.wait() == 5
    assert _is_idle(own)


def test_a_command_killed_by_a_signal_gives_its_shell_status(own: Place) -> None:
    status, _, _ = _run([*LAUNCH, "--", "sh", "-c", "kill -KILL $$"], own)

    assert status == 128 + signal.SIGKILL


def test_a_database_of_ones_own_is_used_as_it_is(own: Place) -> None:
    status, output, _ = _run(
        [*LAUNCH, "--", "sh", "-c", "echo $DATABASE_URL"], own, DATABASE_URL="mine"
    )

    assert (status, output) == (0, "mine\n")


def test_a_command_that_is_not_there_is_named(own: Place) -> None:
    status, _, errors = _run([*LAUNCH, "--", "no-such-command"], own)

    assert (status, errors) == (
        127,
        "no-such-command was not found. Check the command after --.\n",
    )
    assert _is_idle(own)


def test_a_management_command_uses_the_embedded_server(own: Place) -> None:
    look = (
        "from django.db import connection as c; from pylota.embedded import defaults;"
        "c.ensure_connection();"
        "print(c.settings_dict['HOST'], defaults.current.was_running)"
    )
    manage = [sys.executable, "manage.py", "shell", "--no-imports", "-c", look]

    status, output, errors = _run(manage, own, PM_ENV="local")

    assert (status, errors) == (0, "")
    assert output == f"{own.base / 'run'} False\n"
    assert _is_idle(own)


def test_a_management_command_says_in_one_line_why_it_cannot(own: Place) -> None:
    status, output, errors = _run(
        [sys.executable, "manage.py", "migrate"],
        own,
        PM_ENV="local",
        PM_EMBEDDED_POSTGRES="no_such_package",
    )

    assert (status, output) == (1, "")
    assert errors.startswith("The package no_such_package is not installed.")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("migrate", {"PM_ENV": "production"}),
        ("migrate", {"PM_ENV": "local", "DATABASE_URL": "postgres://mine/db"}),
        ("help", {"PM_ENV": "local"}),
        ("collectstatic", {"PM_ENV": "local"}),
        ("migrate", {}),
        # a deployment that forgot PM_ENV does not become a local one
        ("up", {"PM_MASTER_KEY": "x"}),
        ("demo", {"PM_API_HOST": "mail.example"}),
    ],
)
def test_no_server_is_started_for(
    command: str,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _only(monkeypatch, tmp_path, environment)

    defaults.prepare(["manage.py", command])

    for name in ("PM_ENV", "DATABASE_URL"):
        assert os.environ[name] == environment.get(name, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["up", "demo"])
def test_without_any_setting_the_newcomers_commands_are_local(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _only(monkeypatch, tmp_path, {"DATABASE_URL": "postgres://mine/db"})

    defaults.prepare(["manage.py", command])

    assert os.environ["PM_ENV"] == "local"


def test_the_data_folder_is_the_projects_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PM_DATA_DIR", str(tmp_path / "named"))
    assert defaults.default_data_dir() == tmp_path / "named"

    monkeypatch.setenv("PM_DATA_DIR", "")
    monkeypatch.setattr(defaults, "ROOT", Path("/opt"))
    assert defaults.default_data_dir() == Path("/opt/var")


def _only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str]
) -> None:
    for name in ("PM_ENV", "DATABASE_URL", *defaults._DEPLOYED):
        monkeypatch.setenv(name, "")  # as good as unset, and restored whatever happens
    for name, value in {"PM_DATA_DIR": str(tmp_path), **environment}.items():
        monkeypatch.setenv(name, value)
