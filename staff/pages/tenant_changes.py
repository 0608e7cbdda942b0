"""What of a tenant the staff may change: its plan, and an entry on one of its lists."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from core.acts import Act, ActForm
from mailboxes.models import Tenant
from quota.billing_services import BillingChange, change_billing
from quota.models import QuotaAccount
from quota.plans import catalogue, mode_in_force
from quota.statuses import BillingMode
from staff.statuses import Duty
from suppressions.list_services import SendList, entry_form, put_entry
from suppressions.statuses import ListDirection, ListKind


class PlanForm(ActForm):
    """Which plan of the catalogue, and whether it limits."""

    plan_id = forms.ChoiceField(label="Plan", widget=UnfoldAdminSelectWidget())
    mode = forms.ChoiceField(
        label="Mode",
        help_text="Only a metered tenant is limited by its plan.",
        choices=BillingMode.choices,
        widget=UnfoldAdminSelectWidget(choices=BillingMode.choices),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer the plans that there are now."""
        super().__init__(*args, **kwargs)
        field = self.fields["plan_id"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  see above
        field.choices = [(plan.plan_id, plan.plan_id) for plan in catalogue().plans]


class EntryForm(ActForm):
    """Which list, and what is put on it."""

    direction = forms.ChoiceField(
        label="For mail that is",
        choices=ListDirection.choices,
        widget=UnfoldAdminSelectWidget(choices=ListDirection.choices),
    )
    kind = forms.ChoiceField(
        label="List",
        choices=ListKind.choices,
        widget=UnfoldAdminSelectWidget(choices=ListKind.choices),
    )
    entry = forms.CharField(
        label="Entry",
        help_text="An address, or @ and a domain for all of its addresses.",
        max_length=320,
        widget=UnfoldAdminTextInputWidget(),
    )


def _change_plan(tenant: Tenant, answer: Mapping[str, Any]) -> str:
    wanted = BillingChange(mode=BillingMode(answer["mode"]), plan_id=answer["plan_id"])
    change_billing(tenant.id, wanted, actor_key_id=None)
    return "Its plan is changed: granted at once, and what was used stays."


def _put_on_list(tenant: Tenant, answer: Mapping[str, Any]) -> str:
    place = SendList(
        tenant.id, ListDirection(answer["direction"]), ListKind(answer["kind"])
    )
    row = put_entry(
        place, entry_form(answer["entry"]), note=answer["reason"], actor_key_id=""
    )
    return f"{row.entry} is on the list."


def _plan(tenant: Tenant) -> Iterator[tuple[str, object]]:
    account = QuotaAccount.objects.get(tenant_id=tenant.id)
    yield "Plan now", account.plan_id
    yield "Mode now", account.mode
    yield "Mode that counts", mode_in_force(account.mode)


CHANGE_PLAN: Final = Act(
    name="change-plan",
    label="Change its plan",
    permission=Duty.TENANTS.permission,
    what="What is granted changes at once. Nothing is deleted: after a smaller plan,"
    " more is refused until the period ends, or less is there.",
    run=_change_plan,
    facts=_plan,
    form=PlanForm,
)
PUT_ON_LIST: Final = Act(
    name="put-on-list",
    label="Put on a send list",
    permission=Duty.SUPPRESS.permission,
    what="It counts from the next send on. An entry that is there gets another note.",
    run=_put_on_list,
    form=EntryForm,
)
