"""One tenant with many mailboxes, and rounds of everything that may happen to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from uuid import uuid4

from core.clock import database_now
from core.ids import new_id
from delivery.models import Attempt, Delivery, OutboundState, ProviderEvent
from mailboxes.models import Address, Identity, Mailbox, Message, Tenant, Thread
from outbound.claims import Claim
from outbound.transports.base import OutgoingMessage
from quota.models import Allowance, Hold
from tests.factories import DomainFactory, TenantFactory

RECIPIENTS = ("a@example.net", "b@example.net")
MAILS = (
    *((0, "queued"), (0, "uncertain"), (1, "uncertain")),
    *((0, "submitted"), (1, "submitted")),
)
"""What a round needs: of its own sender (0) or the next one (1), in which status."""

_threads = count(1)


@dataclass(frozen=True)
class Round:
    """What stands ready for one round."""

    record: Claim
    doubts: Sequence[str]
    bounces: Sequence[str]


class Storm:
    """A tenant's rows, made in bulk: its mailboxes, and each round's messages.

    The first mailboxes send; all have the same recipients. ``rounds`` is what to do.
    """

    def __init__(self, *, mailboxes: int, senders: int, rounds: int) -> None:
        self.now = database_now()
        self.tenant: Tenant = TenantFactory.create()
        self.domain = DomainFactory.create(tenant=self.tenant)
        self._people(mailboxes, senders)
        self._attempts: list[Attempt] = []
        self._deliveries: list[Delivery] = []
        self._holds: list[Hold] = []
        self._events: list[ProviderEvent] = []
        self._states: list[OutboundState] = []
        mails = iter(self._mails(rounds))
        self.rounds = [
            self._round(*mail) for mail in zip(*[mails] * len(MAILS), strict=True)
        ]
        self._store()

    def quiet(self) -> None:
        """Undo the round's suspension, and let the next holds run out."""
        Tenant.objects.filter(id=self.tenant.id).update(status="active")
        Identity.objects.filter(id__in=self.sender_ids).update(
            status="active", pause_reason=None
        )
        due = Hold.objects.filter(expires_at__gt=self.now).order_by("id")[:1]
        Hold.objects.filter(id__in=list(due.values_list("id", flat=True))).update(
            expires_at=self.now
        )

    def _people(self, mailboxes: int, senders: int) -> None:
        identities = Identity.objects.bulk_create(
            Identity(
                id=new_id("idn"),
                tenant=self.tenant,
                username=f"storm{n}",
                display_name="Storm",
                owner_name="Ada",
                owner_email="ada@example.com",
                status="active" if n < senders else "paused",
            )
            for n in range(mailboxes)
        )
        Mailbox.objects.bulk_create(
            Mailbox(identity=one, tenant=self.tenant) for one in identities
        )
        self.senders = identities[:senders]
        self.sender_ids = [identity.id for identity in self.senders]
        self.addresses = Address.objects.bulk_create(
            Address(
                id=new_id("adr"),
                address=f"{identity.username}@{self.domain.name}",
                local_part=identity.username,
                domain=self.domain,
                tenant=self.tenant,
                identity=identity,
                role="primary",
                status="active",
            )
            for identity in self.senders
        )

    def _round(self, claimed: Message, *others: Message) -> Round:
        doubts, sent = others[:2], others[2:]
        self._hold(doubts[0], expires_at=self.now + timedelta(hours=1))
        return Round(
            record=self._claim(claimed),
            doubts=[message.public_id for message in doubts],
            bounces=[self._bounce(message) for message in sent],
        )

    def _mails(self, rounds: int) -> list[Message]:
        wanted = [
            ((number + step) % len(self.senders), status)
            for number in range(rounds)
            for step, status in MAILS
        ]
        threads = Thread.objects.bulk_create(
            Thread(
                public_id=new_id("thr"),
                tenant=self.tenant,
                identity=self.senders[sender],
                seq=10**6 + next(_threads),
                first_at=self.now,
                last_at=self.now,
            )
            for sender, _ in wanted
        )
        messages = Message.objects.bulk_create(
            self._message(thread, sender, status)
            for thread, (sender, status) in zip(threads, wanted, strict=True)
        )
        for message in messages:
            self._deliver(message)
        return messages

    def _message(self, thread: Thread, sender: int, status: str) -> Message:
        public_id = new_id("msg")
        return Message(
            public_id=public_id,
            tenant=self.tenant,
            identity=thread.identity,
            thread=thread,
            direction="outbound",
            status=status,
            kind="transactional",
            operation="send",
            subject="Storm",
            from_address=self.addresses[sender].address,
            provider_message_id=f"storm:{public_id}" if status == "submitted" else None,
            received_at=self.now,
        )

    def _deliver(self, message: Message) -> None:
        charged = self.now if message.status == "submitted" else None
        self._deliveries += [
            Delivery(
                message=message,
                tenant=self.tenant,
                address=address,
                field="to",
                status=message.status,
                charged_at=charged,
            )
            for address in RECIPIENTS
        ]

    def _hold(self, message: Message, *, expires_at: datetime) -> None:
        self._holds.append(
            Hold(
                id=new_id("hld"),
                tenant=self.tenant,
                feature="sends",
                ref=message.public_id,
                units=len(RECIPIENTS),
                expires_at=expires_at,
            )
        )

    def _claim(self, message: Message) -> Claim:
        token, address = uuid4(), message.from_address or ""
        self._hold(message, expires_at=self.now + timedelta(days=1))
        self._states.append(
            OutboundState(
                message=message,
                tenant=self.tenant,
                claim_token=token,
                claimed_at=self.now,
            )
        )
        self._attempts.append(
            Attempt(
                message=message,
                tenant=self.tenant,
                n=1,
                provider="smtp",
                claim_token=token,
                claimed_at=self.now,
                phase="sending",
                from_address=address,
                recipients=list(RECIPIENTS),
            )
        )
        outgoing = OutgoingMessage(
            message_id=message.public_id,
            rfc_message_id=f"{message.public_id}@{self.domain.name}",
            domain=self.domain.name,
            from_address=address,
            recipients=RECIPIENTS,
            mime=b"",
        )
        return Claim(
            message_id=message.public_id,
            key=message.key,
            n=1,
            token=token,
            provider=self._attempts[-1].provider,  # type: ignore[arg-type]  # a choice
            domain=self.domain.name,
            domain_id=self.domain.id,
            outgoing=outgoing,
        )

    def _bounce(self, message: Message) -> str:
        event = ProviderEvent(
            id=new_id("pev"),
            source="dsn",
            event_id=f"dsn:{message.public_id}",
            payload={
                "provider_message_id": message.provider_message_id,
                "sender": message.from_address,
                "recipient": RECIPIENTS[0],
                "kind": "bounced",
                "subject": "Storm",
                "hard": True,
                "smtp_code": "550",
                "enhanced_code": "5.1.1",
                "smtp_response": "no such user",
            },
            occurred_at=self.now,
            due_at=self.now,
        )
        self._events.append(event)
        return event.id

    def _store(self) -> None:
        Delivery.objects.bulk_create(self._deliveries)
        OutboundState.objects.bulk_create(self._states)
        Attempt.objects.bulk_create(self._attempts)
        ProviderEvent.objects.bulk_create(self._events)
        Hold.objects.bulk_create(self._holds)
        charged = sum(one.charged_at is not None for one in self._deliveries)
        Allowance.objects.filter(tenant=self.tenant).update(
            used=charged, held=sum(hold.units for hold in self._holds)
        )
