"""The quota rows of a new tenant."""

from quota.models import Allowance, QuotaAccount
from quota.plans import catalogue, catalogue_digest, is_billing_on
from quota.statuses import BillingMode, Feature


def open_account(tenant_id: str, *, is_own: bool = False) -> None:
    """Give a tenant its quota rows, from this month on; a second run changes nothing.

    Where billing is on, it is metered and on the default plan, unless it is the
    operator's ``own``. Joins the caller's transaction.
    """
    plans = catalogue()
    is_metered = is_billing_on() and not is_own
    granted = plans.granted(plans.default_plan, {}) if is_metered else None
    QuotaAccount.objects.bulk_create(
        [
            QuotaAccount(
                tenant_id=tenant_id,
                mode=BillingMode.METERED if is_metered else BillingMode.EXEMPT,
                plan_id=plans.default_plan,
                catalog_hash=catalogue_digest(),
            )
        ],
        ignore_conflicts=True,
    )
    Allowance.objects.bulk_create(
        [
            Allowance(
                tenant_id=tenant_id,
                feature=feature,
                granted=granted[feature] if granted else None,
            )
            for feature in Feature
        ],
        ignore_conflicts=True,
    )
