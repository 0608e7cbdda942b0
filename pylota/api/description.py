"""The OpenAPI description: what every route has in common is said once, here."""

import re
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiResponse, extend_schema

from core.described import KEPT
from core.schemas import Error, example_of
from pylota.api.answer_headers import headers_of
from pylota.api.path_parts import PATH_PARTS
from pylota.api.webhooks import with_events

KEY: Final = "Idempotency-Key"
EXTENDED: Final = "kwargs"
"""Where ``extend_schema`` leaves what it made of a method."""
CODE: Final = re.compile(r"`[a-z_]+`")

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
    KEY: {
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


class Generator(SchemaGenerator):
    """Finds what each call keeps of itself for its description."""

    def get_schema(self, *args: Any, **kwargs: Any) -> Any:
        """Return the description of the routes, and of what endpoints are told."""
        made: Any = super()  # untyped
        return with_events(made.get_schema(*args, **kwargs))

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        """Return the view of a call, described as ``core.described`` kept it."""
        call = getattr(callback.cls, method.lower())
        if (what := vars(call).get(KEPT)) and not hasattr(call, EXTENDED):
            extend_schema(**what)(call)
        made: Any = super()  # untyped
        return made.create_view(callback, method, request)


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
        body = self._described_body(direction)
        if body is not None:
            body["required"] = self._needs_body()
        return body

    def _needs_body(self) -> bool:
        """Tell whether no body is a refusal: a POST or DELETE may name nothing."""
        form = self.get_request_serializer()
        has_required = any(f.is_required() for f in form.model_fields.values())
        always = self.method == "PATCH" or getattr(self.view, "sends", False)
        return always or has_required

    def _described_body(self, direction: str) -> Any:
        described: Any = super()._get_request_body  # untyped
        if self.method != "DELETE" or self.get_request_serializer() is None:
            return described(direction)
        self.method = "POST"  # the library knows no DELETE with a body
        try:
            return described(direction)
        finally:
            self.method = "DELETE"

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """Return the operation with all that it shares with the others."""
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return operation
        takes_key = bool(self.view.authentication_classes)
        if takes_key:
            self._add_refusals(operation)
        parameters = operation.get("parameters", [])
        for parameter in parameters:
            if parameter["in"] == "path":
                parameter.update(PATH_PARTS[parameter["name"]])
        repeats = any(p["name"] == KEY for p in parameters)
        for status, response in operation["responses"].items():
            response["headers"] = headers_of(
                status, takes_key=takes_key, repeats=repeats
            )
        return operation

    def _get_examples(self, serializer: Any, *args: Any, **kwargs: Any) -> Any:
        described: Any = super()._get_examples  # untyped
        if (found := described(serializer, *args, **kwargs)) or kwargs.get("extras"):
            return found
        shown = example_of(serializer)
        return {} if shown is None else {"Example": {"value": shown}}

    def _add_refusals(self, operation: dict[str, Any]) -> None:
        responses = operation["responses"]
        for status, text in _shared_refusals(operation).items():
            if status in responses:
                responses[status]["description"] = _completed(
                    responses[status]["description"], text
                )
            else:
                refusal = OpenApiResponse(Error, description=text)
                described: Any = self._get_response_for_code  # untyped
                responses[status] = described(refusal, status)
        operation["responses"] = dict(sorted(responses.items()))


def _completed(own: str, shared: str) -> str:
    """Return what a route says of a status, with the shared codes it does not name."""
    more = [code for code in CODE.findall(shared) if code not in own]
    return f"{own.removesuffix('.')}. Also {', '.join(more)}." if more else own


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
