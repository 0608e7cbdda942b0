"""What a request may bring along: its own lines, not the process's environment.

The web server copies the whole environment, secrets included, into each request, where
a variable named ``HTTP_…`` would pose as a header (runtime facts, section 6).
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Environ = dict[str, Any]
Application = Callable[[Environ, Any], Iterable[bytes]]

CGI: Final = frozenset(
    [
        *("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"),
        *("CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_ADDR", "REMOTE_PORT"),
        *("SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL"),
    ]
)
"""The variables of a request that are no header (PEP 3333)."""


def only_the_request(application: Application) -> Application:
    """Return the application behind a filter that drops all but the request."""

    def filtered(environ: Environ, start_response: Any) -> Iterable[bytes]:
        return application(cleaned(environ, os.environ), start_response)

    return filtered


def cleaned(environ: Mapping[str, Any], process: Mapping[str, str]) -> Environ:
    """Return what belongs to the request; what equals the process's own is not its."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith("wsgi.")
        or (
            (name in CGI or name.startswith("HTTP_"))
            and not (name in process and process[name] == value)
        )
    }
