"""One message that SNS posts about our SES: proved, then stored or confirmed.

The page, "Amazon SES", has the five steps of ``POST /hooks/ses``.
"""

from datetime import datetime

import structlog
from django.conf import settings

from core import metrics
from core.clock import database_now
from delivery import received, ses_events, sns, sns_client
from delivery.events import DeliveryEvent
from delivery.statuses import EventSource

log = structlog.get_logger()


def take(body: bytes, *, announced_type: str | None) -> None:
    """Do what a message asks for; when this returns, nothing of it can be lost.

    Raises ``sns.Refused`` for what SNS did not sign for our topic: then nothing was
    stored, and unless all but certificate and signature was right, nobody was called.
    Raises ``sns_client.SnsAway``, or what the database raises, when SNS must try again.
    """
    message = sns.read(body, announced_type=announced_type)
    sns.check_origin(message, topic_arn=settings.PM_SES_SNS_TOPIC_ARN)
    now = database_now()
    _prove(message, now=now)
    events = _events_in(message, now=now)
    received.receive(EventSource.SES, message.message_id, body, events, now=now)
    match message.type:
        case sns.MessageType.NOTIFICATION if not events:
            metrics.DELIVERY_UNKNOWN_TYPE.inc()
            log.warning("ses_event_unknown", detail=message.message_id.lower())
        case sns.MessageType.SUBSCRIBED:
            sns_client.confirm(message.subscribe_url)
            log.info("sns_subscribed")
        case sns.MessageType.UNSUBSCRIBED:
            log.warning("sns_unsubscribed")


def _prove(message: sns.SnsMessage, *, now: datetime) -> None:
    sns.check_age(message, now=now)
    certificate = sns_client.certificate_at(
        message.certificate_url, folder=settings.PM_SNS_CERT_DIR
    )
    sns.check_signature(message, certificate, now=now)


def _events_in(message: sns.SnsMessage, *, now: datetime) -> list[DeliveryEvent]:
    """Return what a notification says; nothing, where SES only greets us."""
    if message.type != sns.MessageType.NOTIFICATION:
        return []
    try:
        return ses_events.events_of(
            message.text,
            notification_id=message.message_id,
            published_at=message.published_at,
            now=now,
        )
    except ses_events.NoEvent:
        return []
