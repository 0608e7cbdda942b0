"""``/local/inbox``: the caught mails, in the local environment only.

A mail is hostile data: text is escaped, HTML is shown as source or in a frame without
scripts, forms and remote content.
"""

from collections.abc import Callable
from functools import wraps
from typing import Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from pylota.catcher.store import CaughtMail, Envelope, caught, parts_of

LISTED: Final = 100
_PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MAIL_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'"
)
View = Callable[..., HttpResponse]


def local_only(view: View) -> View:
    """Return the view as a page of the local environment, and 404 elsewhere."""

    @wraps(view)
    def guarded(request: HttpRequest, **where: str) -> HttpResponse:
        if not settings.LOCAL:
            raise Http404
        response = view(request, **where)
        response.setdefault("Content-Security-Policy", _PAGE_POLICY)
        response["Cache-Control"] = "no-store"
        response["Referrer-Policy"] = "no-referrer"
        response["X-Content-Type-Options"] = "nosniff"
        return response

    return require_safe(guarded)


def _mail() -> CaughtMail:
    return caught(settings.PM_DATA_DIR)


@local_only
def inbox(request: HttpRequest) -> HttpResponse:
    """List the newest mails."""
    mail = _mail()
    listed = mail.newest(LISTED)
    context = {"mails": listed, "total": mail.total(), "limit": LISTED}
    return render(request, "local/inbox.html", context)


@local_only
def shown(request: HttpRequest, name: str) -> HttpResponse:
    """Show one mail: envelope, headers, text, and HTML in a closed frame."""
    envelope, source = _found(name)
    parts = parts_of(source)
    return render(request, "local/mail.html", {"mail": envelope, "parts": parts})


@local_only
def html(request: HttpRequest, name: str) -> HttpResponse:
    """Return a mail's HTML for the closed frame: no scripts, nothing from outside."""
    _, source = _found(name)
    response = HttpResponse(parts_of(source).html)
    response["Content-Security-Policy"] = _MAIL_POLICY
    response["X-Frame-Options"] = "SAMEORIGIN"
    return response


@local_only
def source(request: HttpRequest, name: str) -> HttpResponse:
    """Return a mail as it came over the wire, as plain text."""
    _, raw = _found(name)
    return HttpResponse(raw, content_type="text/plain; charset=utf-8")


def _found(name: str) -> tuple[Envelope, bytes]:
    mail = _mail()
    envelope, raw = mail.envelope(name), mail.source(name)
    if envelope is None or raw is None:
        raise Http404
    return envelope, raw


urlpatterns: list[URLPattern] = [
    path("inbox", inbox, name="local-inbox"),
    path("inbox/<str:name>", shown, name="local-mail"),
    path("inbox/<str:name>/html", html, name="local-mail-html"),
    path("inbox/<str:name>/source", source, name="local-mail-source"),
]
