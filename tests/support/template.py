"""A migrated database that every test database is a copy of.

To migrate takes seconds, to copy a fraction of one. The first process that finds no
template of these migrations makes it while the others wait; it stays for later runs.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import django
import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from psycopg import sql

LOCK: Final = 0x70796C6F7461
"""The advisory lock of whoever makes the template, of the server's database."""


def digest() -> str:
    """Return what changes with any migration of an installed app."""
    found = sha256(django.get_version().encode())
    for app in apps.get_app_configs():
        for file in sorted((Path(app.path) / "migrations").glob("*.py")):
            found.update(f"{app.label}/{file.name}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:12]


def migrated_template() -> str:
    """Return the name of the template, which stands; its predecessors are gone."""
    known = connection.settings_dict
    family = f"template_{known['NAME']}_"
    name = family + digest()
    parameters = {**connection.get_connection_params(), "dbname": "postgres"}
    with _session(parameters) as session:
        session.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        listed = session.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [family]
        )
        names = {row[0] for row in listed}
        if name not in names:
            for old in names:
                session.execute(_named("DROP DATABASE {}", old))
            _make(session, family + "new", name)
    return name


def _session(parameters: dict[str, Any]) -> "psycopg.Connection[Any]":
    plain = ("host", "port", "user", "password", "dbname")
    return psycopg.connect(
        **{word: parameters[word] for word in plain if word in parameters},
        autocommit=True,
    )


def _make(session: "psycopg.Connection[Any]", draft: str, name: str) -> None:
    """Migrate a draft; it gets its name only when it is whole."""
    session.execute(_named("CREATE DATABASE {}", draft))
    ours = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = draft
    try:
        call_command("migrate", verbosity=0, interactive=False)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = ours
    session.execute(_named("ALTER DATABASE {} RENAME TO {}", draft, name))


def _named(statement: str, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))
