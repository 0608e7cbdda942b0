"""A PostgreSQL that belongs to one test, which may stop and start it."""

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from django.core.management import call_command
from django.db import connection

from pylota.embedded import Server, ensure
from pylota.settings import database_from


class OwnServer:
    """The embedded server, with our tables; Django's connection of this thread uses it.

    A context manager. ``url`` stays the same over a restart.
    """

    def __init__(self) -> None:
        self._ground = Path(tempfile.mkdtemp(prefix="pylota-"))
        self._ground.chmod(0o755)  # the server user must get to it
        self._before = dict(connection.settings_dict)
        self._server: Server | None = None
        self.url = ""

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._server = ensure(self._ground / "own")
        self.url = self._server.url

    def stop(self) -> None:
        """Stop it, whoever is connected."""
        server, self._server = self._server, None
        connection.close()
        if server is not None:
            assert server.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
            connection.close()
            connection.settings_dict |= database_from(self.url)
            call_command("migrate", verbosity=0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection.close()
        connection.settings_dict.clear()
        connection.settings_dict |= self._before
        self.stop()
        shutil.rmtree(self._ground)
