"""What the deployment stands on: settings, broker, object store, providers."""

import secrets
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from kombu import Connection

from core import objects
from domains.models import Domain
from domains.statuses import GONE, Transport
from outbound.configured import is_configured
from pylota import VERSION
from pylota.celery import PUBLISH_STEP_SECONDS, transport_options
from pylota.deployment import worker_count
from pylota.doctor.findings import Found, fail, number_of, ok, unused

_PORTS: Final = {"amqp": 5672, "pyamqp": 5672, "amqps": 5671}


def configuration() -> Found:
    """Look at what the start does not refuse by itself.

    A value that is missing or malformed ends every command, this one too, with a line
    that names it.
    """
    try:
        worker_count()
    except ImproperlyConfigured as error:
        what, _, then = str(error).removeprefix("config_invalid: ").partition(". ")
        return fail(what, then=then.rstrip("."))
    found = f"Pylota {VERSION}, PM_ENV={settings.PM_ENV}, {settings.PM_API_HOST}"
    if settings.LOCAL:
        found += "; webhooks and relays may lead to private hosts"
    return ok(found)


def broker() -> Found:
    """Log in to the broker and open a channel."""
    url = settings.CELERY_BROKER_URL
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return ok("in memory, inside the one worker process")
    place = f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme, 6379)}"
    session = Connection(
        url,
        connect_timeout=PUBLISH_STEP_SECONDS,
        transport_options=transport_options(parts.scheme),
    )
    try:
        session.ensure_connection(max_retries=1, interval_start=0)
        session.channel()  # Redis is spoken to no earlier
    except Exception as error:  # each library has its own
        return fail(
            f"{place} {_why(error)}; mail is accepted and waits",
            then="start the broker, or correct CELERY_BROKER_URL",
        )
    finally:
        session.release()
    return ok(f"{parts.scheme}, {place}")


def _why(error: Exception) -> str:
    """Return why there is no session, without the URL, which may hold a password."""
    cause = error.__cause__ or error
    if isinstance(cause, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(cause, TimeoutError) or "timeout" in type(cause).__name__.lower():
        return "does not answer"
    return f"gives no session ({type(cause).__name__})"


def object_store() -> Found:
    """Write a small object, read it, and delete it again."""
    key = f"doctor-{secrets.token_hex(8)}"
    try:
        objects.put(key, key.encode(), metadata={"of": "doctor"})
        is_same = objects.get(key) == key.encode()
        is_same &= objects.metadata(key) == {"of": "doctor"}
        objects.delete(key)
    except (objects.ObjectStoreAway, objects.ObjectMissing) as error:
        return fail(
            f"{error}; no send is accepted",
            then=f"let this user write to {settings.PM_DATA_DIR / 'objects'}, and look "
            "at the free space there",
        )
    if not is_same:
        return fail(
            "it gave back something else than was written",
            then="let all web and worker processes share one store, without a cache",
        )
    return ok("written, read and deleted")


def ses() -> Found:
    """Look whether what sends by SES can, and whether its events come back."""
    if not is_configured(Transport.SES, has_relay=False):
        return _not_set_up(
            Transport.SES,
            "PM_SES_REGION, PM_SES_ACCESS_KEY_ID and PM_SES_SECRET_ACCESS_KEY",
        )
    return _no_way_back("PM_SES_CONFIGURATION_SET", "PM_SES_SNS_TOPIC_ARN") or ok(
        f"{settings.PM_SES_REGION}, {settings.PM_SES_CONFIGURATION_SET}"
    )


def cloudflare() -> Found:
    """Look whether what sends by Cloudflare can."""
    if not is_configured(Transport.CLOUDFLARE, has_relay=False):
        return _not_set_up(Transport.CLOUDFLARE, "PM_CF_ACCOUNT_ID and PM_CF_API_TOKEN")
    return _no_way_back("PM_CF_QUEUE_ID") or ok(f"account {settings.PM_CF_ACCOUNT_ID}")


def _no_way_back(*names: str) -> Found | None:
    """Say what the provider's events lack to come back, if anything."""
    if missing := [name for name in names if not getattr(settings, name)]:
        return fail(
            "it sends, but what becomes of mail does not come back",
            then=f"set {' and '.join(missing)}",
        )
    return None


def _not_set_up(transport: Transport, variables: str) -> Found:
    """Say whether it is missed; the platform's row follows its setting only later."""
    of_tenants = Domain.objects.filter(transport=transport, tenant__isnull=False)
    names = number_of(of_tenants.exclude(state__in=GONE).count(), "domain")
    if transport == settings.PM_PLATFORM_TRANSPORT:
        return fail("the platform's domain sends by it", then=f"set {variables}")
    if names != number_of(0, "domain"):
        return fail(
            f"{names} of tenants would send by it and cannot", then=f"set {variables}"
        )
    return unused("no domain sends by it")
