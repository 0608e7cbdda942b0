"""Which system user runs the server, and what that user may reach."""

import os
import pwd
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pylota.embedded.errors import EmbeddedFailed

# PostgreSQL refuses to run as root; the first of these that exists takes its place.
SERVER_USERS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """A system user: the owner of the data and of the server process."""

    name: str
    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        """Say whether this process already runs as the account."""
        return os.geteuid() == self.uid

    def spawn_options(self) -> dict[str, Any]:
        """Return what ``subprocess`` needs to drop root: no extra group stays."""
        if self.is_us:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def own_account() -> Account:
    """Return the account of this process.

    Raises ``EmbeddedFailed`` for a user id without a passwd entry: ``initdb`` and peer
    authentication both need a name.
    """
    return _account_of(os.geteuid())


def server_account(data: Path) -> Account:
    """Return who runs the server: ourselves, or for root the owner of the data.

    Root without data yet takes the first of ``SERVER_USERS``.
    """
    if os.geteuid() != 0:
        return own_account()
    try:
        owner = data.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return _first_server_user()
    if owner == 0:
        raise EmbeddedFailed(
            f"{data} belongs to root, and PostgreSQL does not run as root."
            " Move it away, or give it to the user who made it."
        )
    return _account_of(owner)


def as_account(account: Account, work: Callable[[], str]) -> str:
    """Run ``work`` with the rights of the account, and return its text.

    For root it runs in a forked child that drops to the account; nothing of this
    process changes. An exception in ``work`` gives an empty text.
    """
    if account.is_us:
        return work()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads' locks; the child takes none
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _answer_as(account, work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode(errors="surrogateescape")
    os.waitpid(child, 0)
    return text


def first_closed(folder: Path, account: Account) -> Path | None:
    """Return the first folder on the way that the account cannot search, from the root.

    Folders that do not exist yet are passed over.
    """

    def look() -> str:
        for step in reversed([folder, *folder.parents]):
            if step.is_dir() and not os.access(step, os.X_OK):
                return str(step)
        return ""

    closed = as_account(account, look)
    return Path(closed) if closed else None


def _answer_as(account: Account, work: Callable[[], str], writer: int) -> None:
    try:
        os.setgroups([])
        os.setgid(account.gid)
        os.setuid(account.uid)
        os.write(writer, work().encode(errors="surrogateescape"))
    finally:
        os._exit(0)


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedFailed(
            f"The user id {uid} has no passwd entry, which PostgreSQL needs."
            " Run as a user that has one, or set DATABASE_URL."
        ) from None
    return Account(entry.pw_name, uid, entry.pw_gid)


def _first_server_user() -> Account:
    for name in SERVER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedFailed(
        f"Root needs a user for PostgreSQL: {' or '.join(SERVER_USERS)}."
        " Add one, or set DATABASE_URL."
    )
