"""The `webhooks` of the description: what is posted to endpoints, type by type."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from webhooks.schemas import EVENTS

REFERENCE: Final = "#/components/schemas/{model}"
HEADERS: Final = {
    "webhook-id": "The event's id, the same on every attempt.",
    "webhook-timestamp": "Unix seconds of this attempt; refuse one over 5 minutes off.",
    "webhook-signature": "`v1,` and base64 of HMAC-SHA256 over"
    " `{webhook-id}.{webhook-timestamp}.{body}`; several, apart by spaces, while a"
    " secret is being replaced.",
}
ANSWERS: Final = {
    "2XX": {"description": "It was taken; anything else is tried again."},
    "410": {"description": "The endpoint is gone, and is told nothing more."},
}


def with_events(description: dict[str, Any]) -> dict[str, Any]:
    """Return the description with a schema of each type of event, and who gets it."""
    schemas: dict[str, Any] = description["components"]["schemas"]
    for name, schema in _schemas():
        known = schemas.setdefault(name, schema)  # an identity is described already
        assert _names(known) == _names(schema), name  # noqa: S101  one name, one thing
    description["components"]["schemas"] = dict(sorted(schemas.items()))
    description["webhooks"] = {name: {"post": _post(name)} for name in sorted(EVENTS)}
    return description


def _post(event_type: str) -> dict[str, Any]:
    model = EVENTS[event_type]
    schema = {"$ref": REFERENCE.format(model=model.__name__)}
    return {
        "operationId": f"on{model.__name__.removesuffix('Event')}",
        "summary": str(model.__doc__).removesuffix("."),
        "tags": ["events"],
        "parameters": [
            {
                "in": "header",
                "name": name,
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        },
        "responses": ANSWERS,
        "security": [],
    }


def _names(schema: dict[str, Any]) -> set[str]:
    return {*schema.get("properties", {}), *schema.get("enum", [])}


def _schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    wanted: list[Any] = [(model, "serialization") for model in EVENTS.values()]
    _, found = models_json_schema(wanted, ref_template=REFERENCE)
    for name, schema in found["$defs"].items():
        # to a reader it is open: a later version adds fields
        if schema.get("additionalProperties") is False:
            del schema["additionalProperties"]
        yield name, schema
