"""``make setup``: refuses clearly, and does nothing when there is nothing to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A clone's set-up alone: its script, its lock, its Makefile."""
    for name in ("bin/setup", "requirements/dev.lock", "Makefile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def run(folder: Path, *command: str, **environment: str) -> tuple[int, str]:
    # a make that runs these tests must not make ours its child
    ours = {n: v for n, v in os.environ.items() if not n.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**ours, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_old_python_is_refused_with_what_to_do(fresh: Path) -> None:
    old = script(fresh / "python3.9", "exit 1")

    code, said = run(fresh, "bin/setup", PYTHON=old)

    assert code == 1
    assert "Python 3.11 or later is needed" in said
    assert "make setup PYTHON=" in said
    assert not (fresh / ".venv").exists()


def test_a_python_without_venv_is_refused_with_what_to_install(fresh: Path) -> None:
    bare = script(
        fresh / "python3",
        f'case "$2" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"',
    )

    code, said = run(fresh, "bin/setup", PYTHON=bare)

    assert code == 1
    assert "has no venv module" in said
    assert "python3-venv" in said


def test_the_second_time_it_does_nothing(fresh: Path) -> None:
    binaries = fresh / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    shutil.copy2(fresh / "requirements" / "dev.lock", fresh / ".venv/installed.lock")

    assert run(fresh, "make", "setup") == (0, "")


def test_a_failed_installation_says_so_and_is_not_taken_for_done(fresh: Path) -> None:
    lock = fresh / "requirements" / "dev.lock"
    lock.write_text("idna==0.0.1 --hash=sha256:" + "0" * 64 + "\n")

    code, said = run(fresh, "bin/setup", PYTHON=sys.executable, PIP_NO_INDEX="1")

    assert code == 1
    assert "the packages could not be installed" in said
    assert not (fresh / ".venv" / "installed.lock").exists()


def test_a_bare_make_lists_the_verbs(fresh: Path) -> None:
    code, said = run(fresh, "make")

    assert code == 0
    listed = {line.split()[1] for line in said.splitlines()}
    verbs = {"setup", "demo", "up", "test", "unit", "test-brokers", "check", "fmt"}
    assert listed >= verbs
