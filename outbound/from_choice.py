"""Which of an identity's addresses a message comes from: pure.

The page, "From address and fallback"; mailboxes, sections 2.4 and 3.7. What becomes of
the address's domain until the message leaves is asked again at claim time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from core.addresses import normalize
from core.errors import AddressInvalid, AddressUnsupported, InvalidRequest
from domains.statuses import DomainKind, DomainState
from mailboxes.statuses import AddressRole, AddressStatus

QUIET_BEFORE_UNPINNING: Final = timedelta(hours=72)
_ANSWERING: Final = frozenset({AddressStatus.ACTIVE, AddressStatus.RETIRING})


class OwnAddress(Protocol):
    """An address of the identity, and what its domain is like now."""

    @property
    def address(self) -> str:
        """Return the address, normalised."""

    @property
    def role(self) -> AddressRole:
        """Return whether it is the primary one."""

    @property
    def status(self) -> AddressStatus:
        """Return how far it may be used."""

    @property
    def domain_kind(self) -> DomainKind:
        """Return whether its domain is the platform's."""

    @property
    def domain_state(self) -> DomainState:
        """Return how far its domain can be trusted."""


@dataclass(frozen=True, slots=True)
class ThreadSender:
    """What a thread remembers of how it was answered.

    ``used`` are the From addresses of its outbound messages. A fallback send never
    changes ``reply_from_address``: that is the address to come back to.
    """

    reply_from_address: str | None
    fallback_pinned: bool
    last_at: datetime
    used: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FromChoice:
    """The address chosen, and whether the thread is no longer pinned to fallback."""

    address: str
    unpins: bool = False


def choose_from(
    own: Sequence[OwnAddress],
    *,
    wanted: str | None,
    thread: ThreadSender | None,
    now: datetime,
) -> FromChoice:
    """Return the address that a message comes from (policy step 13).

    ``wanted`` is the caller's ``from_address``, as it came; ``thread`` is None for a
    send that starts one. A ``pending`` address passes: step 14 answers for it. Raises
    InvalidRequest with the path ``from_address``.
    """
    if wanted is not None:
        return FromChoice(_named(own, wanted, thread).address)
    if thread is None:
        return FromChoice(_primary(own).address)
    return _on_thread(own, thread, now)


def is_still_pinned(
    own: Sequence[OwnAddress], thread: ThreadSender, *, now: datetime
) -> bool:
    """Tell whether a thread goes on being answered from the platform's domain.

    Until its own domain is healthy again and the thread has been quiet for 72 hours:
    a correspondent does not see the address change in the middle of an exchange.
    """
    original = _find(own, thread.reply_from_address)
    is_well = original is not None and original.domain_state == DomainState.HEALTHY
    is_quiet = thread.last_at < now - QUIET_BEFORE_UNPINNING
    return thread.fallback_pinned and not (is_well and is_quiet)


def _on_thread(
    own: Sequence[OwnAddress], thread: ThreadSender, now: datetime
) -> FromChoice:
    is_pinned = is_still_pinned(own, thread, now=now)
    unpins = thread.fallback_pinned and not is_pinned
    platform = next((a for a in own if a.domain_kind == DomainKind.PLATFORM), None)
    if is_pinned and platform is not None and platform.status in _ANSWERING:
        return FromChoice(platform.address)
    remembered = _find(own, thread.reply_from_address)
    if remembered is not None and remembered.status in _ANSWERING:
        return FromChoice(remembered.address, unpins)
    return FromChoice(_primary(own).address, unpins)


def _named(
    own: Sequence[OwnAddress], wanted: str, thread: ThreadSender | None
) -> OwnAddress:
    found = _find(own, _normal(wanted))
    if found is None or found.status == AddressStatus.RETIRED:
        raise InvalidRequest.at(
            "from_address", "This is no active address of the identity."
        )
    if found.status == AddressStatus.RETIRING and not _has_used(thread, found.address):
        raise InvalidRequest.at(
            "from_address",
            "This address is retiring: it may only answer threads that use it.",
        )
    return found


def _has_used(thread: ThreadSender | None, address: str) -> bool:
    if thread is None:
        return False
    return address == thread.reply_from_address or address in thread.used


def _primary(own: Sequence[OwnAddress]) -> OwnAddress:
    for candidate in own:
        if candidate.role == AddressRole.PRIMARY:
            return candidate
    raise InvalidRequest.at("from_address", "The identity has no primary address.")


def _find(own: Sequence[OwnAddress], address: str | None) -> OwnAddress | None:
    return next((a for a in own if a.address == address), None)


def _normal(address: str) -> str | None:
    try:
        return normalize(address)
    except (AddressInvalid, AddressUnsupported):
        return None
