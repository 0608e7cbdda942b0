"""What is counted (security and operations, section 9): names and labels are public.

Labels are few and closed: never an id, an address or a tenant. A count is raised after
the commit of what it counts.
"""

from typing import Final

from django.db import transaction
from prometheus_client import Counter, Histogram

DELIVERY_UNKNOWN_TYPE: Final = Counter(
    "delivery_unknown_type_total",
    "Provider events of a type that is not known here, acknowledged unread.",
)
SES_SNS_REJECTED: Final = Counter(
    "ses_sns_rejected_total",
    "Messages posted to the hooks of SES that SNS has not signed for us.",
    ["reason"],
)
DELIVERY_EVENTS: Final = Counter(
    "delivery_events_total",
    "Provider events that came to an end: applied, a repeat, orphaned or ignored.",
    ["transport", "type"],
)
DELIVERY_ORPHANED: Final = Counter(
    "delivery_orphaned_total", "Provider events that found no message in time."
)
DELIVERY_UNROUTABLE: Final = Counter(
    "delivery_unroutable_total", "Provider events of a sender that was never ours."
)
UNCERTAIN: Final = Counter(
    "uncertain_total", "Sends whose end nobody knows.", ["transport"]
)
RECONCILED: Final = Counter(
    "reconciled_total", "Uncertain sends that evidence has settled.", ["transport"]
)
RECONCILE_AMBIGUOUS: Final = Counter(
    "reconcile_ambiguous_total",
    "Looks at an event that several sends could be meant by.",
)
STALE_CLAIM_OUTCOME: Final = Counter(
    "stale_claim_outcome_total", "Ends of calls that came after their claim had ended."
)
QUOTA_COUNT_DRIFT: Final = Counter(
    "quota_count_drift_total",
    "Counts of rows that did not agree with them, and were corrected.",
    ["feature"],
)
SUPPRESSED_RECIPIENTS: Final = Counter(
    "suppressed_recipients_total", "Addresses that became suppressed.", ["reason"]
)
ALERT_FIRED: Final = Counter(
    "alert_fired", "Alerts that were opened, once each.", ["alert", "severity"]
)
WEBHOOK_ATTEMPTS: Final = Counter(
    "webhook_attempts_total",
    "Attempts to hand an event to an endpoint, by their end.",
    ["result"],
)
WEBHOOK_DEAD: Final = Counter(
    "webhook_dead_total", "Events that an endpoint is not told of again.", ["class"]
)
WEBHOOK_DISABLED: Final = Counter(
    "webhook_disabled_total", "Endpoints that were switched off by us.", ["reason"]
)
WEBHOOK_SSRF_BLOCKED: Final = Counter(
    "webhook_ssrf_blocked_total", "Attempts that the guard of hosts has refused."
)
WEBHOOK_DELIVERY_LATENCY: Final = Histogram(
    "webhook_delivery_latency_ms",
    "From an event to its receiver's 2xx, in milliseconds.",
    ["class", "first_attempt"],
    buckets=(100, 500, 1e3, 5e3, 15e3, 6e4, 3e5, 18e5, 36e5, 864e5, 2592e5),
)
QUOTA_HOLD_DENIED: Final = Counter(
    "quota_hold_denied_total", "Refusals for want of an allowance.", ["feature"]
)
QUOTA_HOLD_EXPIRED: Final = Counter(
    "quota_hold_expired_total",
    "Holds that nobody settled in their time: each was a request that died.",
    ["feature"],
)
QUOTA_CONSUMED_WITHOUT_HOLD: Final = Counter(
    "quota_consumed_without_hold_total",
    "Charges of sends whose hold had ended before.",
)

OBJECTS_ORPHANED_DELETED: Final = Counter(
    "objects_orphaned_deleted_total",
    "Objects of sends that were never accepted, deleted after their time.",
)


def count(counter: Counter, *labels: str) -> None:
    """Raise a counter by one when the transaction commits, or now outside of one."""
    counted = counter.labels(*labels) if labels else counter
    transaction.on_commit(counted.inc)


def observe(histogram: Histogram, value: float, *labels: str) -> None:
    """Add a value to a histogram when the transaction commits, or now outside."""
    observed = histogram.labels(*labels)
    transaction.on_commit(lambda: observed.observe(value))
