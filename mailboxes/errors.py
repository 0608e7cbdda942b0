"""Why an identity or an address cannot be made or changed."""

from typing import ClassVar

from core.errors import PylotaError


class _Taken(PylotaError):
    status: ClassVar[int] = 409
    fix = "Choose another value."


class UsernameTaken(_Taken):
    """Another identity of the tenant has a name that looks the same."""

    code = "username_taken"


class AddressTaken(_Taken):
    """Somebody has, or had, this address."""

    code = "address_taken"


class ClientIdConflict(_Taken):
    """The ``client_id`` stands for an identity that was made from another body."""

    code = "client_id_conflict"
    fix = "Repeat the original body, or choose another client_id."


class AddressNotFound(PylotaError):
    """No such address of this identity."""

    code = "address_not_found"
    status = 404
    fix = "Check the id, and that the key reaches it."


class AddressIsPrimary(PylotaError):
    """The primary address cannot be retired or deleted."""

    code = "address_is_primary"
    status = 409
    fix = "Promote another address of the identity first."


class AddressInUse(PylotaError):
    """The address is, or was, in use and stays."""

    code = "address_in_use"
    status = 409
    fix = "Retire the address; only one that is still pending can be deleted."


class FallbackAddress(AddressInUse):
    """The address on the platform's domain is the identity's for life."""

    fix = "Keep it: mail falls back on it. Promote another address to send from that."


class AddressLimitReached(PylotaError):
    """An identity has at most so many addresses that are not retired."""

    code = "address_limit_reached"
    status = 422
    fix = "Retire addresses that are not used; details.limit is the most."


class SendingDomainNotReady(PylotaError):
    """The address's domain is still being verified, or is failing."""

    code = "domain_not_ready"
    status = 409
    retryable = True
    fix = "Finish or repair the domain's verification, then repeat."


class PausedWithTenant(PylotaError):
    """Nothing of a suspended tenant is resumed, whoever paused it."""

    code = "identity_paused"
    status = 409
    fix = (
        "Ask the operator to lift the tenant's suspension; resume the identity then, if"
        " that did not."
    )
