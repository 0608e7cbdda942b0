"""What may be asked of lists of mail (REST contract 1.3 and section 3)."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from core.forms import CursorText, Flag, Instant, PageQuery, Whole
from core.ids import ID_PATTERN
from mailboxes.labels import LABEL
from mailboxes.statuses import UNSEEN, Direction, MessageStatus
from outbound.api.includes import IncludeQuery

SHOWN: Final = tuple(s.value for s in MessageStatus if s not in UNSEEN)


def _shown(status: str) -> str:
    if status not in SHOWN:
        raise ValueError(f"it is one of {', '.join(SHOWN)}")
    return status


Status = Annotated[
    str,
    AfterValidator(_shown),
    WithJsonSchema({"type": "string", "enum": list(SHOWN)}),
]
LabelWord = Annotated[str, Field(pattern=f"^{LABEL.pattern}$")]
Way = Annotated[Direction, WithJsonSchema({"type": "string", "enum": Direction.values})]


class MessagesQuery(PageQuery):
    """Which messages of a mailbox."""

    thread_id: Annotated[
        str | None,
        Field(pattern=ID_PATTERN.format(prefix="thr"), description="Of this thread."),
    ] = None
    direction: Annotated[Way | None, Field(description="Which way they went.")] = None
    status: Annotated[Status | None, Field(description="As it is now.")] = None
    label: Annotated[LabelWord | None, Field(description="Filed under it.")] = None
    after: Annotated[
        Instant | None, Field(description="Their `received_at` is later than this.")
    ] = None
    before: Annotated[
        Instant | None, Field(description="Their `received_at` is earlier than this.")
    ] = None

    def filters(self) -> dict[str, object]:
        """Return the conditions on messages that were given, by look-up."""
        asked = {
            "thread__public_id": self.thread_id,
            "direction": self.direction,
            "status": self.status,
            "labels__label": self.label,
            "received_at__gt": self.after,
            "received_at__lt": self.before,
        }
        return {name: value for name, value in asked.items() if value is not None}


class ThreadsQuery(PageQuery):
    """Which threads of a mailbox."""

    label: Annotated[
        LabelWord | None, Field(description="A message of theirs is filed under it.")
    ] = None
    is_unread: Annotated[
        Flag | None, Field(description="Whether they hold unread mail.")
    ] = None
    direction: Annotated[
        Way | None, Field(description="Which way their newest message went.")
    ] = None
    after: Annotated[
        Instant | None, Field(description="Their `last_at` is later than this.")
    ] = None
    before: Annotated[
        Instant | None, Field(description="Their `last_at` is earlier than this.")
    ] = None
    archived: Annotated[
        Flag | None, Field(description="Whether they are archived; absent: both.")
    ] = None

    def filters(self) -> dict[str, object]:
        """Return the conditions on a thread's columns that were given, by look-up."""
        asked = {
            "is_unread": self.is_unread,
            "last_direction": self.direction,
            "last_at__gt": self.after,
            "last_at__lt": self.before,
            "archived": self.archived,
        }
        return {name: value for name, value in asked.items() if value is not None}


class ThreadQuery(IncludeQuery):
    """How much of a thread's messages."""

    messages_limit: Annotated[
        Whole,
        Field(
            ge=1,
            le=100,
            description="Messages of one page; with `include` there are 20 at most.",
        ),
    ] = 20
    cursor: CursorText | None = None

    def page(self) -> PageQuery:
        """Return the page of messages that is meant."""
        most = 100 if self.include is None else 20
        limit = min(self.messages_limit, most)
        return PageQuery.model_construct(limit=limit, cursor=self.cursor)
