"""What an endpoint is asked to be: checked by what is stored, and nothing written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import FieldError, InvalidRequest
from mailboxes.callers import Caller
from mailboxes.selectors import identities_in_reach
from webhooks.models import WebhookEndpoint
from webhooks.rules import check_may_hear, known_types, switched
from webhooks.statuses import DisabledReason

ON: Final[Mapping[str, Any]] = {
    "disabled_reason": None,
    "failures": 0,
    "failing_since": None,
}
"""The columns of an endpoint that is on, and has not failed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEndpoint:
    """What an endpoint is made of; without identities it is told of all of them."""

    url: str
    events: Sequence[str]
    identity_ids: Sequence[str] | None = None
    description: str | None = None


def check_wish(
    new: NewEndpoint, *, tenant_id: str | None, caller: Caller
) -> NewEndpoint:
    """Return what is asked for with each type and identity once.

    Raises InvalidRequest for a type or an identity that is not there, PermissionDenied
    for mail that the key may not read.
    """
    events = known_types(new.events)
    check_may_hear(events, caller=caller)
    return NewEndpoint(
        url=new.url,
        events=events,
        identity_ids=_known(new.identity_ids, tenant_id, caller),
        description=new.description,
    )


def changes_of(
    endpoint: WebhookEndpoint, given: Mapping[str, Any], *, caller: Caller
) -> dict[str, Any]:
    """Return the columns that a change writes: those that would be other than now.

    Raises what ``check_wish`` and ``switched`` raise.
    """
    wanted = {name: given[name] for name in given if name != "enabled"}
    if "events" in wanted:
        wanted["events"] = known_types(wanted["events"])
    if "identity_ids" in wanted:
        ids = wanted["identity_ids"]
        wanted["identity_ids"] = _known(ids, endpoint.tenant_id, caller)
    if "description" in wanted:
        wanted["description"] = wanted["description"] or ""
    changed = {n: v for n, v in wanted.items() if v != getattr(endpoint, n)}
    if changed.keys() & {"url", "events"}:
        check_may_hear(changed.get("events", endpoint.events), caller=caller)
    enabled = given.get("enabled")
    return changed | switch(endpoint, has_new_url="url" in changed, enabled=enabled)


def switch(
    endpoint: WebhookEndpoint, *, has_new_url: bool = False, enabled: bool | None
) -> dict[str, Any]:
    """Return the columns that turn an endpoint on or off; none where it stays as is.

    Raises what ``switched`` raises.
    """
    before = endpoint.disabled_reason and DisabledReason(endpoint.disabled_reason)
    reason = switched(before or None, has_new_url=has_new_url, enabled=enabled)
    if reason is None:
        return turned_on(endpoint) if enabled else {}
    columns: dict[str, Any] = {}
    if has_new_url:
        columns = {"failures": 0, "failing_since": None}  # they were the old one's
    if reason != before:
        columns["disabled_reason"] = reason
    return columns


def turned_on(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return the columns of an endpoint that is on; none if it is all of that."""
    is_so = all(getattr(endpoint, name) == value for name, value in ON.items())
    return {} if is_so else dict(ON)


def _known(
    identity_ids: Sequence[str] | None, tenant_id: str | None, caller: Caller
) -> list[str] | None:
    """Return identities, each once; of a tenant, if it is a tenant's endpoint."""
    if identity_ids is None:
        return None
    found = identities_in_reach(caller).filter(id__in=identity_ids)
    if tenant_id is not None:
        found = found.filter(tenant_id=tenant_id)
    known = set(found.values_list("id", flat=True))
    errors = [
        FieldError(f"identity_ids[{n}]", "No such identity.")
        for n, one in enumerate(identity_ids)
        if one not in known
    ]
    if errors:
        raise InvalidRequest("Some identities are not there.", errors=errors)
    return list(dict.fromkeys(identity_ids))
