"""The reference of the API as a page: the description, read by Swagger UI.

Everything comes from this deployment; the page's own policy lets the browser ask no
other host.
"""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # Swagger UI writes styles on elements
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show every route, and let the reader try it with a key of their own."""
    response = render(request, "reference.html")
    response["Content-Security-Policy"] = POLICY
    return response
