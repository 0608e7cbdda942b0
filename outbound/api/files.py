"""Attachments over HTTP: bytes that no browser runs (REST contract 2.12)."""

from urllib.parse import quote

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from core.schemas import Error
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.selectors import identity_in_reach
from outbound.filenames import plain_fallback
from outbound.files import ServedFile, attachment_of, linked_file

BYTES = {
    (200, "application/octet-stream"): OpenApiResponse(
        OpenApiTypes.BINARY, description="The file's bytes."
    )
}


class AttachmentView(ApiView):
    """One file of a message."""

    @extend_schema(operation_id="getAttachment", tags=["messages"], responses=BYTES)
    def get(
        self, request: Request, identity_id: str, message_id: str, attachment_id: str
    ) -> HttpResponse:
        """Return the bytes of a file, to be saved."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        return serve(attachment_of(identity.id, message_id, attachment_id))


class LinkView(ApiView):
    """One file, for whoever holds its signed link."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @extend_schema(
        operation_id="openLink",
        tags=["messages"],
        auth=[],
        responses={
            **BYTES,
            404: OpenApiResponse(Error, description="`attachment_not_found`."),
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
