"""What a request may bring along: its own lines, not the process's environment."""

from pylota.api.environ import cleaned

REQUEST = {
    "REQUEST_METHOD": "GET",
    "PATH_INFO": "/health",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "8000",
    "wsgi.input": object(),
    "HTTP_HOST": "localhost",
}
PROCESS = {
    "PM_MASTER_KEY": "secret",
    "DATABASE_URL": "postgres://u:p@h/d",
    "HTTP_AUTHORIZATION": "Bearer planted",
    "HTTP_PROXY": "http://proxy.example",
    "CONTENT_LENGTH": "5",
}


def test_the_environment_of_the_process_is_dropped() -> None:
    assert cleaned({**PROCESS, **REQUEST}, PROCESS) == REQUEST


def test_a_header_of_the_request_stays_though_a_variable_has_its_name() -> None:
    sent = {**REQUEST, "HTTP_AUTHORIZATION": "Bearer mine", "CONTENT_LENGTH": "7"}

    assert cleaned({**PROCESS, **sent}, PROCESS) == sent
