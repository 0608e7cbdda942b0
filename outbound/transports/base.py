"""What a transport is given and what it may answer: a closed sum, and nothing else.

A transport speaks one protocol. It knows nothing of rows, retries or Celery.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol


class RejectReason(StrEnum):
    """Why a message is definitely not sent, and never will be."""

    PROVIDER_VALIDATION = "provider_validation"
    SENDER_DOMAIN_UNAVAILABLE = "sender_domain_unavailable"
    RECIPIENT_SUPPRESSED = "recipient_suppressed_by_provider"


class RetryClass(StrEnum):
    """Why a message is definitely not sent, for now; each has its back-off."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    PAUSED = "paused"
    RELAY = "relay"


class UncertainReason(StrEnum):
    """Why nobody can tell whether a message was sent."""

    TIMEOUT = "transport_timeout"
    CONNECTION_LOST = "transport_connection_lost"


class Phase(StrEnum):
    """How far a call has got; announced before its first octet leaves."""

    CONNECTING = "connecting"
    SENDING = "sending"
    AWAITING_REPLY = "awaiting_reply"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class RecipientRefusal:
    """One recipient that the relay refused with a 5yz reply to RCPT TO."""

    address: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The transport took responsibility for the recipients not listed here.

    ``deferred`` recipients were answered 4yz to RCPT TO: they stay queued. ``bounced``
    are taken and have bounced for good already; ``suppressed`` are on the provider's
    own list, and were left out. Without an id there is none that events could name.
    """

    provider_message_id: str | None
    rfc_message_id: str | None = None
    refused: tuple[RecipientRefusal, ...] = ()
    deferred: tuple[str, ...] = ()
    bounced: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Definitely not sent; trying again would not help.

    ``issue`` names what is wrong with the domain, e.g. ``smtp_auth_failed``; ``alert``
    what the operator has to know.
    """

    reason: RejectReason
    code: str
    detail: str
    refused: tuple[RecipientRefusal, ...] = ()
    issue: str | None = None
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class RecipientSuppressed:
    """Definitely not sent to anybody: the provider refuses some of the recipients.

    ``found`` are those, each with the provider's reason; empty when nobody can tell.
    """

    code: str
    detail: str
    found: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Definitely not sent; trying again later may help.

    ``alert`` names what the operator has to know.
    """

    retry_class: RetryClass
    code: str
    detail: str = ""
    refused: tuple[RecipientRefusal, ...] = ()
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call may have sent the message: trying again may send it twice."""

    reason: UncertainReason
    detail: str


TransportResult = Accepted | Rejected | RecipientSuppressed | RetryLater | Unknown


@dataclass(frozen=True, slots=True)
class Relay:
    """Where and how to submit: the customer's relay, or the platform's.

    ``implicit_tls`` is TLS from the first octet (port 465); otherwise STARTTLS is
    demanded. ``ca`` is a PEM bundle; None means the deployment's or the system's.
    """

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    implicit_tls: bool = False
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One transport call: the composed bytes, the envelope, and the time it may take.

    ``recipients`` are the deliveries still queued, ``fields`` which header named each
    (to, cc, or bcc for none); ``journal_bcc`` gets a copy of its own, from which the
    provider's Message-ID is learned. ``seconds_left`` says how long the claim still
    lasts; ``announce`` commits a phase before its first octet leaves and raises
    ClaimLost when the claim has ended meanwhile. ``asks_first`` wants a provider asked
    something harmless before: calls have ended in doubt, and this one is the probe.
    """

    message_id: str
    rfc_message_id: str
    domain: str
    from_address: str
    recipients: tuple[str, ...]
    mime: bytes = field(repr=False)
    relay: Relay | None = None
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    journal_bcc: str | None = None
    asks_first: bool = False
    deadline_seconds: float = 240.0
    seconds_left: Callable[[], float] = field(default=lambda: 300.0, repr=False)
    announce: Callable[[Phase], None] = field(default=lambda phase: None, repr=False)


PROVIDER_AWAY: Final = "provider_away"
"""The code of a probe whose provider did not answer the question before it."""

QUESTION_SECONDS: Final = 10.0
"""How long a provider may take to answer that question."""


class ClaimLost(Exception):
    """The claim has ended, or too little of it is left: no call may be made."""


class MailTransport(Protocol):
    """One way out."""

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Make one call and say how it ended; raise ClaimLost if none was made."""
        ...
