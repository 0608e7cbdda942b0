"""Columns and constraints that every app's tables share."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.ids import ID_PATTERN, Prefix

ID_LENGTH = 30
"""A prefixed ULID, in ASCII characters."""


def id_check(table: str, prefix: Prefix, field: str = "id") -> models.CheckConstraint:
    """Return the CHECK that a table's ids have the form of their kind."""
    pattern = ID_PATTERN.format(prefix=prefix)
    return models.CheckConstraint(
        condition=Q(**{f"{field}__regex": pattern}), name=f"{table}_{field}_form"
    )


def choice_check(
    table: str, field: str, choices: type[models.TextChoices]
) -> models.CheckConstraint:
    """Return the CHECK that a column holds one of an enumeration's values."""
    return models.CheckConstraint(
        condition=Q(**{f"{field}__in": [str(value) for value in choices.values]}),
        name=f"{table}_{field}_known",
    )


def created_at() -> models.DateTimeField[datetime, datetime]:
    """Return the column that says when a row was made."""
    return models.DateTimeField(db_default=Now())


def updated_at() -> models.DateTimeField[datetime, datetime]:
    """Return the column that says when a row last changed; writers set it."""
    return models.DateTimeField(db_default=Now())
