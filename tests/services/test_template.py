"""The tests run on a copy of a migrated database."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.support import template


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    executor = MigrationExecutor(connection)

    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


def test_any_change_of_a_migration_asks_for_another_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given the template's name, and a migration that says something else
    before = template.digest()
    read: Callable[[Path], bytes] = Path.read_bytes

    def changed(path: Path) -> bytes:
        is_ours = path.match("outbound/migrations/0001_*.py")
        return read(path) + (b"# changed" if is_ours else b"")

    monkeypatch.setattr(Path, "read_bytes", changed)

    assert template.digest() != before
