"""Why a domain cannot be added."""

from core.errors import PylotaError


class DomainExists(PylotaError):
    """Somebody holds the name already; the answer never says who."""

    code = "domain_exists"
    status = 409
    fix = "Use another domain, or the tenant that holds this one."


class DomainNotFound(PylotaError):
    """No such domain within the reach of the key."""

    code = "domain_not_found"
    status = 404
    fix = "Check the id, and that the key reaches it."
