"""The shapes of identities and addresses: bodies, queries and answers."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from core.addresses import normalize
from core.errors import PylotaError
from core.forms import Form, PageQuery, Query, Shown
from core.schemas import Page, Shape
from core.text import PLAIN_PATTERN, header_fault
from mailboxes.address_rules import KEPT_DAYS
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    PauseReason,
)

_ULID: Final = "01K9ZT3N4C6Y8QF5R7W2V1X0AB"
_AT: Final = "2026-11-02T09:15:20.114Z"
METADATA_KEYS: Final = 16
METADATA_BYTES: Final = 512
SIGNATURE_CHARACTERS: Final = 16_384


def _plain(value: str) -> str:
    if (fault := header_fault(value)) is not None:
        raise ValueError(f"it {fault}")
    return value


def _address(value: str) -> str:
    try:
        return normalize(value)
    except PylotaError as error:
        raise ValueError(error.detail) from None


def _metadata(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if max(len(name.encode()), len(text.encode())) > METADATA_BYTES:
            raise ValueError(f"{name[:64]}: over {METADATA_BYTES} bytes")
    return value


def _safe_html(value: str | None) -> str | None:
    from core.sanitize import sanitize  # its libraries are slow to load

    return value and sanitize(value).html


Plain = Annotated[
    str,
    Shown("pattern", PLAIN_PATTERN),
    AfterValidator(_plain),
]
DisplayName = Annotated[Plain, Field(min_length=1, max_length=78)]
Word = Annotated[Plain, Field(min_length=1, max_length=128)]
Days = Annotated[int, Field(ge=0, le=365)]
Metadata = Annotated[
    dict[str, str],
    Field(max_length=METADATA_KEYS, description="Keys and values of 512 bytes each."),
    AfterValidator(_metadata),
]


class OwnerInput(Form):
    """The accountable person; without one the identity cannot send."""

    name: Annotated[Plain, Field(min_length=1, max_length=256)]
    email: Annotated[
        str,
        Field(min_length=3, max_length=254),
        Shown("format", "email"),
        AfterValidator(_address),
    ]


class SignatureInput(Form):
    """What is appended to mail; the HTML is sanitised when it is written."""

    text: Annotated[str | None, Field(max_length=SIGNATURE_CHARACTERS)] = None
    html: Annotated[
        str | None, Field(max_length=SIGNATURE_CHARACTERS), AfterValidator(_safe_html)
    ] = None


class SendPolicyInput(Form):
    """The identity's own rules; `null` resets one to its default."""

    daily_cap: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**31 - 1,
            description="Above the tenant's cap for an identity: platform keys.",
        ),
    ] = None
    auto_reply: Literal["allowed", "denied"] | None = None
    require_known_recipient: bool | None = None


class _Fields(Form):
    purpose: Word | None = None
    owner: OwnerInput | None = None
    signature: SignatureInput | None = None
    send_policy: SendPolicyInput | None = None
    metadata: Metadata | None = None

    def changes(self) -> dict[str, Any]:
        """Return the fields that the client named and an identity keeps."""
        named = self.model_dump(exclude_unset=True)
        return {name: named[name] for name in named if name in _KEPT}


_KEPT: Final = frozenset({*_Fields.model_fields, "display_name"})


class IdentityCreate(_Fields):
    """A new identity."""

    username: Annotated[str, Field(max_length=256)]
    display_name: DisplayName
    domain_id: str | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None

    example: ClassVar[dict[str, Any]] = {
        "username": "bookings",
        "display_name": "Acme Bookings",
        "owner": {"name": "Ada Owner", "email": "ada@example.com"},
        "client_id": "desk-7",
        "metadata": {"desk": "7"},
    }


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_NO_DEFAULT: Final = Field(json_schema_extra=_without_default)
"""A field that stays as it is when it is not named, and cannot be reset."""


class IdentityPatch(_Fields):
    """What changes; a field that is not named stays, and `null` resets it."""

    display_name: Annotated[DisplayName, _NO_DEFAULT] = ""
    status: Annotated[Literal["active", "paused"], _NO_DEFAULT] = "active"

    example: ClassVar[dict[str, Any]] = {"display_name": "Acme Desk", "purpose": None}


class IdentityQuery(PageQuery):
    """The filters of a list of identities."""

    status: Annotated[IdentityStatus | None, Field(description="As it is now.")] = None
    purpose: Annotated[Word | None, Field(description="Made for this.")] = None
    client_id: Annotated[
        str | None,
        Field(max_length=255, pattern=r"^[^\x00]*$", description="Made under it."),
    ] = None
    tenant_id: Annotated[
        str | None,
        Field(max_length=64, pattern=r"^[^\x00]*$", description="Of this tenant."),
    ] = None


class LookupQuery(Query):
    """Which address is looked up."""

    address: Annotated[str, Field(description="It is normalised first.")]


class AddressCreate(Form):
    """A new address on a domain of the tenant."""

    domain_id: str
    local_part: Annotated[str, Field(max_length=256)]

    example: ClassVar[dict[str, Any]] = {
        "domain_id": f"dom_{_ULID}",
        "local_part": "desk",
    }


class Promotion(Form):
    """How long the primary address before goes on answering its threads."""

    example: ClassVar[dict[str, Any]] = {"retire_previous_after_days": 30}

    retire_previous_after_days: Days = KEPT_DAYS


class Retirement(Form):
    """How long the address goes on answering its threads; 0 retires it at once."""

    example: ClassVar[dict[str, Any]] = {"after_days": 30}

    after_days: Days = KEPT_DAYS


class AddressOut(Shape):
    """An address of an identity."""

    example: ClassVar[dict[str, Any]] = {
        "id": f"adr_{_ULID}",
        "identity_id": f"idn_{_ULID}",
        "domain_id": f"dom_{_ULID}",
        "address": "desk@mail.example.com",
        "local_part": "desk",
        "role": "primary",
        "status": "active",
        "retire_at": None,
        "retired_at": None,
        "created_at": _AT,
        "forwarding": None,
        "forwarding_checked_at": None,
    }

    id: str
    identity_id: str
    domain_id: str
    address: str
    local_part: str
    role: AddressRole
    status: AddressStatus
    retire_at: datetime | None
    retired_at: datetime | None
    created_at: datetime
    forwarding: Literal["unverified", "ok", "failed"] | None
    forwarding_checked_at: datetime | None


class AddressPage(Page):
    """One page of addresses."""

    data: list[AddressOut]


class OwnerOut(Shape):
    """The accountable person."""

    name: str
    email: str


class SignatureOut(Shape):
    """What is appended to mail."""

    text: str | None
    html: str | None


class SendPolicyOut(Shape):
    """The identity's own rules; a null cap means the tenant's for an identity."""

    daily_cap: int | None
    auto_reply: Literal["allowed", "denied"]
    require_known_recipient: bool


class IdentityOut(Shape):
    """An identity with its addresses of every state."""

    example: ClassVar[dict[str, Any]] = {
        "id": f"idn_{_ULID}",
        "tenant_id": f"ten_{_ULID}",
        "username": "desk",
        "display_name": "Acme Desk",
        "purpose": None,
        "status": "active",
        "pause_reason": None,
        "primary_address": AddressOut.example["address"],
        "addresses": [AddressOut.example],
        "owner": {"name": "Ada Owner", "email": "ada@example.com"},
        "signature": None,
        "send_policy": {
            "daily_cap": None,
            "auto_reply": "allowed",
            "require_known_recipient": False,
        },
        "metadata": {"desk": "7"},
        "client_id": "desk-7",
        "created_at": _AT,
        "updated_at": _AT,
    }

    id: str
    tenant_id: str
    username: str
    display_name: str
    purpose: str | None
    status: IdentityStatus
    pause_reason: PauseReason | None
    primary_address: str | None = Field(description="Null once it is deleted.")
    addresses: list[AddressOut]
    owner: OwnerOut | None
    signature: SignatureOut | None
    send_policy: SendPolicyOut
    metadata: dict[str, str]
    client_id: str | None
    created_at: datetime
    updated_at: datetime


class IdentityPage(Page):
    """One page of identities."""

    data: list[IdentityOut]
