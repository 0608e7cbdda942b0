"""What the local environment makes for itself: secrets, in its data folder."""

import base64
import fcntl
import json
import os
import secrets
from pathlib import Path

NAMES = ("PM_KEY_PEPPER", "PM_HASH_KEY", "PM_MASTER_KEY", "PM_DJANGO_SECRET")


def local_secrets(data_dir: Path) -> dict[str, bytes]:
    """Return the generated secrets of this data folder, making them the first time.

    Only for ``PM_ENV=local``. Two processes that start at once get the same ones: the
    file is read and written under a lock.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "secrets.json"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        stored: dict[str, str] = json.loads(file.read() or "{}")
        missing = [name for name in NAMES if name not in stored]
        if missing:
            for name in missing:
                stored[name] = base64.b64encode(secrets.token_bytes(32)).decode()
            file.seek(0)
            file.truncate()
            json.dump(stored, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
    return {name: base64.b64decode(stored[name]) for name in NAMES}
