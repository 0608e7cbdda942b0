"""What belongs to no app: the service's health, and its description."""

import functools
from typing import Any

from django.http import JsonResponse
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.views import ApiView
from pylota.api.schemas import Health


class HealthView(ApiView):
    """Tells whether this process answers; asks nothing else."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @described(operation_id="health", auth=[], responses=Health, tags=["service"])
    def get(self, request: Request) -> Response:
        """Answer that the process serves requests; nothing else is asked."""
        return Response({"status": "ok"})


class OpenApiView(ApiView):
    """Describes every route, in OpenAPI 3."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @described(exclude=True)
    def get(self, request: Request) -> JsonResponse:
        """Return the description."""
        return JsonResponse(describe())


@functools.cache
def describe() -> dict[str, Any]:
    """Return the description of every route; made once a process, when asked for."""
    from pylota.api.description import Generator  # no server loads it at its start

    generator: Any = Generator  # untyped
    schema: dict[str, Any] = generator().get_schema(request=None, public=True)
    return schema
