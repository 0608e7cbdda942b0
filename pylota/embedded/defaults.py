"""What stands in for settings that are not there: data folder, environment, database.

``manage.py`` calls ``prepare`` before Django reads the settings.
"""

import os
import stat
import sys
from pathlib import Path

from pylota.embedded.accounts import Account, server_account
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.server import Server, ensure

ROOT = Path(__file__).resolve().parents[2]
ROOTS_DATA_DIR = Path("/var/lib/pylota")

# These run without settings: they are the newcomer's commands.
_LOCAL_COMMANDS = ("up", "demo")
# A deployment that sets one of these forgot PM_ENV; it must not become a local one.
_DEPLOYED = (
    "PM_KEY_PEPPER",
    "PM_HASH_KEY",
    "PM_MASTER_KEY",
    "PM_DJANGO_SECRET",
    "PM_API_HOST",
    "PM_PLATFORM_DOMAIN",
)
_WITHOUT_DATABASE = (
    *("help", "--help", "-h", "version", "--version"),
    *("check", "diffsettings", "sendtestemail", "spectacular"),
    *("collectstatic", "compilemessages", "findstatic", "makemessages"),
    *("startapp", "startproject"),
    *("catcher", "docs"),
)

# The server that this process asked for, for commands that tell the user about it.
current: Server | None = None


def default_data_dir() -> Path:
    """Return PM_DATA_DIR, or ``var/`` in the project.

    For root, when the user that PostgreSQL runs as cannot reach that (a project in
    root's home): ``/var/lib/pylota``. Judged by the folders' modes: cheap, and the same
    in every process.
    """
    if chosen := os.environ.get("PM_DATA_DIR"):
        return Path(chosen).absolute()
    folder = ROOT / "var"
    if os.geteuid() != 0:
        return folder
    try:
        account = server_account(folder / "postgres" / "data")
    except EmbeddedFailed:
        return folder
    ways = [step for step in (folder, *folder.parents) if step.is_dir()]
    open_way = all(_may_search(step, account) for step in ways)
    return folder if open_way else ROOTS_DATA_DIR


def database_url_for(argv: list[str]) -> str | None:
    """Return the embedded server's URL if this command line is to use it.

    It is when DATABASE_URL is not set, the environment is local, and the command needs
    a database. The server is started or joined; it stops with its last user. Raises
    ``EmbeddedFailed``.
    """
    global current
    command = argv[1] if len(argv) > 1 else "help"
    if os.environ.get("DATABASE_URL") or os.environ.get("PM_ENV") != "local":
        return None
    if command in _WITHOUT_DATABASE or {"--help", "-h"} & set(argv):
        return None
    current = ensure(default_data_dir(), report=tell)
    return current.url


def prepare(argv: list[str]) -> None:
    """Complete the environment for one management command.

    Ends the process with one line when the embedded server cannot serve.
    """
    if _is_newcomer(argv):
        os.environ["PM_ENV"] = "local"
    if not os.environ.get("PM_DATA_DIR"):
        os.environ["PM_DATA_DIR"] = str(default_data_dir())
    try:
        url = database_url_for(argv)
    except EmbeddedFailed as error:
        raise SystemExit(str(error)) from None
    if url is not None:
        os.environ["DATABASE_URL"] = url


def hint() -> str:
    """Return what to add to a complaint about settings if none of them is set."""
    if _is_deployed():
        return ""
    return " On your own machine: PM_ENV=local."


def tell(line: str) -> None:
    """Say what takes long, beside the command's own output."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _is_newcomer(argv: list[str]) -> bool:
    return not _is_deployed() and len(argv) > 1 and argv[1] in _LOCAL_COMMANDS


def _is_deployed() -> bool:
    return any(os.environ.get(name) for name in ("PM_ENV", *_DEPLOYED))


def _may_search(folder: Path, account: Account) -> bool:
    entry = folder.stat()
    if entry.st_uid == account.uid:
        return bool(entry.st_mode & stat.S_IXUSR)
    if entry.st_gid == account.gid:
        return bool(entry.st_mode & stat.S_IXGRP)
    return bool(entry.st_mode & stat.S_IXOTH)
