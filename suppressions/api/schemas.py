"""What may be said of suppressions and send lists, and how they are shown."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from core.forms import Form, PageQuery
from core.schemas import Page, Shape
from suppressions.statuses import ListDirection, ListKind, SuppressionReason

Note = Annotated[str | None, Field(max_length=500)]


class SuppressionForm(Form):
    """An address that must not be written to."""

    address: str
    reason: Literal["manual", "unsubscribe"] = "manual"
    note: Note = None


class LiftForm(Form):
    """Whether a suppression that somebody's complaint made is meant, too."""

    example: ClassVar[dict[str, Any]] = {"confirm_complaint_removal": True}

    confirm_complaint_removal: bool = False


class SuppressionQuery(PageQuery):
    """Which suppressions are listed."""

    address: Annotated[
        str | None, Field(description="This address alone, in any spelling.")
    ] = None
    reason: Annotated[
        SuppressionReason | None, Field(description="Made for this reason.")
    ] = None


class SuppressionOut(Shape):
    """A suppression: its address is kept as a keyed hash, and is not shown."""

    example: ClassVar[dict[str, Any]] = {
        "address_hint": "j***@example.net",
        "reason": "manual",
        "note": "asked by phone",
        "created_at": "2026-11-02T09:15:20.114Z",
        "expires_at": None,
    }

    address_hint: str
    reason: SuppressionReason
    note: str | None
    created_at: datetime
    expires_at: datetime | None = Field(description="Null: for good.")


class SuppressionPage(Page):
    """One page of suppressions."""

    data: list[SuppressionOut]


class ListEntryForm(Form):
    """What is noted of an entry; a PUT without a note takes it away."""

    note: Note = None


class ListEntryOut(Shape):
    """An entry of a send list; block beats allow."""

    example: ClassVar[dict[str, Any]] = {
        "direction": "send",
        "kind": "block",
        "entry": "@example.org",
        "note": "competitor",
        "created_at": "2026-11-02T09:15:20.114Z",
    }

    direction: ListDirection
    kind: ListKind
    entry: str = Field(description="`user@domain`, or `@domain` for all of it.")
    note: str | None
    created_at: datetime


class ListEntryPage(Page):
    """One page of a send list."""

    data: list[ListEntryOut]
