"""Where the embedded server keeps its things, and who owns them."""

import hashlib
import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pylota.embedded.accounts import (
    Account,
    first_closed,
    own_account,
    server_account,
)
from pylota.embedded.errors import EmbeddedFailed

SOCKET_NAME = ".s.PGSQL.5432"
# the size of sun_path, less its closing NUL
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders and files of one cluster."""

    base: Path
    name: str
    starter: Account
    account: Account
    fast: bool

    @classmethod
    def of(cls, data_dir: Path, *, name: str, fast: bool) -> "Layout":
        """Describe the cluster of a data folder; nothing is made yet."""
        folder = data_dir.absolute().resolve()
        base = folder / ("postgres-test" if fast else "postgres")
        if "\n" in str(base):
            raise EmbeddedFailed(
                f"The path {str(base)!r} holds a line break. Set another PM_DATA_DIR."
            )
        return cls(base, name, own_account(), server_account(base / "data"), fast)

    @property
    def data(self) -> Path:
        """The cluster itself; belongs to the server user, 0700."""
        return self.base / "data"

    @property
    def draft(self) -> Path:
        """A cluster that is being made."""
        return self.base / "data.new"

    @property
    def log(self) -> Path:
        """What the server and its set-up print."""
        return self.base / "server.log"

    @property
    def start_lock(self) -> Path:
        """Held around a start and a stop."""
        return self.base / "start.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the server's processes."""
        return self.base / "server.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by the processes that use the server."""
        return self.base / "users.lock"

    def prepare(self) -> None:
        """Make the base folder, or check the one that is there.

        Raises ``EmbeddedFailed`` naming the first folder that the server user cannot
        enter, before anything is made.
        """
        closed = first_closed(self.base, self.account)
        if closed is not None:
            raise EmbeddedFailed(
                f"The user {self.account.name}, who runs PostgreSQL, cannot enter"
                f" {closed}. Open it (chmod o+x {closed}), or set another PM_DATA_DIR."
            )
        root = self.starter.uid == 0
        for folder in reversed(self.base.parent.parents):
            _make(folder, 0o755 if root else None)
        _make(self.base.parent, 0o711 if root else None)
        _make(self.base, 0o711 if root else 0o700)
        check_folder(self.base, self.starter)

    def socket_folder(self) -> Path:
        """Return the folder for the server's socket, made if need be.

        Below the base when the socket's path fits the kernel's limit and can stand in
        the server's comma-separated list; else in the folder for temporary files.
        """
        folder = self.base / "run"
        if not _fits(folder):
            digest = hashlib.sha256(os.fsencode(self.base)).hexdigest()[:16]
            folder = self._temporary() / f"{self.name}-{self.account.uid}-{digest}"
        self.make_own(folder)
        return folder

    def make_own(self, folder: Path) -> None:
        """Make a folder of the server user, 0700, or check the one that is there.

        It gets its name when it has its owner: a launcher killed in between leaves
        nothing that the next one would have to refuse.
        """
        if not os.path.lexists(folder):
            draft = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            if not self.account.is_us:
                os.chown(draft, self.account.uid, self.account.gid)
            draft.rename(folder)
        check_folder(folder, self.account)

    def open_log(self) -> int:
        """Open ``server.log`` for appending, 0600, without following a link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self.log, flags, 0o600)

    def _temporary(self) -> Path:
        chosen = Path(tempfile.gettempdir()).resolve()
        longest = chosen / f"{self.name}-{self.account.uid}-{'0' * 16}"
        if _fits(longest) and first_closed(chosen, self.account) is None:
            return chosen
        return Path("/tmp")  # noqa: S108 -- short everywhere; the owner is checked


def check_folder(folder: Path, owner: Account) -> None:
    """Refuse a link, a file, or a folder of somebody else."""
    entry = folder.lstat()
    if not stat.S_ISDIR(entry.st_mode):
        raise EmbeddedFailed(f"{folder} is not a folder. Move it away.")
    if entry.st_uid != owner.uid:
        raise EmbeddedFailed(
            f"{folder} belongs to the user id {entry.st_uid}, not to {owner.name}."
            " Run as its owner, or set another PM_DATA_DIR."
        )


def _make(folder: Path, mode: int | None) -> None:
    """Make the folder unless it exists; ``mode`` holds whatever our umask is."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    except OSError as error:
        raise EmbeddedFailed(
            f"{folder} cannot be made ({error.strerror})."
            " Set PM_DATA_DIR to a folder that you may write to."
        ) from error
    if mode is not None:
        folder.chmod(mode)


def _fits(folder: Path) -> bool:
    try:
        path = str(folder / SOCKET_NAME).encode()
    except UnicodeEncodeError:  # not text, so it cannot stand in a URL
        return False
    return len(path) <= SOCKET_PATH_BYTES and not set(str(folder)) & set(",\"'")
