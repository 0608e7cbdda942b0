"""The objects of a message that comes in: written before the row that names them."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from core import objects
from core.canonical import sha256_hex
from core.errors import ObjectStoreAway
from core.ids import new_id
from inbound.parse import ParsedFile
from inbound.risks import Judged, judge_file


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a message, where its bytes are, and what they were found to be."""

    id: str
    key: str
    sha256: str
    file: ParsedFile
    judged: Judged


class Copies:
    """What one try has written, so that it can be taken away again."""

    def __init__(self, *, tenant_id: str, identity_id: str, message_id: str) -> None:
        """Begin with nothing written."""
        self.folder = f"t/{tenant_id}/i/{identity_id}/m/{message_id}"
        self.raw_key = f"{self.folder}/raw.eml"
        self._metadata = {
            "tenant": tenant_id,
            "identity": identity_id,
            "message": message_id,
        }
        self._files: list[str] = []

    def write(self, raw: bytes, files: Sequence[ParsedFile]) -> list[StoredFile]:
        """Store the message as it came, and each of its files.

        Raises ObjectStoreAway.
        """
        self._put(self.raw_key, raw)
        stored = [self._stored(file) for file in files]
        for one in stored:
            self._files.append(one.key)
            self._put(one.key, one.file.content)
        return stored

    def discard(self) -> None:
        """Delete what was written, as far as the store lets us; the rest is swept."""
        self._delete([self.raw_key, *self._files])

    def discard_files(self) -> None:
        """Delete the files alone: the raw message is another try's as well."""
        self._delete(self._files)

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            for key in keys:
                objects.delete(key)
        except ObjectStoreAway as error:
            structlog.get_logger().warning("inbound_copy_orphaned", exc_info=error)

    def _stored(self, file: ParsedFile) -> StoredFile:
        id_ = new_id("att")
        return StoredFile(
            id=id_,
            key=f"{self.folder}/a/{id_}",
            sha256=sha256_hex(file.content),
            file=file,
            judged=judge_file(file.filename, file.content_type, file.content),
        )

    def _put(self, key: str, body: bytes) -> None:
        objects.put(key, body, metadata=self._metadata)
