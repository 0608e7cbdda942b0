"""A log-in ends after twelve hours, however busy it was."""

import time
from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

SECONDS: Final = 12 * 3600
"""How long a log-in lasts (admin, "Roles")."""
LOGGED_IN_AT: Final = "logged_in_at"


@receiver(user_logged_in, dispatch_uid="staff.sessions")
def _remember(request: HttpRequest, **_: Any) -> None:
    """Note when it was: a session's own end moves with each change of it."""
    request.session[LOGGED_IN_AT] = time.time()


class EndOfSession:
    """Logs out who logged in more than twelve hours ago. Looks at admin pages only."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Take what answers the request."""
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, after the log-out if one is due."""
        if request.path.startswith("/admin/") and request.user.is_authenticated:
            began = request.session.setdefault(LOGGED_IN_AT, time.time())
            if time.time() - began > SECONDS:
                logout(request)
        return self._get_response(request)
