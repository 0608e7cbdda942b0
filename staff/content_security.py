"""What a page of the admin may load: its own files, and nothing from elsewhere.

The theme's scripts need ``unsafe-eval`` and its elements inline styles; no inline
script runs. A mail's HTML is shown in a frame that has a stricter policy of its own.
"""

from typing import Any

from csp.middleware import CSPMiddleware
from django.http import HttpRequest, HttpResponseBase


class AdminPolicy(CSPMiddleware):
    """Sets the policy of the settings on pages of the admin, and on no others."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Add the header to an admin page that has none of its own."""
        if request.path.startswith("/admin/"):
            answer: Any = super().process_response(request, response)
            return answer  # type: ignore[no-any-return]
        return response
