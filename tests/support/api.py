"""Talking to the API in-process, as a client with a key would."""

import json
import re
from typing import Any

from django.test import Client

JSON = "application/json"


class ApiClient:
    """A client with one key and one identity."""

    def __init__(self, secret: str, identity_id: str) -> None:
        """Take the key that is sent along, and whose messages are meant."""
        self.secret = secret
        self.identity_id = identity_id
        self._client = Client()

    @property
    def path(self) -> str:
        """Return the path of the identity's messages."""
        return f"/v1/identities/{self.identity_id}/messages"

    def get(self, path: str, **headers: str) -> Any:
        """Get a path with the key."""
        return self._client.get(path, headers=self._with_key(headers))

    def send(
        self, body: Any, *, key: str | None = "key-1", path: str | None = None
    ) -> Any:
        """Post a body to the identity's messages under an Idempotency-Key."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._client.post(
            path or self.path,
            body,
            content_type=JSON,
            headers=self._with_key(headers),
        )

    def answer(
        self,
        operation: str,
        message_id: str,
        body: Any = None,
        *,
        key: str | None = "key-1",
        query: str = "",
    ) -> Any:
        """Post to a message's ``reply``, ``reply-all`` or ``forward``."""
        path = f"{self.path}/{message_id}/{operation}{query}"
        return self.send(
            {"text": "Fine."} if body is None else body, key=key, path=path
        )

    def post(
        self, path: str, body: Any = None, *, key: str | None = None, **headers: str
    ) -> Any:
        """Post a JSON body, or none, under an Idempotency-Key if one is given."""
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._with_body("POST", path, body, headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        """Patch a path with a JSON body."""
        return self._with_body("PATCH", path, body, headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        """Put a JSON body, or none."""
        return self._with_body("PUT", path, body, headers)

    def delete(self, path: str, body: Any = None, **headers: str) -> Any:
        """Delete a path; some ask for a JSON body."""
        return self._with_body("DELETE", path, body, headers)

    def _with_body(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return self._client.generic(
            method, path, data, content_type=JSON, headers=self._with_key(headers)
        )

    def request(self, method: str, path: str, **extra: Any) -> Any:
        """Make any request, without the key unless it is given."""
        return self._client.generic(method, path, **extra)

    def _with_key(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}", **headers}


def booking(**changes: Any) -> dict[str, Any]:
    """Return an ordinary body of a send, with changes."""
    return {
        "to": ["jo@example.net"],
        "subject": "Your booking",
        "text": "See you on Friday.",
        **changes,
    }


def code_of(response: Any) -> str:
    """Return the code of a refusal."""
    return str(response.json()["error"]["code"])


def assert_fix_can_be_followed(response: Any) -> None:
    """Hold that a refusal tells a step, and carries all that the step speaks of."""
    error = response.json()["error"]
    assert error["fix"].endswith("."), error
    for name in re.findall(r"details\.(\w+)", error["fix"]):
        assert error["details"].get(name), error
    if "Retry-After" in error["fix"]:
        assert int(response["Retry-After"]) > 0
    if "Allow header" in error["fix"]:
        assert response["Allow"]


def paths_of(response: Any) -> list[str]:
    """Return the paths that a refusal lists."""
    errors = response.json()["error"]["details"].get("errors", [])
    return [error["path"] for error in errors]
