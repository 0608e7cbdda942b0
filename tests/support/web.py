"""A sender that talks HTTP to real web processes, on connections that it keeps."""

import http.client
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mailboxes.key_services import create_key
from mailboxes.models import Identity
from tests.factories import AddressFactory


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a JSON body, and the headers, in lower case."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def code(self) -> str:
        """Return the code of a refusal, or nothing."""
        return str(self.body.get("error", {}).get("code", ""))


@dataclass
class Sender:
    """One identity and its key; each thread keeps its connection to each process."""

    identity: Identity
    secret: str = field(repr=False)
    _kept: threading.local = field(default_factory=threading.local, repr=False)
    _made: list[http.client.HTTPConnection] = field(default_factory=list, repr=False)

    @classmethod
    def new(cls) -> "Sender":
        """Make an identity that may send, and a key of its tenant."""
        identity = AddressFactory.create().identity
        return cls(identity, create_key(name="web", tenant=identity.tenant).secret)

    def close(self) -> None:
        """Close every connection of every thread."""
        for connection in self._made:
            connection.close()

    @property
    def path(self) -> str:
        """Return where this identity's messages are."""
        return f"/v1/identities/{self.identity.id}/messages"

    def post(self, url: str, key: str, body: Mapping[str, Any]) -> Answer:
        """Post one send and return the answer; raises OSError when there is none."""
        headers = {
            "Authorization": f"Bearer {self.secret}",
            "Idempotency-Key": key,
            "Content-Type": "application/json",
        }
        return self._ask(url, "POST", self.path, json.dumps(body).encode(), headers)

    def get(self, url: str, path: str) -> Answer:
        """Get a path with the key."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        return self._ask(url, "GET", path, None, headers)

    def _ask(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        kept: dict[str, http.client.HTTPConnection] = self._kept.__dict__
        where = urlsplit(url)
        if url not in kept:
            kept[url] = http.client.HTTPConnection(
                str(where.hostname), where.port, timeout=60
            )
            self._made.append(kept[url])
        try:
            kept[url].request(method, path, body, dict(headers))
            response = kept[url].getresponse()
            return answer_of(response)
        except (OSError, http.client.HTTPException) as error:
            kept.pop(url).close()
            raise ConnectionError(str(error)) from error


def answer_of(response: http.client.HTTPResponse) -> Answer:
    """Return what came back, read to its end."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, json.loads(response.read()), headers)
