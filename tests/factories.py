"""One factory a model; the default is valid and ordinary."""

from datetime import UTC, datetime

import factory
from factory.django import DjangoModelFactory

from core import objects
from core.canonical import sha256_hex
from core.clock import database_now
from core.ids import new_id, ulid_of
from core.sealing import Place, sealer
from delivery.models import Delivery, OutboundState
from delivery.statuses import DeliveryStatus, RecipientField
from domains.models import Domain
from domains.relay import RelaySettings
from domains.statuses import (
    DomainKind,
    DomainState,
    Inbound,
    Method,
    ReplyToken,
    Transport,
)
from mailboxes.models import Address, Identity, Mailbox, Message, Tenant, Thread
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    Direction,
    MessageKind,
    MessageStatus,
    Operation,
    TenantMode,
)
from quota import services as quota
from quota.models import Allowance, QuotaAccount
from quota.periods import Period
from quota.statuses import Feature
from webhooks.models import WebhookEndpoint
from webhooks.secrets import seal_secret
from webhooks.signing import new_secret

RELAY = RelaySettings(
    host="relay.example.net", port=587, username="acme", password="opensesame"
)
PERIOD = Period(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
"""No test outlives it, whatever the date is and however far it moves the clock."""
MIME = b"Subject: Your booking\r\n\r\nSee you soon.\r\n"


class TenantFactory(DjangoModelFactory[Tenant]):
    """A live tenant with its quota account and an unlimited allowance."""

    class Meta:
        model = Tenant
        skip_postgeneration_save = True

    id = factory.LazyFunction(lambda: new_id("ten"))
    slug = factory.Sequence(lambda n: f"tenant-{n}")
    name = factory.LazyAttribute(lambda tenant: tenant.slug.title())
    mode = TenantMode.LIVE
    address_suffix = factory.LazyAttribute(lambda tenant: f".{tenant.slug}")
    suffix_fold = factory.LazyAttribute(lambda tenant: tenant.address_suffix)

    @factory.post_generation
    def quota(obj: Tenant, create: bool, extracted: object) -> None:  # noqa: N805
        """Give the tenant its quota rows."""
        if create:
            QuotaAccount.objects.create(
                tenant=obj, period_start=PERIOD.start, period_end=PERIOD.end
            )
            Allowance.objects.create(tenant=obj, feature=Feature.SENDS)


class DomainFactory(DjangoModelFactory[Domain]):
    """A healthy relay domain of a tenant."""

    class Meta:
        model = Domain
        skip_postgeneration_save = True

    id = factory.LazyFunction(lambda: new_id("dom"))
    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"mail{n}.example")
    kind = DomainKind.EXTERNAL
    method = Method.SMTP_RELAY
    inbound = Inbound.FORWARD
    transport = Transport.SMTP
    reply_token = ReplyToken.NONE
    state = DomainState.HEALTHY

    @factory.post_generation
    def relay(obj: Domain, create: bool, extracted: object) -> None:  # noqa: N805
        """Seal the relay's settings on the domain; pass ``relay=…`` for others."""
        if create and obj.transport == Transport.SMTP:
            settings = extracted if isinstance(extracted, RelaySettings) else RELAY
            place = Place("domains", "smtp_sealed", obj.id)
            obj.smtp_sealed = sealer().seal(settings.to_json(), place=place)
            obj.save(update_fields=["smtp_sealed"])


class IdentityFactory(DjangoModelFactory[Identity]):
    """An active identity with an owner and its mailbox row; no address yet."""

    class Meta:
        model = Identity
        skip_postgeneration_save = True

    id = factory.LazyFunction(lambda: new_id("idn"))
    tenant = factory.SubFactory(TenantFactory)
    username = factory.Sequence(lambda n: f"bookings{n}")
    display_name = "Acme Bookings"
    owner_name = "Ada Owner"
    owner_email = "ada@example.com"

    @factory.post_generation
    def mailbox(obj: Identity, create: bool, extracted: object) -> None:  # noqa: N805
        """Give the identity its one-writer row."""
        if create:
            Mailbox.objects.create(identity=obj, tenant=obj.tenant)


class AddressFactory(DjangoModelFactory[Address]):
    """The active primary address of an identity, on a relay domain of its tenant."""

    class Meta:
        model = Address

    id = factory.LazyFunction(lambda: new_id("adr"))
    identity = factory.SubFactory(IdentityFactory)
    tenant = factory.SelfAttribute("identity.tenant")
    domain = factory.SubFactory(
        DomainFactory, tenant=factory.SelfAttribute("..identity.tenant")
    )
    local_part = factory.SelfAttribute("identity.username")
    address = factory.LazyAttribute(
        lambda address: f"{address.local_part}@{address.domain.name}"
    )
    role = AddressRole.PRIMARY
    status = AddressStatus.ACTIVE


class ThreadFactory(DjangoModelFactory[Thread]):
    """A thread with a number of its own."""

    class Meta:
        model = Thread

    public_id = factory.LazyFunction(lambda: new_id("thr"))
    identity = factory.SubFactory(IdentityFactory)
    tenant = factory.SelfAttribute("identity.tenant")
    seq = factory.Sequence(lambda n: n + 1)
    first_at = factory.LazyFunction(database_now)
    last_at = factory.SelfAttribute("first_at")


class MessageFactory(DjangoModelFactory[Message]):
    """An outbound message that is queued; see QueuedMessageFactory for the whole."""

    class Meta:
        model = Message

    public_id = factory.LazyFunction(lambda: new_id("msg"))
    thread = factory.SubFactory(ThreadFactory)
    identity = factory.SelfAttribute("thread.identity")
    tenant = factory.SelfAttribute("identity.tenant")
    direction = Direction.OUTBOUND
    status = MessageStatus.QUEUED
    kind = MessageKind.TRANSACTIONAL
    operation = Operation.SEND
    subject = "Your booking"
    text = "See you soon."
    received_at = factory.LazyFunction(database_now)
    sent_at = factory.SelfAttribute("received_at")
    raw_key = factory.LazyAttribute(
        lambda m: f"t/{m.tenant.id}/i/{m.identity.id}/out/{m.public_id}.eml"
    )


class QueuedMessageFactory(MessageFactory):
    """A queued message as accept() leaves it: address, deliveries and queue row."""

    class Meta:
        model = Message
        skip_postgeneration_save = True

    class Params:
        recipients = ("jo@example.net",)

    from_name = factory.SelfAttribute("identity.display_name")
    to_addrs = factory.LazyAttribute(
        lambda m: [{"address": address, "name": None} for address in m.recipients]
    )

    from_address = factory.LazyAttribute(lambda m: _primary_address(m.identity))
    rfc_message_id = factory.LazyAttribute(
        lambda m: f"{ulid_of(m.public_id)}@{m.from_address.partition('@')[2]}"
    )

    @factory.post_generation
    def queue(obj: Message, create: bool, extracted: object) -> None:  # noqa: N805
        """Write what stands beside a queued message."""
        if not create:
            return
        for row in obj.to_addrs:
            Delivery.objects.create(
                message=obj,
                tenant=obj.tenant,
                address=row["address"],
                field=RecipientField.TO,
                status=DeliveryStatus.QUEUED,
            )
        OutboundState.objects.create(
            message=obj, tenant=obj.tenant, dispatch_at=database_now()
        )
        quota.reserve(
            obj.tenant.id,
            ref=obj.public_id,
            units=len(obj.to_addrs),
            now=database_now(),
        )
        objects.put(obj.raw_key or "", MIME, metadata={})


def _primary_address(identity: Identity) -> str:
    """Return the identity's primary address, made if there is none."""
    found = Address.objects.filter(identity=identity, role=AddressRole.PRIMARY).first()
    return (found or AddressFactory.create(identity=identity)).address


def key_hash_of(text: str) -> str:
    """Return a ledger key hash for a test's key."""
    return sha256_hex(text.encode())


class WebhookEndpointFactory(DjangoModelFactory[WebhookEndpoint]):
    """An endpoint of a tenant that is told of everything; its URL is never called."""

    class Meta:
        model = WebhookEndpoint

    id = factory.LazyFunction(lambda: new_id("whk"))
    tenant = factory.SubFactory(TenantFactory)
    url = "https://hooks.example.com:1/pylota"  # a port that no call is made to
    events = ["*"]
    secret_enc = factory.LazyAttribute(lambda row: seal_secret(row.id, new_secret()))
