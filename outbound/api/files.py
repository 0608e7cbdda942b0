"""Attachments and raw messages: bytes that no browser runs (REST contract 2.12)."""

from urllib.parse import quote

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request

from core.described import described
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.selectors import identity_in_reach
from outbound.filenames import plain_fallback
from outbound.files import (
    RFC822,
    SERVED_TYPES,
    ServedFile,
    attachment_of,
    linked_file,
    raw_of,
)

BYTES = {
    (200, kind): OpenApiResponse(OpenApiTypes.BINARY, description="The file's bytes.")
    for kind in SERVED_TYPES
}


class AttachmentView(ApiView):
    """One file of a message."""

    @described(
        operation_id="getAttachment",
        tags=["messages"],
        responses={
            **BYTES,
            **refusals({404: "`identity_not_found`, `attachment_not_found`."}),
        },
    )
    def get(
        self, request: Request, identity_id: str, message_id: str, attachment_id: str
    ) -> HttpResponse:
        """Return the bytes of a file, to be saved."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        return serve(attachment_of(identity.id, message_id, attachment_id))


class RawView(ApiView):
    """One message as it went over the wire."""

    @described(
        operation_id="getRawMessage",
        tags=["messages"],
        responses={
            (200, RFC822): OpenApiResponse(
                OpenApiTypes.BINARY, description="The message in RFC 5322 form."
            ),
            **refusals(
                {
                    404: "`identity_not_found`, `message_not_found`.",
                    410: "`raw_expired`: the bytes are no longer kept.",
                }
            ),
        },
    )
    def get(self, request: Request, identity_id: str, message_id: str) -> HttpResponse:
        """Return the bytes of a message: as composed, without Bcc, or as received."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        return serve(raw_of(identity.id, message_id))


class LinkView(ApiView):
    """One file, for whoever holds its signed link."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @described(
        operation_id="openLink",
        tags=["messages"],
        auth=[],
        responses={
            **BYTES,
            **refusals({404: "`attachment_not_found`."}),
        },
    )
    def get(self, request: Request, token: str) -> HttpResponse:
        """Return the bytes of the file that a link leads to, until the link expires."""
        return serve(linked_file(token))


def serve(file: ServedFile) -> HttpResponse:
    """Return a file with headers that keep it from being run, framed or kept."""
    response = HttpResponse(file.content, content_type=file.content_type)
    response["Content-Disposition"] = (
        f'attachment; filename="{plain_fallback(file.filename)}";'
        f" filename*=UTF-8''{quote(file.filename, safe='')}"
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox"
    response["Cache-Control"] = "private, no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response
