"""Suppressions, found by an address of which only a hash is stored, and send lists."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldBooleanSwitchWidget

from core.acts import Act, ActForm, ActingAdmin
from core.addresses import normalize
from core.errors import PylotaError
from core.hashing import address_hash
from staff.statuses import Duty
from suppressions.list_services import SendList, remove_entry
from suppressions.models import SendListEntry, Suppression
from suppressions.services import lift_row
from suppressions.statuses import ListDirection, ListKind, SuppressionReason


class LiftForm(ActForm):
    """A complaint needs a second yes."""

    confirm_complaint = forms.BooleanField(
        label="If somebody complained: I know, and they want our mail again",
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
    )


def _lift(row: Suppression, answer: Mapping[str, Any]) -> str:
    lift_row(row.pk, confirms_complaint=answer["confirm_complaint"])
    return "It is lifted: this address may be written to again."


def _why(row: Suppression) -> Iterator[tuple[str, object]]:
    yield "Suppressed because", row.reason
    yield "Since", row.created_at
    if row.reason == SuppressionReason.COMPLAINT:
        yield "Mind", "somebody complained: this needs the second confirmation below"


LIFT: Final = Act(
    name="lift",
    label="Lift it",
    permission=Duty.SUPPRESS.permission,
    what="Mail to this address is accepted again. If it still bounces, it is suppressed"
    " again.",
    run=_lift,
    facts=_why,
    form=LiftForm,
    is_grave=True,
)


@admin.register(Suppression)
class SuppressionAdmin(ActingAdmin):
    """Who must not be mailed."""

    acts = (LIFT,)
    list_display = ("address_hint", "tenant", "reason", "created_at", "expires_at")
    list_filter = ("reason",)
    list_select_related = ("tenant",)
    ordering = ("-created_at", "-id")
    exact_search = ("address_hash", "tenant__slug", "source_message_id")
    search_help_text = "A whole address, hash, tenant or id of the message that did it"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Suppression], search_term: str
    ) -> tuple[QuerySet[Suppression], bool]:
        """Find by an address too: its hash is looked up."""
        term = search_term.strip()
        if "@" in term:
            try:
                term = address_hash(normalize(term))
            except PylotaError:
                return queryset.none(), False
        return super().get_search_results(request, queryset, term)


def _take_off(row: SendListEntry, answer: Mapping[str, Any]) -> str:
    place = SendList(row.tenant_id, ListDirection(row.direction), ListKind(row.kind))
    remove_entry(place, row.entry, actor_key_id="")
    return "It is off the list."


TAKE_OFF: Final = Act(
    name="take-off",
    label="Take it off the list",
    permission=Duty.SUPPRESS.permission,
    what="The list does not hold it any more, from the next send on.",
    run=_take_off,
    is_grave=True,
)


@admin.register(SendListEntry)
class SendListEntryAdmin(ActingAdmin):
    """What a tenant's own lists hold."""

    acts = (TAKE_OFF,)
    list_display = ("entry", "kind", "direction", "tenant", "created_at")
    list_filter = ("kind", "direction")
    list_select_related = ("tenant",)
    ordering = ("-created_at", "-id")
    exact_search = ("entry", "tenant__slug")
