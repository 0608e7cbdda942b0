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
    old = script(
        fresh / "python3.9", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1'
    )

    code, said = run(fresh, "bin/setup", PYTHON=old)

    assert code == 1
    assert f"Python 3.11 or later is needed; {old} is: Python 3.9.2." in said
    assert "make setup PYTHON=" in said
    assert not (fresh / ".venv").exists()


def test_a_python_that_is_not_there_is_named(fresh: Path) -> None:
    code, said = run(fresh, "bin/setup", PYTHON="/nowhere/python3")

    assert code == 1
    assert "/nowhere/python3 is: nothing that runs" in said


def test_every_package_counts_on_the_way_wherever_it_comes_from(fresh: Path) -> None:
    # Given a pip that fetches 30 packages and finds 20 in a folder
    lines = [f"Collecting a{n}==1.0 (from -r x)" for n in range(30)]
    lines += [f"Processing /p/b{n}-1.0-py3-none-any.whl" for n in range(20)]
    lock = [f"c{n}==1.0" for n in range(50)]
    (fresh / "requirements" / "dev.lock").write_text("\n".join(lock) + "\n")
    (fresh / "said").write_text("\n".join(lines) + "\n")
    binaries = fresh / ".venv" / "bin"
    binaries.mkdir(parents=True)
    script(
        binaries / "python",
        f'[ "$2" = pip ] && exec cat {fresh}/said; exec {sys.executable} "$@"',
    )

    code, said = run(fresh, "bin/setup", PYTHON=sys.executable)

    assert code == 0, said
    assert "25 of 50" in said
    assert "50 of 50" in said


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
