"""What every view of the API is built on."""

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from core.described import described_parameters
from core.errors import InvalidRequest


class ApiView(APIView):
    """A view without OPTIONS: the description of routes is /openapi.json."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let a caller in with the parameters that the description names, and no other.

        A mistyped ``dry_run`` would send. Who has no key follows a link, and mail
        programs add parameters of their own to those. Raises InvalidRequest.
        """
        super().initial(request, *args, **kwargs)
        verb = str(request.method)
        if request.auth is None or verb not in self.allowed_methods:  # answered 405
            return
        known = described_parameters(getattr(self, verb.lower()))
        for name in request.query_params:
            if name not in known:
                raise InvalidRequest.at(name, "This parameter is not known here.")

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Add nothing; ``Allow`` belongs to a 405."""
        return {}
