"""An SMTP dialogue up to the final dot: whatever fails in here, nothing was sent.

Each step returns None to go on, or the refusal that ends the call; it raises NotSent or
OSError for what may be tried again later (tables, section 6, first row).
"""

import ssl
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache

from core.deadline import Deadline
from core.network import HostRefused, LookupFailed, connect
from core.points import reach
from outbound.transports.base import (
    ClaimLost,
    OutgoingMessage,
    Phase,
    RecipientRefusal,
    Rejected,
    RejectReason,
)
from outbound.transports.smtp_session import Session
from outbound.transports.smtp_wire import (
    Reply,
    canonical,
    ehlo_form,
    in_base64,
    is_envelope_address,
    stuffed,
)

RELAY_PORTS = (465, 587)
SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """What a deployment decides about relays.

    Seconds: ``connect`` covers look-up, connection, TLS from the start and greeting;
    ``command`` each command with its reply; ``final`` the reply to the final dot, at
    most a quarter of the message's own deadline: it shrinks when claims are shortened.
    ``ca_file`` is the deployment's CA bundle; a relay may carry its own.
    ``allow_private`` lets hosts of any kind pass (the local environment);
    ``refused_hosts`` are names that no relay may have: API host, platform domain.
    """

    ehlo_name: str
    connect_seconds: float
    command_seconds: float
    final_seconds: float
    allow_private: bool
    ca_file: str | None = None
    refused_hosts: Collection[str] = ()


class NotSent(Exception):
    """The call ends before the final dot; the same may be tried again later.

    ``in_step``: the server still listens, so that QUIT can be said.
    """

    def __init__(self, code: str, detail: str, *, in_step: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.in_step = in_step


class Dialogue:
    """The steps of one call, in order; ``step`` names the one that is under way."""

    session: Session

    def __init__(
        self, settings: SmtpSettings, message: OutgoingMessage, stack: ExitStack
    ) -> None:
        if message.relay is None:
            raise ValueError("a message for the SMTP transport names its relay")
        self._settings, self._message, self._stack = settings, message, stack
        self._relay = message.relay
        self._content = canonical(message.mime)
        self.step = "claim"
        self.deadline = Deadline(min(message.deadline_seconds, message.seconds_left()))
        self.final_seconds = min(settings.final_seconds, message.deadline_seconds / 4)
        self.refused: list[RecipientRefusal] = []
        self.deferred: list[tuple[str, Reply]] = []

    def walk(self) -> Rejected | None:
        """Take the steps in order; None: all is said but the final dot."""
        steps = (self.open, self.greet, self.log_in, self.envelope, self.content)
        for step in steps:
            if (refusal := step()) is not None:
                return refusal
        return None

    def open(self) -> None:
        """Connect to the relay, past the guard, and read its greeting."""
        self._check_claim()
        self._announce(Phase.CONNECTING)
        self.step = "connect"
        time = Deadline(min(self._settings.connect_seconds, self.deadline.left()))
        self._connect(time)
        self.session.begin(time.left())
        if self._relay.implicit_tls:
            self._secure()
        self.step = "greeting"
        self._expect(self.session.reply(), 220)

    def greet(self) -> Rejected | None:
        """Say EHLO; on a clear connection demand STARTTLS, and say EHLO again after."""
        self._hello()
        if self._relay.implicit_tls:
            return None
        if not self.session.has_extn("starttls"):
            return Rejected(
                RejectReason.SENDER_DOMAIN_UNAVAILABLE,
                "smtp_tls_required",
                "the relay does not offer STARTTLS; no credentials were sent",
                issue="smtp_tls_required",
            )
        self.step = "STARTTLS"
        self._expect(self.session.command("STARTTLS"), 220)
        self.session.begin(self._settings.command_seconds)
        self._secure()
        self._hello()
        return None

    def log_in(self) -> Rejected | None:
        """Log in, unless the relay has no user."""
        if not self._relay.username:
            return None
        self.step = "AUTH"
        reply = self.session.log_in(self._relay.username, self._relay.password)
        if reply is None:
            raise NotSent(
                "auth_not_offered", "the relay offers no login we speak", in_step=True
            )
        if reply.is_for_good:
            return Rejected(
                RejectReason.SENDER_DOMAIN_UNAVAILABLE,
                str(reply.code),
                self.told(reply),
                issue="smtp_auth_failed",
            )
        self._expect(reply, 235)
        return None

    def envelope(self) -> Rejected | None:
        """Name the sender, then each recipient; nobody accepted means no DATA."""
        if (refusal := self._check_addresses()) is not None:
            return refusal
        self._announce(Phase.SENDING)
        self.step = "MAIL"
        reply = self.session.command("MAIL", self._mail_argument())
        if reply.is_for_good:
            return self.rejected(str(reply.code), self.told(reply))
        self._expect(reply, 250)
        for recipient in self._message.recipients:
            self._name(recipient)
        if len(self.refused) + len(self.deferred) < len(self._message.recipients):
            return None
        return self._nobody_accepted()

    def content(self) -> None:
        """Write all but the final dot, then ask once more whether we still may."""
        self.step = "DATA"
        self._expect(self.session.command("DATA"), 354)
        self.step = "content"
        self.session.write_content(stuffed(self._content))
        self._announce(Phase.AWAITING_REPLY)
        reach("smtp.before_final_dot")
        if self.session.has_more_to_say():
            raise ConnectionError("the relay spoke, or left, before the end")
        self._check_claim()

    # --- the claim -------------------------------------------------------------------

    def _check_claim(self) -> None:
        if self._message.seconds_left() < self.final_seconds:
            raise NotSent("claim_too_old", f"{self.step}: too little of the claim left")

    def _announce(self, phase: Phase) -> None:
        try:
            self._message.announce(phase)
        except ClaimLost:
            raise
        except Exception as error:  # the database is away: stop while nothing is sent
            detail = f"the phase {phase} could not be recorded: {type(error).__name__}"
            raise NotSent("phase_not_recorded", detail) from error

    # --- parts of the steps ----------------------------------------------------------

    def _connect(self, time: Deadline) -> None:
        settings, relay = self._settings, self._relay
        if not settings.allow_private and relay.port not in RELAY_PORTS:
            raise NotSent("host_refused", "relays are reached on port 465 or 587")
        try:
            sock = connect(
                relay.host,
                relay.port,
                seconds=time.left(),
                allow_private=settings.allow_private,
                refused=settings.refused_hosts,
            )
        except HostRefused as error:
            raise NotSent("host_refused", f"the relay's host: {error}") from error
        except LookupFailed as error:
            raise NotSent("lookup_failed", f"look-up of the relay: {error}") from error
        except OSError as error:
            raise NotSent("connect_failed", f"connect: {error}") from error
        self._stack.callback(sock.close)
        self._stack.enter_context(self.deadline.kept_on(sock))
        self.session = Session(
            sock,
            ehlo_name=ehlo_form(settings.ehlo_name),
            command_seconds=settings.command_seconds,
            deadline=self.deadline,
        )
        self._stack.callback(self.session.close)

    def _secure(self) -> None:
        self.step = "TLS"
        try:
            context = verified_context(self._relay.ca, self._settings.ca_file)
            self.session.secure(context, self._relay.host.removesuffix("."))
        except (OSError, ValueError) as error:
            raise NotSent("tls_failed", f"TLS: {error}") from error

    def _hello(self) -> None:
        self.step = "EHLO"
        self._expect(self.session.greet(), 250)

    def _check_addresses(self) -> Rejected | None:
        addresses = (self._message.from_address, *self._message.recipients)
        if all(is_envelope_address(address) for address in addresses):
            return None
        return self.rejected("address_invalid", "an address cannot stand in a path")

    def _mail_argument(self) -> str:
        parts = [f"FROM:<{self._message.from_address}>"]
        if self.session.has_extn("size"):
            parts.append(f"SIZE={len(self._content)}")
        if self.session.has_extn("8bitmime") and not self._content.isascii():
            parts.append("BODY=8BITMIME")
        return " ".join(parts)

    def _name(self, recipient: str) -> None:
        self.step = "RCPT"
        reply = self.session.command("RCPT", f"TO:<{recipient}>")
        if reply.is_for_good:
            told = self.told(reply, own=recipient)
            self.refused.append(RecipientRefusal(recipient, str(reply.code), told))
        elif reply.is_for_now and not reply.ends_session:
            self.deferred.append((recipient, reply))
        else:
            self._expect(reply, 250, 251)

    def _nobody_accepted(self) -> Rejected:
        if not self.deferred:
            return self.rejected(self.refused[0].code, self.refused[0].detail)
        self.session.leave("RSET")
        recipient, reply = self.deferred[0]
        detail = f"RCPT: {self.told(reply, own=recipient)}"
        raise NotSent(str(reply.code), detail, in_step=True)

    # --- what is said of it ----------------------------------------------------------

    def _expect(self, reply: Reply, *good: int) -> None:
        if reply.code not in good:
            in_step = not reply.ends_session
            detail = f"{self.step}: {self.told(reply)}"
            raise NotSent(str(reply.code), detail, in_step=in_step)

    def rejected(self, code: str, detail: str) -> Rejected:
        """Return the result for a refusal that is final."""
        refused = tuple(self.refused)
        return Rejected(RejectReason.PROVIDER_VALIDATION, code, detail, refused)

    def told(self, reply: Reply, own: str = "") -> str:
        """Return a reply as it may be kept: no secret in it, no other recipient."""
        user, password = self._relay.username, self._relay.password
        secrets = {password, in_base64(password), in_base64(f"\0{user}\0{password}")}
        hidden = {word for word in secrets if len(word) >= SHORTEST_SECRET}
        return reply.told({*hidden, *self._message.recipients} - {own})


@lru_cache(maxsize=64)
def verified_context(ca: str | None, ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the relay's bundle, else the file's or system's.

    There is no way to switch verification off. Raises OSError for an unusable bundle.
    What stands around the certificates may be in any letters (RFC 7468, section 2).
    """
    if ca:
        plain = ca.encode("ascii", "ignore").decode()
        return ssl.create_default_context(cadata=plain)
    return ssl.create_default_context(cafile=ca_file or None)
