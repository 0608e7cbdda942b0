"""Queued messages whose domain leaves by Cloudflare, and a worker that calls it."""

from dataclasses import replace

import pytest
from django.test.utils import override_settings

from core import objects
from core.clock import database_now
from delivery.models import Delivery
from delivery.statuses import RecipientField
from domains.statuses import Inbound, Method, ReplyToken, Transport
from mailboxes.models import Message, Thread
from outbound import deliver
from outbound.claims import Claim
from outbound.compose import ComposeInput, Mailbox, compose
from outbound.registry import transport_for
from outbound.transports.base import MailTransport
from outbound.transports.cloudflare import CloudflareTransport
from tests.factories import (
    AddressFactory,
    DomainFactory,
    IdentityFactory,
    QueuedMessageFactory,
    ThreadFactory,
)
from tests.support.cloudflare_server import ACCOUNT, TOKEN, CloudflareServer

SECONDS = 10.0
"""Each call's time, when a test does not wait for its end."""


def thread_of_cloudflare() -> Thread:
    """Return a thread of an identity whose domain leaves by Cloudflare."""
    identity = IdentityFactory.create()
    domain = DomainFactory.create(
        tenant=identity.tenant,
        method=Method.CLOUDFLARE_ZONE,
        transport=Transport.CLOUDFLARE,
        inbound=Inbound.DIRECT,
        reply_token=ReplyToken.SUBADDRESS,
    )
    AddressFactory.create(identity=identity, domain=domain)
    thread: Thread = ThreadFactory.create(identity=identity)
    return thread


def queued(
    *recipients: str,
    bcc: tuple[str, ...] = (),
    thread: Thread | None = None,
    **fields: object,
) -> Message:
    """Return a queued message of a cloudflare domain, with a composed sent copy."""
    message: Message = QueuedMessageFactory.create(
        thread=thread or thread_of_cloudflare(),
        recipients=(*(recipients or ("jo@example.net",)), *bcc),
        **fields,
    )
    Delivery.objects.filter(message=message, address__in=bcc).update(
        field=RecipientField.BCC
    )
    composed = compose(
        ComposeInput(
            message_id=message.public_id,
            sent_at=database_now(),
            from_=Mailbox(message.from_address or "", message.from_name or ""),
            to=tuple(Mailbox(each) for each in recipients or ("jo@example.net",)),
            subject=message.subject or "",
            text=message.text,
        )
    )
    objects.put(message.raw_key or "", composed.mime, metadata={})
    return message


def account_at(server: CloudflareServer) -> dict[str, object]:
    """Return the settings of an account at this server.

    For a fixture that asks for ``settings``: two ways to override do not end in order.
    """
    return {
        "PM_CF_ACCOUNT_ID": ACCOUNT,
        "PM_CF_API_TOKEN": TOKEN,
        "PM_CF_API_BASE": server.base,
    }


class configured(override_settings):  # noqa: N801  reads like a function
    """Let the deployment's account be one at this server."""

    def __init__(self, server: CloudflareServer, **changes: object) -> None:
        super().__init__(**{**account_at(server), **changes})


def shorten(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let every Cloudflare call of a worker end after so many seconds."""

    def short(claim: Claim) -> MailTransport:
        found = transport_for(claim)
        if not isinstance(found, CloudflareTransport):
            return found
        return replace(found, seconds=seconds)

    monkeypatch.setattr(deliver, "transport_for", short)


def work(message: Message) -> None:
    """Do what a worker does with two rings, and read the message again."""
    for _ in range(2):
        deliver.deliver(message.public_id)
    message.refresh_from_db()
