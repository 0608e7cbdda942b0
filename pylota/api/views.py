"""What belongs to no app: the service's health, its description, the calling key."""

import functools
from typing import Any

from django.http import JsonResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.selectors import key_of
from outbound.serializers import instant
from pylota.api.schemas import Health, Key


class HealthView(ApiView):
    """Tells whether this process answers; asks nothing else."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @extend_schema(operation_id="health", auth=[], responses=Health, tags=["service"])
    def get(self, request: Request) -> Response:
        """Answer that the process serves requests; nothing else is asked."""
        return Response({"status": "ok"})


class OpenApiView(ApiView):
    """Describes every route, in OpenAPI 3."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @extend_schema(exclude=True)
    def get(self, request: Request) -> JsonResponse:
        """Return the description."""
        return JsonResponse(describe())


class MeView(ApiView):
    """Shows a key to its holder."""

    @extend_schema(operation_id="me", responses=Key, tags=["keys"])
    def get(self, request: Request) -> Response:
        """Return the calling key, without its secret."""
        caller = caller_of(request)
        row = key_of(caller)
        return Response(
            {
                "id": row.id,
                "name": row.name,
                "level": row.level,
                "mode": row.mode,
                "tenant_id": row.tenant_id,
                "identity_id": row.identity_id,
                "permissions": sorted(str(scope) for scope in caller.scopes),
                "expires_at": instant(row.expires_at),
                "revoked_at": instant(row.revoked_at),
                "last_used_at": instant(row.last_used_at),
                "created_at": instant(row.created_at),
            }
        )


@functools.cache
def describe() -> dict[str, Any]:
    """Return the description of every route; made once a process."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return schema
