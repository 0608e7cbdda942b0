"""What is counted: allowances, caps and usage, as functions of the rows."""

from collections import Counter, deque
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from zoneinfo import ZoneInfo

from core.database import execute
from delivery.statuses import ACCEPTED, DeliveryStatus
from mailboxes.models import Mailbox, Tenant
from pylota.demo_data.draw import Draw
from pylota.demo_data.mail import Letter
from pylota.demo_data.rows import Rows
from pylota.demo_data.senders import Sender
from pylota.demo_data.shapes import TENANTS
from quota.caps import TENANT_METRIC, identity_metric
from quota.models import Allowance
from quota.periods import Period
from quota.statuses import Feature

KEPT_COUNTS: Final = timedelta(days=3)
WINDOW: Final = 1000
NEARLY: Final = 0.96
"""The part of its cap that a tenant near its cap has used today."""

JUDGED: Final = {
    DeliveryStatus.DELIVERED: "delivered",
    DeliveryStatus.BOUNCED: "bounced",
    DeliveryStatus.COMPLAINED: "complained",
}


class Books:
    """Counts letters while they are told of, and writes the sums at the end."""

    def __init__(self, draw: Draw, rows: Rows) -> None:
        self._draw, self._rows = draw, rows
        self._period = Period.month_of(draw.now)
        self._used: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._caps: Counter[tuple[str, str, str]] = Counter()
        self._usage: Counter[tuple[str, str, str]] = Counter()
        self._outcomes: dict[str, deque[tuple[str, datetime]]] = {}

    def count(self, letter: Letter) -> None:
        """Count one letter wherever it counts."""
        tenant, day = letter.sender.tenant_id, letter.cap_day
        if letter.is_inbound:
            self._use(tenant, "inbound", letter.at, 1)
            return
        if letter.fate == "queued":
            self._held[tenant] += len(letter.recipients)
        if letter.fate != "canceled" and day is not None:
            for metric in (TENANT_METRIC, identity_metric(letter.sender.identity_id)):
                self._caps[tenant, metric, day.isoformat()] += 1
        charged = [one for one in letter.recipients if one.status in ACCEPTED]
        for one in charged:
            at = one.charged_at or letter.ended_at
            self._used[tenant] += at >= self._period.start
            self._use(tenant, "sends", at, 1)
        if charged:
            self._use(tenant, "outbound", charged[0].charged_at or letter.ended_at, 1)
        self._judge(letter)

    def _use(self, tenant: str, metric: str, at: datetime, units: int) -> None:
        self._usage[tenant, metric, at.astimezone(UTC).date().isoformat()] += units

    def _judge(self, letter: Letter) -> None:
        window = self._outcomes.setdefault(
            letter.sender.identity_id, deque(maxlen=WINDOW)
        )
        for one in letter.recipients:
            if one.event_ids and one.status in JUDGED:
                kind = "other" if one.bounce_type == "soft" else JUDGED[one.status]
                window.append((kind, one.changed_at))

    def close(self, senders: list[Sender]) -> None:
        """Write what was counted; joins the caller's transaction."""
        self._allowances()
        self._counters()
        self._daily_usage()
        self._near_caps()
        for sender in senders:
            self._mailbox(sender)

    def _allowances(self) -> None:
        for shape in TENANTS:
            tenant = Tenant.objects.get(slug=shape.slug)
            Allowance.objects.filter(tenant=tenant, feature=Feature.SENDS).update(
                granted=shape.granted,
                used=self._used[tenant.id],
                held=self._held[tenant.id],
            )

    def _counters(self) -> None:
        since = (self._draw.now - KEPT_COUNTS).date().isoformat()
        usage = {
            (tenant, f"usage:{metric}", day): value
            for (tenant, metric, day), value in self._usage.items()
        }
        for (tenant, metric, day), value in {**self._caps, **usage}.items():
            if day >= since:
                row = {"tenant_id": tenant, "metric": metric, "bucket": day}
                self._rows.add("counters", {**row, "value": value})

    def _daily_usage(self) -> None:
        for (tenant, metric, day), value in self._usage.items():
            row = {"tenant_id": tenant, "day": day, "metric": metric, "value": value}
            self._rows.add("usage_daily", row)

    def _near_caps(self) -> None:
        for shape in TENANTS:
            tenant = Tenant.objects.get(slug=shape.slug)
            today = (
                self._draw.now.astimezone(ZoneInfo(shape.timezone)).date().isoformat()
            )
            used = self._caps[tenant.id, TENANT_METRIC, today]
            if shape.near_cap:
                cap = max(1, round(used / NEARLY))
                Tenant.objects.filter(id=tenant.id).update(
                    policy={"tenant_daily_send_cap": cap}
                )

    def _mailbox(self, sender: Sender) -> None:
        Mailbox.objects.filter(identity_id=sender.identity_id).update(
            next_thread_seq=len(sender.threads) + 1, next_event_seq=sender.next_event
        )
        scope = {"tenant_id": sender.tenant_id, "identity_id": sender.identity_id}
        for thread in sender.threads:
            self._rows.add(
                "threads",
                {
                    "pk": thread.pk,
                    "id": thread.id,
                    **scope,
                    "seq": thread.seq,
                    "subject": thread.subject,
                    "first_at": thread.first_at,
                    "last_at": thread.last_at,
                    "last_inbound_at": thread.last_inbound_at,
                    "last_outbound_at": thread.last_outbound_at,
                    "message_count": thread.count,
                    "unread_count": thread.unread,
                    "participants": thread.people,
                    "reply_from_address": sender.address,
                },
            )
        for address, known in sender.contacts.items():
            name, first, last, came, went, thread_pk = known
            self._rows.add(
                "contacts",
                {
                    **scope,
                    "address": address,
                    "name": name,
                    "domain": address.rpartition("@")[2],
                    "first_seen_at": first,
                    "last_seen_at": last,
                    "inbound_count": came,
                    "outbound_count": went,
                    "last_thread_pk": thread_pk,
                },
            )
        for n, (kind, at) in enumerate(self._outcomes.get(sender.identity_id, ())):
            digest = sha256(f"{sender.identity_id}:{n}".encode()).hexdigest()
            row = {**scope, "event_hash": digest, "outcome": kind, "at": at}
            self._rows.add("outcomes", row)


def analyze() -> None:
    """Let the planner know of the rows at once; joins the caller's transaction."""
    execute("ANALYZE messages, deliveries, attempts, events, provider_events")
