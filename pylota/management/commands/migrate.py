"""``manage.py migrate``: Django's own, and an index may take its time to be made."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections


class Command(migrate.Command):
    """Migrate without the time-out of a statement; a lock is waited for as ever."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the migrations that are due."""
        connection = connections[options["database"]]
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
        try:
            super().handle(*args, **options)
        finally:
            if connection.is_usable():
                with connection.cursor() as cursor:
                    cursor.execute("RESET statement_timeout")
