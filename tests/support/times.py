"""Short times for fault tests: seconds instead of minutes, in the same proportions."""

from typing import Any

CLAIM = 6.0
"""Age at which a claim ends, in seconds; the product's default is 300."""

FINAL = 1.2
"""How long a relay may take to answer the final dot; the product's default is 60 s."""

ALARM = 0.3
"""The alarms' period, in seconds; the product's default is 15."""

SHORT: dict[str, Any] = {
    "PM_CLAIM_SECONDS": CLAIM,
    "PM_ALARM_SECONDS": ALARM,
    "PM_REDISPATCH_SECONDS": 2,
    "PM_BACKOFF_SCALE": 0.005,
    "PM_SMTP_CONNECT_SECONDS": 3,
    "PM_SMTP_COMMAND_SECONDS": 3,
    "PM_SMTP_FINAL_SECONDS": FINAL,
}
"""The environment of a worker that lives at this pace."""
