"""Pure: by which way a domain's mail leaves, and what is said when it is closed.

One table, asked at submit (step 15 of the policy) and again at claim time. A test
tenant asks it neither time: its mail never leaves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from domains.statuses import Transport
from mailboxes.statuses import MessageKind, Provider

MARKETING_NEEDS_SES: Final = "marketing_needs_ses"


@dataclass(frozen=True, slots=True)
class Way:
    """Who carries the mail, and the reason given while that is not configured."""

    provider: Provider
    closed: str


WAYS: Final[Mapping[Transport, Way]] = {
    Transport.CLOUDFLARE: Way(Provider.CLOUDFLARE, "cloudflare_not_configured"),
    Transport.SES: Way(Provider.SES, "ses_not_configured"),
    Transport.SMTP: Way(Provider.SMTP, "relay_not_configured"),
}


def is_marketing_refused(kind: MessageKind, transport: Transport) -> bool:
    """Tell whether a transport's terms forbid this mail."""
    return kind == MessageKind.MARKETING and transport == Transport.CLOUDFLARE
