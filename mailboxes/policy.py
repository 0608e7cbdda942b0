"""A tenant's policy: built-in defaults, under the deployment's, under the tenant's own.

Deep merge: ``null`` resets a value to the layer below, arrays replace (mailboxes,
section 2.7). Pure.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

Policy = dict[str, Any]

MOST_RECIPIENTS: Final = 49
"""No policy goes above this: one provider slot stays free for a journal copy."""

BUILT_IN: Final[Mapping[str, Any]] = {
    "identity_daily_send_cap": 500,
    "tenant_daily_send_cap": 5000,
    "max_recipients": 10,
    "send_allowlist_only": False,
    "large_attachments": "refuse",
    "link_ttl_hours": 72,
    "ai_disclosure": {
        "mode": "none",
        "text": "This message was written with the help of an AI assistant.",
    },
    "auto_reply": {"allowed": True, "max_automatic_exchanges": 2},
    "domain_fallback": True,
    "abuse": {
        "complaint_rate_pause": 0.003,
        "bounce_rate_pause": 0.05,
        "tenant_complaint_rate_pause": 0.001,
        "tenant_bounce_rate_pause": 0.05,
    },
    "webhook_text_bytes": 16384,
    "retention": {"raw_days": 90, "message_days": None, "events_days": 30},
}


def effective_policy(*overrides: Mapping[str, Any]) -> Policy:
    """Return the built-in policy with each layer merged over it, in order.

    Pass the deployment's ``PM_DEFAULT_POLICY`` first and the tenant's row last.
    """
    merged = deepcopy(dict(BUILT_IN))
    for layer in overrides:
        merged = merge(merged, layer)
    return merged


def check(overrides: Mapping[str, Any]) -> None:
    """Raise ValueError that names the first field which is unknown or out of range."""
    from pydantic import ValidationError  # every process reads the settings

    from mailboxes.policy_fields import PolicyFields

    try:
        PolicyFields.model_validate(overrides)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"has a wrong name or value at {path}") from None


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Policy:
    """Return ``below`` with ``above`` laid over it, object by object."""
    merged = dict(below)
    for name, value in above.items():
        if value is None:
            continue  # reset: the layer below counts
        under = merged.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = merge(under, value)
        else:
            merged[name] = deepcopy(value)
    return merged


def max_recipients(policy: Mapping[str, Any]) -> int:
    """Return how many recipients one message may have: 1 to 49."""
    return max(1, min(int(policy["max_recipients"]), MOST_RECIPIENTS))
