"""Pure: custom headers, and the limits of content (steps 11 and 12 of the policy)."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from core.errors import FieldError, InvalidRequest
from core.text import header_fault
from outbound.draft import Draft
from outbound.errors import HeaderNotAllowed, placed
from outbound.filenames import clean_filename
from outbound.headers import is_message_id
from outbound.mime import Attachment
from outbound.requests import AttachmentInput

SUBJECT_LIMIT: Final = 998
FILES_LIMIT: Final = 32
LABELS_LIMIT: Final = 64
METADATA_KEYS, METADATA_BYTES = 16, 512
HEADER_NAME_BYTES, HEADER_VALUE_BYTES, HEADERS_BYTES = 100, 2048, 16 * 1024
LABEL: Final = re.compile(r"[a-z0-9][a-z0-9_:-]{0,63}")
MEDIA_TYPE: Final = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}"
)
EXTENSION_HEADER: Final = re.compile(r"[Xx]-[A-Za-z0-9_-]+")
PLAIN_HEADERS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "Importance": ("high", "normal", "low"),
    "Priority": ("normal", "non-urgent", "urgent"),
    "Sensitivity": ("personal", "private", "company-confidential"),
    "Keywords": None,
    "Comments": None,
    "Organization": None,
}
"""Names besides ``X-…`` that callers may set, and the values that some may have."""

_CASING: Final = {name.lower(): name for name in PLAIN_HEADERS}


def custom_headers(draft: Draft) -> None:
    """Step 11 (tables, section 3): refuse a name, then its value; fix the casing."""
    given = draft.request.headers
    forbidden = [
        FieldError(f"headers.{name}", "Callers may not set this header.")
        for name in given
        if not _is_free(name)
    ]
    if forbidden:
        raise placed(HeaderNotAllowed("A header is not allowed."), *forbidden)
    if errors := list(_header_errors(given)):
        raise InvalidRequest("A header has a value it cannot have.", errors=errors)
    draft.headers = tuple(
        (_CASING.get(name.lower(), name), _cased_value(name, value))
        for name, value in given.items()
    )


def limits(draft: Draft) -> None:
    """Step 12: everything that is wrong with the content, in one answer."""
    files: list[Attachment] = []
    errors = [*_text_errors(draft), *_label_errors(draft), *_file_errors(draft, files)]
    if errors:
        raise InvalidRequest("The content breaks a limit.", errors=errors)
    draft.files = tuple(files)


def _is_free(name: str) -> bool:
    folded = name.lower()
    if folded in _CASING:
        return True
    if folded.startswith("x-pylota-") or folded == "x-ai-generated":
        return False
    is_short = len(name) <= HEADER_NAME_BYTES
    return is_short and EXTENSION_HEADER.fullmatch(name) is not None


def _header_errors(given: Mapping[str, str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for name, value in given.items():
        folded = name.lower()
        if folded in seen:
            yield FieldError(f"headers.{name}", "The name stands twice.")
        seen.add(folded)
        if (fault := _value_fault(folded, value)) is not None:
            yield FieldError(f"headers.{name}", fault)
    size = sum(len(name) + len(value.encode()) for name, value in given.items())
    if size > HEADERS_BYTES:
        yield FieldError("headers", "All custom headers together are over 16 KB.")


def _value_fault(folded: str, value: str) -> str | None:
    if not value.strip():
        return "The value is empty."
    if (fault := header_fault(value)) is not None:
        return f"The value {fault}."
    if len(value.encode()) > HEADER_VALUE_BYTES:
        return f"The value is over {HEADER_VALUE_BYTES} bytes."
    listed = PLAIN_HEADERS.get(_CASING.get(folded, ""))
    if listed is not None and value.lower() not in listed:
        return f"The value must be one of {', '.join(listed)}."
    return None


def _cased_value(name: str, value: str) -> str:
    is_listed = PLAIN_HEADERS.get(_CASING.get(name.lower(), "")) is not None
    return value.lower() if is_listed else value


def _text_errors(draft: Draft) -> Iterator[FieldError]:
    request = draft.request
    if request.text is None and request.html is None:
        yield FieldError("text", "Give text, html, or both.")
    if len(request.subject) > SUBJECT_LIMIT:
        yield FieldError("subject", f"The subject is over {SUBJECT_LIMIT} characters.")
    if (fault := header_fault(request.subject)) is not None:
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
    if len(given) > FILES_LIMIT:
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
