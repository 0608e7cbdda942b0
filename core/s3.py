"""Objects in an S3-compatible store, with their metadata as object metadata."""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError
from storages.backends.s3 import S3Storage

from core.disk import SIDECAR

METADATA_LIMIT = 2000
"""Octets of metadata that travel as headers; S3 takes 2 KB, names included."""

_MARK = "sidecar"

_DEFAULTS = Config(
    connect_timeout=3,
    read_timeout=6,
    # with the whole call within 10 s, a second attempt is all that fits
    retries={"total_max_attempts": 2, "mode": "standard"},
    # most compatible stores do not know the newer checksum trailers
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class MetadataS3Storage(S3Storage):  # type: ignore[misc]  # it has no stubs
    """S3 with a body and its metadata written by one request.

    What is too much for headers (a long sealed BCC list) goes into a sidecar object,
    written first. Names go with dashes: proxies drop headers with underscores.
    """

    def __init__(self, **options: Any) -> None:
        """Take django-storages' options; time-outs of ``client_config`` win."""
        super().__init__(**options)
        self.client_config: Config = _DEFAULTS.merge(self.client_config)
        self._making = threading.Lock()
        self._client: Any = None

    def write(self, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        """Store the body and its metadata; what stood there is replaced."""
        headers = {name.replace("_", "-"): value for name, value in metadata.items()}
        size = sum(len(n) + len(v.encode()) for n, v in headers.items())
        if size > METADATA_LIMIT or not all(v.isascii() for v in headers.values()):
            self._put(key + SIDECAR, json.dumps(dict(metadata)).encode(), {})
            headers = {_MARK: "1"}
        self._put(key, body, headers)

    def read(self, key: str) -> bytes:
        """Return the body; raises FileNotFoundError."""
        body: bytes = self._ask("get_object", key)["Body"].read()
        return body

    def read_metadata(self, key: str) -> dict[str, str]:
        """Return the metadata; raises FileNotFoundError when there is no body."""
        headers: dict[str, str] = self._ask("head_object", key)["Metadata"]
        if _MARK in headers:
            found: dict[str, str] = json.loads(self.read(key + SIDECAR))
            return found
        return {name.replace("-", "_"): value for name, value in headers.items()}

    def remove(self, key: str) -> None:
        """Delete body and sidecar, as far as they are there; the body first."""
        for name in (key, key + SIDECAR):
            with suppress(FileNotFoundError):
                self._ask("delete_object", name)

    def listing(self, after: str, limit: int) -> list[tuple[str, datetime]]:
        """Return keys past ``after`` in the order of S3, and when each was stored.

        Pages are asked for until there are ``limit`` keys, or no more.
        """
        root = self._normalize_name("")
        found: list[tuple[str, datetime]] = []
        start, is_more = after, True
        while is_more and len(found) < limit:
            page = self._page(start, root)
            is_more = page["IsTruncated"]
            names = [
                (o["Key"][len(root) :], o["LastModified"]) for o in page["Contents"]
            ]
            start = names[-1][0] if names else start
            found += [named for named in names if not named[0].endswith(SIDECAR)]
        return found[:limit]

    def _page(self, start: str, root: str) -> dict[str, Any]:
        page: dict[str, Any] = self._shared_client().list_objects_v2(
            Bucket=self.bucket_name,
            Prefix=root,
            **({"StartAfter": root + start} if start else {}),
        )
        return {"Contents": [], **page}

    def _shared_client(self) -> Any:
        # Making one takes half a second. Unlike the resources that django-storages
        # keeps for each thread, a client may be shared.
        with self._making:
            if self._client is None:
                self._client = self.connection.meta.client
            return self._client

    def _put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        parameters = {
            "ContentType": self.default_content_type,
            **self.get_object_parameters(key),
        }
        self._ask("put_object", key, Body=body, Metadata=headers, **parameters)

    def _ask(self, operation: str, key: str, **parameters: Any) -> dict[str, Any]:
        call = getattr(self._shared_client(), operation)
        name = self._normalize_name(key)
        try:
            answer: dict[str, Any] = call(
                Bucket=self.bucket_name, Key=name, **parameters
            )
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                raise FileNotFoundError(key) from error
            raise
        return answer
