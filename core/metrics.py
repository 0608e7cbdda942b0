"""What is counted (security and operations, section 9): names and labels are public.

Labels are few and closed: never an id, an address or a tenant. A count is raised after
the commit of what it counts.
"""

from typing import Final

from prometheus_client import Counter

DELIVERY_UNKNOWN_TYPE: Final = Counter(
    "delivery_unknown_type_total",
    "Provider events of a type that is not known here, acknowledged unread.",
)
SES_SNS_REJECTED: Final = Counter(
    "ses_sns_rejected_total",
    "Messages posted to the hooks of SES that SNS has not signed for us.",
    ["reason"],
)
