"""What every view of the API is built on."""

from rest_framework.views import APIView


class ApiView(APIView):
    """A view without OPTIONS: the description of routes is /openapi.json."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Add nothing; ``Allow`` belongs to a 405."""
        return {}
