"""Pure: custom headers, and the limits of content (steps 11 and 12 of the policy)."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from core.errors import FieldError, InvalidRequest
from core.filenames import clean_filename
from core.text import header_fault
from mailboxes.labels import LABEL, LABELS_LIMIT
from mailboxes.statuses import Operation
from outbound.answering import carried_count
from outbound.draft import Draft
from outbound.errors import HeaderNotAllowed, placed
from outbound.headers import is_message_id
from outbound.headers_policy import judge_headers
from outbound.mime import Attachment
from outbound.plan import StoredFile
from outbound.requests import AttachmentInput

SUBJECT_LIMIT: Final = 998
FILES_LIMIT: Final = 32
METADATA_KEYS, METADATA_BYTES = 16, 512
MEDIA_TYPE: Final = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}"
)

OPAQUE: Final = "application/octet-stream"


def custom_headers(draft: Draft) -> None:
    """Step 11 (tables, section 3): refuse a name, then its value; fix the casing."""
    judged = judge_headers(
        draft.request.headers, service=(*draft.own_headers(), *_thread_headers(draft))
    )
    if judged.forbidden:
        raise placed(HeaderNotAllowed("A header is not allowed."), *judged.forbidden)
    if judged.invalid:
        raise InvalidRequest(
            "A header has a value it cannot have.", errors=judged.invalid
        )
    draft.headers = judged.allowed


def limits(draft: Draft) -> None:
    """Step 12: everything that is wrong with the content, in one answer."""
    files: list[Attachment] = []
    errors = [*_text_errors(draft), *_label_errors(draft), *_file_errors(draft, files)]
    if errors:
        raise InvalidRequest("The content breaks a limit.", errors=errors)
    draft.files = tuple(files)


def _thread_headers(draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield the headers that join a thread, as far as they count towards limits."""
    if draft.named.in_reply_to:
        yield "In-Reply-To", f"<{draft.named.in_reply_to}>"
    if draft.named.references:
        yield "References", " ".join(f"<{i}>" for i in draft.named.references)


def _text_errors(draft: Draft) -> Iterator[FieldError]:
    request = draft.request
    may_be_silent = draft.operation == Operation.FORWARD
    if request.text is None and request.html is None and not may_be_silent:
        yield FieldError("text", "Give text, html, or both.")
    if len(draft.subject) > SUBJECT_LIMIT:
        yield FieldError("subject", f"The subject is over {SUBJECT_LIMIT} characters.")
    if (fault := header_fault(draft.subject)) is not None:
        yield FieldError("subject", f"The subject {fault}.")


def _label_errors(draft: Draft) -> Iterator[FieldError]:
    labels, metadata = draft.request.labels, draft.request.metadata
    if len(labels) > LABELS_LIMIT:
        yield FieldError("labels", f"More than {LABELS_LIMIT} labels.")
    for index, label in enumerate(labels):
        if LABEL.fullmatch(label) is None:
            yield FieldError(f"labels[{index}]", f"A label matches {LABEL.pattern}.")
    if len(metadata) > METADATA_KEYS:
        yield FieldError("metadata", f"More than {METADATA_KEYS} keys.")
    for name, value in metadata.items():
        if max(len(name.encode()), len(value.encode())) > METADATA_BYTES:
            yield FieldError(f"metadata.{name[:64]}", f"Over {METADATA_BYTES} bytes.")


def _file_errors(draft: Draft, files: list[Attachment]) -> Iterator[FieldError]:
    """Yield what is wrong with the attachments, and fill in those that are right."""
    given = draft.request.attachments
    if len(given) + carried_count(draft) > FILES_LIMIT:
        yield FieldError("attachments", f"More than {FILES_LIMIT} attachments.")
        return
    for index, file in enumerate(given):
        path = f"attachments[{index}]"
        yield from _form_errors(file, path)
        try:
            content = base64.b64decode(file.content_base64, validate=True)
        except (binascii.Error, ValueError):
            yield FieldError(f"{path}.content_base64", "This is not base64.")
            continue
        files.append(_attachment(file, content))


def _form_errors(file: AttachmentInput, path: str) -> Iterator[FieldError]:
    if MEDIA_TYPE.fullmatch(file.content_type) is None:
        yield FieldError(f"{path}.content_type", "The form is type/subtype.")
    if len(file.filename.encode()) > 4096:
        yield FieldError(f"{path}.filename", "The file name is far too long.")
    if file.disposition == "inline" and not file.content_id:
        yield FieldError(f"{path}.content_id", "An inline part needs a content_id.")
    if file.content_id and not is_message_id(file.content_id.strip("<>")):
        yield FieldError(
            f"{path}.content_id", "Printable ASCII without <, > or blanks."
        )


def _attachment(file: AttachmentInput, content: bytes) -> Attachment:
    return Attachment(
        filename=clean_filename(file.filename),
        content_type=file.content_type,
        disposition=file.disposition,
        content_id=file.content_id.strip("<>") if file.content_id else None,
        content=content,
    )


def carried_file(stored: StoredFile, content: bytes) -> Attachment:
    """Return a stored file as it goes along with a forward.

    What its mail said of it may be anything: a type or id that no header can hold is
    left out, and nobody is refused for it.
    """
    kind = stored.content_type.partition(";")[0].strip()
    content_id = (stored.content_id or "").strip("<>")
    is_named = is_message_id(content_id)
    is_inline = stored.disposition == "inline" and is_named
    return Attachment(
        filename=None if stored.filename is None else clean_filename(stored.filename),
        content_type=kind if MEDIA_TYPE.fullmatch(kind) else OPAQUE,
        disposition="inline" if is_inline else "attachment",
        content_id=content_id if is_named else None,
        content=content,
    )
