"""The plans of this deployment, and whether they count: what the settings say."""

from datetime import timedelta
from functools import lru_cache
from typing import Final

import structlog
from django.conf import settings

from mailboxes.services import raise_alert, resolve_alerts
from quota.catalogue import BUILT_IN, Catalogue, parse_catalogue
from quota.statuses import BillingMode

INVALID: Final = "plan_catalog_invalid"
"""Open while PM_PLAN_CATALOG cannot be used and the built-in catalogue counts."""

log = structlog.get_logger()


def catalogue() -> Catalogue:
    """Return the catalogue in force: that of PM_PLAN_CATALOG, or the built-in one.

    A mistake in it is logged once a process and stops nothing: mail does not wait for
    prices.
    """
    return _read(settings.PM_PLAN_CATALOG)[0]


def catalogue_digest() -> str:
    """Return the SHA-256 of the catalogue in force, in hex."""
    return _read(settings.PM_PLAN_CATALOG)[1]


def is_billing_on() -> bool:
    """Tell whether plans limit anybody here (PM_BILLING)."""
    return bool(settings.PM_BILLING != "off")


def upgrade_url() -> str | None:
    """Return where a tenant can get a bigger plan (PM_UPGRADE_URL), if anywhere."""
    return settings.PM_UPGRADE_URL or None


def grace() -> timedelta:
    """Return how long a tenant keeps a plan that was not paid for."""
    return timedelta(days=settings.PM_BILLING_GRACE_DAYS)


def mode_in_force(stored: str) -> BillingMode:
    """Return the mode that counts for a tenant, whatever was stored for it."""
    return BillingMode(stored) if is_billing_on() else BillingMode.DISABLED


def alert_of_catalogue() -> None:
    """Open or close the alert of a catalogue that cannot be used.

    Joins the caller's transaction.
    """
    _, _, mistake = _read(settings.PM_PLAN_CATALOG)
    if mistake is None:
        resolve_alerts(INVALID)
    else:
        raise_alert(INVALID, details={"reason": mistake})


@lru_cache(maxsize=8)
def _read(raw: str) -> tuple[Catalogue, str, str | None]:
    """Return the catalogue, its digest, and what is wrong with the text if it is."""
    try:
        found, mistake = parse_catalogue(raw), None
    except ValueError as error:
        found, mistake = BUILT_IN, str(error)
        log.error(INVALID)
    return found, found.digest(), mistake
