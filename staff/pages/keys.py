"""API keys: made, given a new secret, revoked. A secret is shown once."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db import transaction
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from core.acts import Act, ActForm, ActingAdmin
from core.clock import database_now
from mailboxes.key_requests import KeyWish, mint_key, revoke_key, rotate_secret
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.scopes import Scope, allowed_at
from mailboxes.statuses import KeyLevel
from staff.callers import platform_caller
from staff.statuses import Duty

MOST_OVERLAP_HOURS: Final = 168


class RotateForm(ActForm):
    """How long the secret before goes on counting."""

    overlap_hours = forms.IntegerField(
        label="Hours that the old secret goes on counting",
        help_text="0 ends it at once, for a secret that got out.",
        min_value=0,
        max_value=MOST_OVERLAP_HOURS,
        initial=24,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


class KeyForm(ActForm):
    """The new key's name and what it may do; its level says what is on offer."""

    level: KeyLevel
    name = forms.CharField(
        label="Name",
        help_text="Who holds it, and for what.",
        max_length=100,
        widget=UnfoldAdminTextInputWidget(),
    )
    permissions = forms.MultipleChoiceField(
        label="It may", widget=forms.CheckboxSelectMultiple()
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer the scopes of the level."""
        super().__init__(*args, **kwargs)
        field = self.fields["permissions"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101  see above
        offered = sorted(str(scope) for scope in allowed_at(self.level))
        field.choices = [(scope, scope) for scope in offered]


class TenantKeyForm(KeyForm):
    """A key of a tenant."""

    level = KeyLevel.TENANT


class IdentityKeyForm(KeyForm):
    """A key of an identity."""

    level = KeyLevel.IDENTITY


@transaction.atomic
def _rotate(key: ApiKey, answer: Mapping[str, Any]) -> dict[str, object]:
    made = rotate_secret(
        key.id, overlap_hours=answer["overlap_hours"], caller=platform_caller()
    )
    return {"secret": made.secret, "of": f"The new secret of “{key.name}”."}


def _revoke(key: ApiKey, answer: Mapping[str, Any]) -> str:
    revoke_key(key.id, caller=platform_caller())
    return "It is revoked: no call with it is answered any more."


@transaction.atomic
def _make(owner: Tenant | Identity, answer: Mapping[str, Any]) -> dict[str, object]:
    is_identity = isinstance(owner, Identity)
    wish = KeyWish(
        name=answer["name"],
        permissions=[Scope(name) for name in answer["permissions"]],
        tenant_id=owner.tenant_id if isinstance(owner, Identity) else owner.id,
        identity_id=owner.id if is_identity else None,
    )
    made = mint_key(wish, caller=platform_caller())
    return {"secret": made.secret, "of": f"The secret of the new key “{wish.name}”."}


def _ended(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "it is revoked"
    has_expired = key.expires_at is not None and key.expires_at <= database_now()
    return "it has expired" if has_expired else ""


def _revoked(key: ApiKey) -> str:
    return "it is revoked already" if key.revoked_at is not None else ""


def _use(key: ApiKey) -> Iterator[tuple[str, object]]:
    yield "Last used", key.last_used_at or "never"


ROTATE: Final = Act(
    name="rotate",
    label="Give it a new secret",
    permission=Duty.KEYS.permission,
    what="The key keeps its id and scopes. The old secret counts for a while, so that"
    " whoever holds it can change over.",
    run=_rotate,
    refused=_ended,
    facts=_use,
    form=RotateForm,
    shown="staff/secret.html",
)
REVOKE: Final = Act(
    name="revoke",
    label="Revoke it",
    permission=Duty.KEYS.permission,
    what="Both of its secrets end at once, and nothing brings them back. Keys that it"
    " made live on.",
    run=_revoke,
    refused=_revoked,
    facts=_use,
    is_grave=True,
)
MAKE_FOR_TENANT: Final = Act(
    name="make-key",
    label="Make a key",
    permission=Duty.KEYS.permission,
    what="A key that reaches all of this tenant. Its secret is shown once.",
    run=_make,
    form=TenantKeyForm,
    shown="staff/secret.html",
)
MAKE_FOR_IDENTITY: Final = Act(
    name="make-key",
    label="Make a key",
    permission=Duty.KEYS.permission,
    what="A key that reaches this identity alone. Its secret is shown once.",
    run=_make,
    form=IdentityKeyForm,
    shown="staff/secret.html",
)


@admin.register(ApiKey)
class ApiKeyAdmin(ActingAdmin):
    """An API key; what is stored of its secret is not shown."""

    acts = (ROTATE, REVOKE)
    list_display = ("name", "lookup", "level", "tenant", "last_used_at")
    list_filter = ("level", "mode")
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "lookup", "tenant__slug")
    exclude = ("hash", "prev_hash")
