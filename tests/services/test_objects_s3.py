"""The object store over S3: the same functions, against a real HTTP server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.config import Config
from django.core.files.storage import storages

from core import objects
from core.s3 import MetadataS3Storage
from tests.support.s3_server import S3Server, s3_server

KEY = "t/ten_1/i/idn_1/out/msg_1.eml"
METADATA = {"tenant": "ten_1", "idem_key_sha256": "ab" * 32, "operation": "send"}


@pytest.fixture
def server(settings: Any) -> Iterator[S3Server]:
    with s3_server() as running:
        settings.STORAGES = {
            **settings.STORAGES,
            "objects": {
                "BACKEND": "core.s3.MetadataS3Storage",
                "OPTIONS": {
                    "bucket_name": "mail",
                    "endpoint_url": running.url,
                    "access_key": "test",
                    "secret_key": "test",
                    "region_name": "eu-central-1",
                    "addressing_style": "path",
                    "location": "pylota",
                },
            },
        }
        yield running


def test_body_and_metadata_are_one_object(server: S3Server) -> None:
    objects.put(KEY, b"body\x00\xff", metadata=METADATA)

    assert server.order == [("PUT", f"/mail/pylota/{KEY}")]
    assert server.stored[f"/mail/pylota/{KEY}"][1] == {
        "x-amz-meta-tenant": "ten_1",
        "x-amz-meta-idem-key-sha256": "ab" * 32,
        "x-amz-meta-operation": "send",
    }
    assert objects.get(KEY) == b"body\x00\xff"
    assert objects.metadata(KEY) == METADATA
    assert objects.exists(KEY)


def test_metadata_too_long_for_headers_stands_before_the_body(server: S3Server) -> None:
    sealed = {**METADATA, "bcc_sealed": "pm1." + "x" * 5000}

    objects.put(KEY, b"body", metadata=sealed)

    assert server.order == [
        ("PUT", f"/mail/pylota/{KEY}.meta"),
        ("PUT", f"/mail/pylota/{KEY}"),
    ]
    assert objects.metadata(KEY) == sealed
    objects.delete(KEY)
    assert server.stored == {}


def test_a_missing_object_is_said_to_be_missing(server: S3Server) -> None:
    for call in (objects.get, objects.metadata):
        with pytest.raises(objects.ObjectMissing):
            call(KEY)
    assert objects.exists(KEY) is False
    objects.delete(KEY)


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_a_refused_put_is_the_store_being_away(server: S3Server, status: int) -> None:
    server.failing = status

    with pytest.raises(objects.ObjectStoreAway):
        objects.put(KEY, b"x", metadata={})


def test_a_store_that_hangs_is_away_in_time(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "SECONDS", 0.3)
    server.hung.clear()

    with pytest.raises(objects.ObjectStoreAway, match="does not answer"):
        objects.get(KEY)


def test_time_outs_are_set_unless_the_deployment_says_otherwise(
    server: S3Server,
) -> None:
    configured = cast(MetadataS3Storage, storages["objects"]).client_config
    assert (configured.connect_timeout, configured.read_timeout) == (3, 6)
    assert configured.retries["total_max_attempts"] == 2
    assert configured.s3 == {"addressing_style": "path"}

    own = MetadataS3Storage(bucket_name="b", client_config=Config(read_timeout=1))
    assert (own.client_config.connect_timeout, own.client_config.read_timeout) == (3, 1)


def test_keys_are_listed_page_by_page_without_their_sidecars(server: S3Server) -> None:
    # Given three objects, one with a sidecar, and a store that gives two names a page
    server.page = 2
    keys = [f"t/ten_1/i/idn_1/out/msg_{n}.eml" for n in range(3)]
    for key in keys:
        large = {"bcc": "x" * 3000} if key == keys[1] else {}
        objects.put(key, b"body", metadata=large)
    server.stored["/mail/elsewhere/x"] = (b"", {})

    # When they are listed, whole and in turns
    found = objects.listing(limit=10)
    first = objects.listing(limit=2)
    rest = objects.listing(after=first[-1][0], limit=2)

    # Then each is named once, with the instant of the store
    assert [key for key, _ in found] == keys
    assert [key for key, _ in first + rest] == keys
    assert {at for _, at in found} == {datetime(2026, 11, 30, 6, tzinfo=UTC)}
    assert objects.listing(after=keys[2], limit=2) == []
