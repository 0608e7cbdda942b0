"""Refusals of this app."""

from core.errors import PylotaError


class InvalidSignature(PylotaError):
    """What was posted to a hook is not what its provider signed for us."""

    code = "invalid_signature"
    status = 403
    fix = "Leave this route to the provider, whose topic this deployment names."


class NotUncertain(PylotaError):
    """No recipient of the message is uncertain, so there is nothing to settle."""

    code = "not_uncertain"
    status = 409
    fix = "Read the message again; it has been settled meanwhile."
