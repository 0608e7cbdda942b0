"""The OpenAPI description: what every route has in common is said once, here."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiResponse

from core.schemas import Error

COMMON = {
    "401": "No usable key: `unauthenticated`, `key_expired`, `key_revoked`.",
    "403": "Not for this key: `permission_denied`, `scope_denied`.",
    "404": "Not there, or out of the key's reach.",
    "429": "`rate_limited`: wait for `Retry-After`.",
    "500": "`internal_error`: a bug of ours.",
    "503": "`unavailable`: repeat with the same Idempotency-Key.",
}
"""Refusals that every route with a key may give."""

MALFORMED = "`invalid_request`: `details.errors` lists each path."
WITH_PARAMETER = {
    "Idempotency-Key": {
        "400": "`invalid_idempotency_key`, or " + MALFORMED,
        "409": "`idempotency_conflict`, `request_in_progress`.",
    },
    "cursor": {"410": "`cursor_expired`: read again from the first page."},
}
"""What a parameter of this name brings with it."""
WITH_QUERY = {"400": MALFORMED}
WITH_BODY = {
    "400": MALFORMED,
    "411": "`length_required`: send Content-Length.",
    "413": "`payload_too_large`: the body is over 7 MiB.",
}


class KeyScheme(OpenApiAuthenticationExtension):
    """Describes the Bearer key."""

    target_class = "pylota.api.authentication.KeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "pmk_…"}


class Described(AutoSchema):
    """Adds the refusals that every route with a key shares."""

    def get_summary(self) -> str:
        """Return the first line of what the call promises, for lists of routes."""
        promise: str = self.get_description()
        return promise.partition("\n")[0].removesuffix(".")

    def get_request_serializer(self) -> Any:
        """Return what a body holds; a DELETE has one only where it is named."""
        return None if self.method == "DELETE" else super().get_request_serializer()

    def _get_request_body(self, direction: str = "request") -> Any:
        described: Any = super()._get_request_body  # untyped
        if self.method != "DELETE" or self.get_request_serializer() is None:
            return described(direction)
        self.method = "POST"  # the library knows no DELETE with a body
        try:
            return described(direction)
        finally:
            self.method = "DELETE"

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """Return the operation with the common refusals among its responses."""
        operation = super().get_operation(*args, **kwargs)
        if operation is None or not self.view.authentication_classes:
            return operation
        responses = operation["responses"]
        for status, text in _shared_refusals(operation).items():
            if status not in responses:
                refusal = OpenApiResponse(Error, description=text)
                described: Any = self._get_response_for_code  # untyped
                responses[status] = described(refusal, status)
        operation["responses"] = dict(sorted(responses.items()))
        return operation


def _shared_refusals(operation: dict[str, Any]) -> dict[str, str]:
    """Return what a route may answer because of what it takes."""
    found = dict(COMMON)
    if "requestBody" in operation:
        found |= WITH_BODY
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "query":
            found |= WITH_QUERY
    for parameter in operation.get("parameters", []):
        found |= WITH_PARAMETER.get(parameter["name"], {})
    return found
