"""Objects on the local disk that outlive a power cut."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage

SIDECAR = ".meta"
"""What is added to a key for the file that holds its metadata."""

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_KNOWN_LIMIT = 10_000


class DurableFileStorage(FileSystemStorage):
    """Bodies with a JSON sidecar, each written aside, flushed and renamed into place.

    The sidecar comes first: a body without its metadata could not be restored. Then
    the folder is flushed. Files and folders are their owner's alone.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take Django's options; ``location`` is the root."""
        super().__init__(*args, **options)
        self._known: set[Path] = set()

    def write(self, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        """Store the body and its metadata; what stood there is replaced."""
        path = Path(self.path(key))
        sidecar = json.dumps(dict(metadata), sort_keys=True).encode()
        try:
            self._place(path, sidecar, body)
        except FileNotFoundError:  # somebody removed a folder that we knew
            self._known.clear()
            self._place(path, sidecar, body)

    def read(self, key: str) -> bytes:
        """Return the body; raises FileNotFoundError."""
        return Path(self.path(key)).read_bytes()

    def read_metadata(self, key: str) -> dict[str, str]:
        """Return the metadata; raises FileNotFoundError when there is no body."""
        path = Path(self.path(key))
        path.stat()
        found: dict[str, str] = json.loads(_sidecar(path).read_bytes())
        return found

    def remove(self, key: str) -> None:
        """Delete body and sidecar, as far as they are there; the body first."""
        path = Path(self.path(key))
        path.unlink(missing_ok=True)
        _sidecar(path).unlink(missing_ok=True)

    def listing(self, after: str, limit: int) -> list[tuple[str, datetime]]:
        """Return keys past ``after`` in a fixed order, and when each was stored."""
        root = Path(self.location)
        found = _files_below(root, tuple(after.split("/")) if after else ())
        return [
            (path.relative_to(root).as_posix(), stored_at)
            for path, stored_at in islice(found, limit)
        ]

    def _save(self, name: str, content: Any) -> str:
        self.write(name, content.read(), {})
        return name

    def _place(self, path: Path, sidecar: bytes, body: bytes) -> None:
        self._make_folder(path.parent)
        _replace(_sidecar(path), sidecar)
        _replace(path, body)
        _flush_folder(path.parent)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder below the root, and flush the entry of each one on the way.

        Also of those that stand there: whoever made one may not have flushed it yet.
        """
        if folder in self._known:
            return
        if folder == Path(self.location):
            _make_root(folder)
        else:
            self._make_folder(folder.parent)
            with suppress(FileExistsError):
                folder.mkdir(mode=_FOLDER_MODE)
            _flush_folder(folder.parent)
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known.add(folder)


def _files_below(
    folder: Path, after: tuple[str, ...]
) -> Iterator[tuple[Path, datetime]]:
    """Walk in the order of names, past ``after``; what vanishes meanwhile is left out.

    A sidecar is no object, nor is what is being written (its name begins with a dot).
    """
    first, rest = (after[0], after[1:]) if after else ("", ())
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            if name < first or name.startswith(".") or name.endswith(SIDECAR):
                continue
            path = folder / name
            if path.is_dir():
                yield from _files_below(path, rest if name == first else ())
            elif name != first:
                with suppress(FileNotFoundError):
                    yield path, datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + SIDECAR)


def _make_root(root: Path) -> None:
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        _flush_folder(folder.parent)


def _replace(path: Path, data: bytes) -> None:
    aside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(aside, flags, _FILE_MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
