"""A tenant's policy over HTTP: read it, change it field by field."""

from typing import Any, Final

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.described import described
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.tenant_schemas import LOWER, PolicyOut, PolicyPatch
from mailboxes.callers import caller_of
from mailboxes.models import Tenant
from mailboxes.policy import effective_policy
from mailboxes.policy_changes import by_field
from mailboxes.policy_services import change_policy, layers_of
from mailboxes.selectors import tenant_in_reach

NO_TENANT: Final = "`tenant_not_found`: no such tenant, or out of the key's reach."
POLICY_REFUSALS: Final = refusals(
    {
        404: NO_TENANT,
        403: "`permission_denied`, `scope_denied`: of a policy, `details` holds"
        " `field`, `reason` (`above_ceiling`, `not_writable`) and `ceiling`.",
        503: "`unavailable`: with `details.reason` `policy_contended`, others changed"
        " the policy three times meanwhile; repeat.",
    }
)


class PolicyView(ApiView):
    """The policy of one tenant."""

    @described(
        operation_id="getPolicy",
        tags=["tenants"],
        responses={200: PolicyOut, **refusals({404: NO_TENANT})},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """Return the policy in force, and which fields are set for this tenant."""
        tenant = tenant_in_reach(tenant_id, caller=caller_of(request))
        return Response(policy_json(tenant))

    @described(
        operation_id="changePolicy",
        tags=["tenants"],
        request=PolicyPatch,
        examples=[LOWER],
        responses={200: PolicyOut, **POLICY_REFUSALS},
    )
    def patch(self, request: Request, tenant_id: str) -> Response:
        """Merge a change into the tenant's own layer: all of it, or nothing.

        A tenant key may lower caps, recipients, automatic exchanges, retention and
        abuse thresholds up to a ceiling: the stricter of the deployment's value and
        the one that a platform key last wrote. It may turn `send_allowlist_only` on,
        and not off. Everything else, and every field for a platform key, is free.
        """
        caller = caller_of(request)
        tenant = tenant_in_reach(tenant_id, caller=caller)
        form = PolicyPatch.parse(read_json(request._request))
        with transaction.atomic(durable=True):
            wanted = form.policy.model_dump(exclude_unset=True)
            change_policy(tenant.id, wanted, caller=caller)
        tenant.refresh_from_db()
        return Response(policy_json(tenant))


def policy_json(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant's policy as the API shows it."""
    layers = layers_of(tenant)
    return {
        "policy_version": tenant.policy_version,
        "policy": effective_policy(layers.deployment, layers.overrides),
        "fields": sorted(by_field(layers.overrides)),
    }
