"""What a list of sends in doubt is narrowed to, and what a pasted value is: pure."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime

from django.db.models import TextChoices

from core.addresses import normalize
from core.canonical import key_hash
from core.errors import AddressInvalid, AddressUnsupported
from core.ids import is_id


class Hint(TextChoices):
    """What there is to go by, beside the attempt itself."""

    ORPHAN = "orphan", "an event nearly matches"
    OTHERS = "others", "other recipients were heard of"
    NONE = "none", "nothing"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a list of sends in doubt is narrowed to; an empty value asks for all.

    ``q`` is a whole message id, address of either side, or Idempotency-Key. ``since``
    and ``until`` bound when the doubt began.
    """

    q: str = ""
    tenant: str = ""
    domain: str = ""
    transport: str = ""
    phase: str = ""
    evidence: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def kept(self) -> dict[str, str]:
        """Return what is asked for, as text: to store, and to ask the same again.

        Instants are in UTC and without a zone, as a browser's box for them takes them.
        """
        return {
            name: f"{value:%Y-%m-%dT%H:%M:%S}" if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
            if value
        }


def meant(pasted: str) -> dict[str, str]:
    """Return what a pasted value is: an id, an address, else a key, which is hashed."""
    term = pasted.strip()
    if not term:
        return {}
    as_id = "msg_" + term[4:].upper() if term[:4].lower() == "msg_" else term
    if is_id(as_id, "msg"):
        return {"message": as_id}
    if "@" in term:
        return {"address": _address(term.strip("<>"))}
    return {"key_hash": key_hash(term)}


def _address(term: str) -> str:
    try:
        return normalize(term)
    except (AddressInvalid, AddressUnsupported):
        return term


def bounded(asked: Asked, *, seen_at: datetime) -> Asked:
    """Return the same, but for what came into doubt after somebody looked."""
    until = seen_at if asked.until is None else min(asked.until, seen_at)
    return replace(asked, until=until)
