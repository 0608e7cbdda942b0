"""The fields of a policy, their kinds and ranges (REST contract 2.1; mailboxes 2.7).

One shape for what a platform or tenant key may write and for ``PM_DEFAULT_POLICY``. A
null resets a field to the layer below. Pure.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from mailboxes.policy import MOST_RECIPIENTS

LARGEST_CAP: Final = 10**9
LONGEST_DAYS: Final = 36_500
LONGEST_DISCLOSURE: Final = 1_000

Cap = Annotated[int | None, Field(ge=0, le=LARGEST_CAP)]
Days = Annotated[int | None, Field(ge=1, le=LONGEST_DAYS)]
Rate = Annotated[float | None, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True
    )


class AiDisclosure(_Part):
    """Whether mail says that a machine wrote it: in a footer, or in a header."""

    mode: Literal["none", "footer", "header"] | None = None
    text: Annotated[str | None, Field(min_length=1, max_length=LONGEST_DISCLOSURE)] = (
        None
    )


class AutoReply(_Part):
    """Automatic replies, and how many of them one thread may have in a row."""

    allowed: bool | None = None
    max_automatic_exchanges: Annotated[int | None, Field(ge=0, le=100)] = None


class Retention(_Part):
    """How long things are kept, in days; messages without a number for ever."""

    raw_days: Days = None
    message_days: Days = None
    events_days: Annotated[int | None, Field(ge=1, le=365)] = None


class Abuse(_Part):
    """The parts of bad outcomes above which an identity, or a tenant, is stopped."""

    complaint_rate_pause: Rate = None
    bounce_rate_pause: Rate = None
    tenant_complaint_rate_pause: Rate = None
    tenant_bounce_rate_pause: Rate = None


class PolicyFields(_Part):
    """What a tenant's senders may do; in a change, null resets a field."""

    identity_daily_send_cap: Cap = None
    tenant_daily_send_cap: Cap = None
    max_recipients: Annotated[int | None, Field(ge=1, le=MOST_RECIPIENTS)] = None
    send_allowlist_only: bool | None = None
    large_attachments: Literal["refuse", "link"] | None = None
    link_ttl_hours: Annotated[int | None, Field(ge=1, le=168)] = None
    ai_disclosure: AiDisclosure | None = None
    auto_reply: AutoReply | None = None
    domain_fallback: bool | None = None
    retention: Retention | None = None
    webhook_text_bytes: Annotated[int | None, Field(ge=0, le=65536)] = None
    abuse: Abuse | None = None
