"""What joins messages to threads: Message-IDs, In-Reply-To and References.

Tokens and headers join threads, subjects never (mailboxes, sections 3.2 and 3.6). Ids
are kept and passed without their angle brackets. Pure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

ID_LIMIT: Final = 998
"""Octets of a Message-ID that is kept."""
REFERENCES_LIMIT: Final = 20
"""Ids in a References that we write: the first and the 19 newest."""
REFERENCES_BYTES: Final = 2048
"""Octets of its value: what the strictest provider takes (the page, "Headers")."""
STORED_REFERENCES: Final = 200
"""Ids of an incoming References that are kept, the newest."""

_BRACKETED: Final = re.compile(r"<([^<>]*)>")
_QUOTED_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\\.|[()]', re.DOTALL)
_WRITABLE: Final = re.compile(r"[!-;=?-~]{1,980}")
"""An id that fits a header line as it is: printable ASCII, no blank, no bracket."""


@dataclass(frozen=True, slots=True)
class ThreadIds:
    """The ids of one message of a thread, as its row holds them."""

    rfc_message_id: str | None
    in_reply_to: str | None = None
    references: Sequence[str] = ()
    is_synthetic: bool = False

    @property
    def can_be_named(self) -> bool:
        """Tell whether others can refer to it: its own id is known, real and literal.

        A synthetic id is ours alone: no reader has ever seen it.
        """
        return (
            self.rfc_message_id is not None
            and not self.is_synthetic
            and _WRITABLE.fullmatch(self.rfc_message_id) is not None
        )


@dataclass(frozen=True, slots=True)
class ThreadHeaders:
    """What a message says of the ones before it."""

    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


def normalize_message_id(raw: str) -> str | None:
    """Return a Message-ID as it is stored and compared; None for what is none.

    The content of the first ``<…>``, or the whole; comments and blanks removed; only
    the part after the last ``@`` in lower case. None: empty, over 998 octets, no ``@``.
    """
    text = _without_comments(raw)
    found = _BRACKETED.search(text)
    bare = "".join((found[1] if found else text).split())
    local, at, domain = bare.rpartition("@")
    identifier = f"{local}@{domain.lower()}"
    if not at or not local or not domain or len(identifier.encode()) > ID_LIMIT:
        return None
    return identifier


def message_ids_in(raw: str) -> list[str]:
    """Return the ids of a References or In-Reply-To, oldest first, the newest 200.

    Without any ``<…>`` each word is tried: some writers leave the brackets out.
    """
    text = _without_comments(raw)
    words = _BRACKETED.findall(text) or text.split()
    found = [normalize_message_id(f"<{word}>") for word in words]
    return [identifier for identifier in found if identifier][-STORED_REFERENCES:]


def parent_of(
    answered: ThreadIds | None, earlier: Iterable[ThreadIds]
) -> ThreadIds | None:
    """Return the message that headers name: the one answered, or one before it.

    ``earlier`` are the thread's other messages, newest first. None when nobody can be
    named: both headers are left out then.
    """
    if answered is not None and answered.can_be_named:
        return answered
    return next((ids for ids in earlier if ids.can_be_named), None)


def answer_headers(parent: ThreadIds | None) -> ThreadHeaders:
    """Return the headers of a reply, or of a send into a thread."""
    if parent is None:
        return ThreadHeaders()
    return ThreadHeaders(parent.rfc_message_id, references_to(parent))


def forward_headers(parent: ThreadIds | None) -> ThreadHeaders:
    """Return the headers of a forward: it answers nothing, and keeps the thread."""
    return ThreadHeaders(None, references_to(parent) if parent else ())


def references_to(parent: ThreadIds) -> tuple[str, ...]:
    """Return the References of a message after ``parent``, oldest first.

    Its own references, or else what it answers, and its id; of a repeated id the last
    stays. More than 20 become the first and the 19 newest; past 2,048 octets the oldest
    after the first go. Ids that no header line can hold are left out.
    """
    before = list(parent.references) or [parent.in_reply_to or ""]
    named = [i for i in before if _WRITABLE.fullmatch(i)]
    if parent.can_be_named and parent.rfc_message_id is not None:
        named.append(parent.rfc_message_id)
    unique = list(dict.fromkeys(reversed(named)))[::-1]
    if len(unique) > REFERENCES_LIMIT:
        unique = [unique[0], *unique[1 - REFERENCES_LIMIT :]]
    while _size(unique) > REFERENCES_BYTES and len(unique) > 1:
        del unique[1 if len(unique) > 2 else 0]
    return tuple(unique)


def _size(ids: Sequence[str]) -> int:
    """Return the octets of a References with these ids, unfolded."""
    return sum(len(identifier) + 3 for identifier in ids) - 1


def _without_comments(raw: str) -> str:
    """Drop RFC 5322 comments; a quoted string or an open ``(`` is text."""
    kept: list[str] = []
    start, depth, opened = 0, 0, 0
    for found in _QUOTED_OR_COMMENT.finditer(raw):
        mark = found.group()
        if mark == "(":
            if depth == 0:
                opened = found.start()
            depth += 1
        elif mark == ")" and depth:
            depth -= 1
            if depth == 0:
                kept.append(raw[start:opened])
                start = found.end()
    return "".join([*kept, raw[start:]])
