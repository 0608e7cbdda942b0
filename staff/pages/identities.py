"""Identities and their addresses: state, sends today, pause and resume."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from core.acts import Act, ActingAdmin
from core.admin import ReadOnlyAdmin
from delivery.models import OutboundState
from mailboxes.identity_services import update_identity
from mailboxes.models import Address, Identity
from mailboxes.services import pause_identity
from mailboxes.statuses import IdentityStatus
from staff.pages.keys import MAKE_FOR_IDENTITY
from staff.statuses import Duty

ADDRESSES_SHOWN: Final = 50


def _pause(identity: Identity, answer: Mapping[str, Any]) -> str:
    paused = pause_identity(identity.id)
    return "It is paused." if paused else "It was not active any more."


@transaction.atomic
def _resume(identity: Identity, answer: Mapping[str, Any]) -> str:
    active = IdentityStatus.ACTIVE
    update_identity(identity.id, {}, status=active, may_lift_abuse=True)
    return "It may send again."


def _queued(identity: Identity) -> Iterator[tuple[str, object]]:
    waiting = OutboundState.objects.filter(message__identity_id=identity.id)
    yield "Queued sends that are canceled", waiting.filter(claim_token=None).count()
    claimed = waiting.exclude(claim_token=None).count()
    yield "Sends in a call, which are not stopped", claimed


def _why_paused(identity: Identity) -> Iterator[tuple[str, object]]:
    yield "Paused because", identity.pause_reason or ""


def _not_active(identity: Identity) -> str:
    return "" if identity.status == IdentityStatus.ACTIVE else "it is not active"


def _not_paused(identity: Identity) -> str:
    return "" if identity.status == IdentityStatus.PAUSED else "it is not paused"


PAUSE: Final = Act(
    name="pause",
    label="Pause it",
    permission=Duty.PAUSE.permission,
    what="No further send is accepted, and what is queued is canceled.",
    run=_pause,
    refused=_not_active,
    facts=_queued,
    is_grave=True,
)
RESUME: Final = Act(
    name="resume",
    label="Resume it",
    permission=Duty.PAUSE.permission,
    what="It may send again. If it was paused for abuse: look first at what bounced, or"
    " was complained about.",
    run=_resume,
    refused=_not_paused,
    facts=_why_paused,
)


@admin.register(Identity)
class IdentityAdmin(ActingAdmin):
    """Who sends."""

    acts = (PAUSE, RESUME, MAKE_FOR_IDENTITY)
    change_form_template = "staff/identity.html"
    list_display = ("username", "tenant", "status", "pause_reason", "created_at")
    list_filter = ("status",)
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "username", "tenant__slug", "addresses__address")

    def known(self, request: HttpRequest, record: Identity) -> dict[str, Any]:
        """Return the identity's addresses."""
        return {"addresses": _addresses(record.id), "identity_id": record.id}


def _addresses(identity_id: str) -> QuerySet[Address]:
    own = Address.objects.filter(identity_id=identity_id)
    return own.order_by("role", "created_at")[:ADDRESSES_SHOWN]


@admin.register(Address)
class AddressAdmin(ReadOnlyAdmin):
    """An address of an identity."""

    list_display = ("address", "identity", "role", "status", "created_at")
    list_filter = ("role", "status")
    list_select_related = ("identity",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "address", "identity_id")
