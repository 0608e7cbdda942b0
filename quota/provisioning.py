"""The quota rows of a new tenant."""

from quota.models import Allowance, Feature, QuotaAccount


def open_account(tenant_id: str) -> None:
    """Give a tenant its quota rows, with unlimited sends; a second run changes nothing.

    Joins the caller's transaction.
    """
    QuotaAccount.objects.bulk_create(
        [QuotaAccount(tenant_id=tenant_id)], ignore_conflicts=True
    )
    Allowance.objects.bulk_create(
        [Allowance(tenant_id=tenant_id, feature=Feature.SENDS, granted=None)],
        ignore_conflicts=True,
    )
