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
        self.rounds = [self._round(number) for number in range(rounds)]
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

    def _round(self, number: int) -> Round:
        here, there = number % len(self.senders), (number + 1) % len(self.senders)
        claimed = self._message(here, "queued")
        doubts = [self._message(at, "uncertain") for at in (here, there)]
        sent = [self._message(at, "submitted") for at in (here, there)]
        self._hold(doubts[0], expires_at=self.now + timedelta(hours=1))
        return Round(
            record=self._claim(claimed),
            doubts=[message.public_id for message in doubts],
            bounces=[self._bounce(message) for message in sent],
        )

    def _message(self, sender: int, status: str) -> Message:
        identity = self.senders[sender]
        thread = Thread.objects.create(
            public_id=new_id("thr"),
            tenant=self.tenant,
            identity=identity,
            seq=10**6 + next(_threads),
            first_at=self.now,
            last_at=self.now,
        )
        message = Message.objects.create(
            public_id=new_id("msg"),
            tenant=self.tenant,
            identity=identity,
            thread=thread,
            direction="outbound",
            status=status,
            kind="transactional",
            operation="send",
            subject="Storm",
            from_address=self.addresses[sender].address,
            received_at=self.now,
        )
        charged = self.now if status == "submitted" else None
        self._deliveries += [
            Delivery(
                message=message,
                tenant=self.tenant,
                address=address,
                field="to",
                status=status,
                charged_at=charged,
            )
            for address in RECIPIENTS
        ]
        return message

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
        Message.objects.filter(key=message.key).update(
            provider_message_id=f"storm:{message.public_id}"
        )
        event = ProviderEvent(
            id=new_id("pev"),
            source="dsn",
            event_id=f"dsn:{message.public_id}",
            payload={
                "provider_message_id": f"storm:{message.public_id}",
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
