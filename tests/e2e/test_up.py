"""``manage.py up`` serves: what it says, who comes beside it, who is started again."""

import os
import re
import signal
import sys

import httpx
import pytest

from tests.support.processes import ROOT, Processes, health, until
from tests.support.up import Up

AGAIN = "ended (SIGKILL); starting it again"
STRAY = ("http.py", "celery.py", "queue.py")


@pytest.fixture(scope="module")
def up(company: Processes) -> Up:
    """One that serves for all tests here, in a folder with stray modules."""
    for name in STRAY:
        (company.folder / name).write_text("raise SystemExit('a stray module')")
    found = Up(company)
    found.wait_until_it_serves()
    return found


def test_it_serves_and_says_what_is_ready_and_how_long_each_took(up: Up) -> None:
    url = up.wait_until_it_serves()

    assert health(url) == 200
    assert re.search(r"^local environment: ", up.output, re.MULTILINE)
    for name in ("PostgreSQL", "migrations", "web, worker, beat"):
        assert re.search(rf"^{name} +ready  \d+\.\d s", up.output, re.MULTILINE)


def test_the_next_step_that_it_prints_makes_a_key_that_works(
    up: Up,
) -> None:
    url = up.wait_until_it_serves()
    found = re.search(r"^next    (.*)$", up.output, re.MULTILINE)
    assert found is not None, up.output

    made = up.processes.run(
        "next", ["sh", "-c", found[1]], {"PM_DATA_DIR": up.processes.folder / "data"}
    )

    assert made.process.wait(timeout=30) == 0, made.output
    key = re.search(r"^api_key +(\S+)$", made.output, re.MULTILINE)
    assert key is not None, made.output
    me = httpx.get(f"{url}/v1/me", headers={"Authorization": f"Bearer {key[1]}"})
    assert me.status_code == 200


def test_a_second_one_in_the_same_folder_names_the_first_and_goes(
    up: Up,
) -> None:
    url = up.wait_until_it_serves()

    for command in ("up", "demo"):
        second = up.processes.run(
            command,
            [sys.executable, str(ROOT / "manage.py"), command],
            {"PM_DATA_DIR": up.processes.folder / "data"},
        )

        assert second.process.wait(timeout=30) == 1
        assert second.output.splitlines() == [
            f"CommandError: Pylota already runs here (pid {up.running.pid}, {url}). "
            "Stop it, or set PM_DATA_DIR."
        ]
    assert health(url) == 200


def test_a_port_in_use_stops_the_start_and_says_what_to_do(
    up: Up,
) -> None:
    port = up.wait_until_it_serves().rpartition(":")[2]

    second = up.processes.run(
        "second",
        [sys.executable, str(ROOT / "manage.py"), "up", "--port", port],
        {},
    )

    until(lambda: not second.is_alive, what="the end of the second start")
    assert second.process.returncode == 1
    assert f"port {port} on 127.0.0.1 cannot be used" in second.output


@pytest.mark.parametrize("words", ["-m granian", "-m celery"])
def test_a_child_that_is_killed_is_started_again_and_serves(up: Up, words: str) -> None:
    # Given a running child that is killed
    url = up.wait_until_it_serves()
    first, said = up.member(words), up.output.count(AGAIN)
    os.kill(first, signal.SIGKILL)

    # Then a line says so, and another one takes its place
    until(lambda: up.output.count(AGAIN) > said, what="the line")
    until(
        lambda: any(
            words in command and pid != first for pid, command in up.members().items()
        ),
        what="the second start",
    )
    until(lambda: health(url) == 200, what="an answer")


def test_a_stray_module_in_the_working_folder_harms_nobody(up: Up) -> None:
    assert {file.name for file in up.processes.folder.iterdir()} >= {*STRAY}

    assert health(up.wait_until_it_serves()) == 200
