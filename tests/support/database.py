"""The URL of the database that the tests run on, for processes of their own."""

from urllib.parse import quote

from django.db import connection


def database_url() -> str:
    """Return the test database's DATABASE_URL; a socket folder is quoted as a host."""
    known = connection.settings_dict
    user, password = quote(str(known["USER"])), quote(str(known["PASSWORD"]))
    credentials = f"{user}:{password}" if password else user
    host = quote(str(known["HOST"] or "127.0.0.1"), safe="")
    return f"postgres://{credentials}@{host}:{known['PORT'] or 5432}/{known['NAME']}"
