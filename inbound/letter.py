"""A message that is about to be taken in, read and with its objects stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inbound.copies import StoredFile
from inbound.parse import ParsedMail
from inbound.reading import Bodies


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What the transaction writes down, but for what the mailbox adds to it."""

    message_id: str
    mail: ParsedMail
    bodies: Bodies
    files: Sequence[StoredFile] = field(repr=False)
    raw_key: str
    raw_size: int
    raw_sha256: str

    @property
    def rfc_message_id(self) -> str:
        """Return its Message-ID, or one made from its octets where it has none."""
        return self.mail.message_id or f"{self.raw_sha256}@synthetic.invalid"
