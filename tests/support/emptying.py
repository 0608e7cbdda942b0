"""An empty database after a test that commits, at the price of three statements.

Django truncates every table and makes each model's permissions anew, for every such
test. Here only the tables with rows in them are emptied, and those two are kept.
"""

from typing import Final

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase
from psycopg import sql

KEPT: Final = frozenset({Permission._meta.db_table, ContentType._meta.db_table})
SMALL: Final = 1_000_000
"""Octets up to which a table's rows are deleted; a larger one is truncated."""


def empty_tables(_: TransactionTestCase) -> None:
    """Leave no row in any table but those of Django's own types and permissions."""
    names = connection.introspection.django_table_names(include_views=False)
    tables = [sql.Identifier(name) for name in sorted(set(names) - KEPT)]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # whoever still writes has ended by then, as before a TRUNCATE
        cursor.execute(
            sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(
                sql.SQL(", ").join(tables)
            )
        )
        cursor.execute(
            sql.SQL(" UNION ALL ").join(
                sql.SQL(
                    "SELECT {}, pg_relation_size({}::regclass) WHERE EXISTS"
                    " (SELECT 1 FROM {})"
                ).format(table.as_string(), table.as_string(), table)
                for table in tables
            )
        )
        filled = cursor.fetchall()
        large = [sql.SQL(name) for name, size in filled if size > SMALL]
        small = [sql.SQL(name) for name, size in filled if size <= SMALL]
        if large:
            truncate = sql.SQL("TRUNCATE {} CASCADE")
            cursor.execute(truncate.format(sql.SQL(", ").join(large)))
        if small:
            delete = sql.SQL("DELETE FROM {}")
            cursor.execute(sql.SQL("; ").join(delete.format(name) for name in small))
