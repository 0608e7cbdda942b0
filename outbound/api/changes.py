"""What a caller may change of mail that is there: how it is filed, and a doubt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from core.forms import Form
from mailboxes.filing_services import Filing
from mailboxes.labels import LABELS_LIMIT
from outbound.api.queries import LabelWord

Labels = Annotated[list[LabelWord], Field(max_length=LABELS_LIMIT)]


class MessageChanges(Form):
    """How one message is filed; what is absent, or null, stays as it is."""

    example: ClassVar[dict[str, Any]] = {"labels_add": ["urgent"], "read": True}

    labels_add: Labels = []
    labels_remove: Labels = []
    read: bool | None = None

    @field_validator("labels_remove")
    @classmethod
    def _contradict_nothing(cls, words: list[str], info: ValidationInfo) -> list[str]:
        if both := sorted({*words} & {*info.data.get("labels_add", ())}):
            raise ValueError(f"{both[0]} is to be added as well")
        return words

    def filing(self) -> Filing:
        """Return the change for the service."""
        return Filing(
            add=_each_once(self.labels_add),
            remove=_each_once(self.labels_remove),
            read=self.read,
        )


class ThreadChanges(MessageChanges):
    """How each message of a thread is filed, and whether the thread is archived."""

    example: ClassVar[dict[str, Any]] = {"read": True, "archived": True}

    archived: bool | None = None

    def filing(self) -> Filing:
        """Return the change for the service."""
        return replace(super().filing(), archived=self.archived)


class Resolution(Form):
    """Whether an uncertain send was sent after all."""

    example: ClassVar[dict[str, Any]] = {"outcome": "sent"}

    outcome: Literal["sent", "not_sent"]


def _each_once(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
