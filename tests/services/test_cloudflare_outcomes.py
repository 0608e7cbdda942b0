"""Each row of the outcome table that Cloudflare has, over HTTP, through the worker."""

from dataclasses import dataclass

import pytest

from delivery.models import Attempt, OutboundState
from domains.models import Domain
from mailboxes.models import Alert, Event, Message
from outbound.transports.cloudflare_answers import CODES, SUFFIXES
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.cloudflare import configured, queued, shorten, work
from tests.support.cloudflare_server import (
    CloudflareServer,
    Say,
    Step,
    envelope,
    error,
    taken,
)

pytestmark = pytest.mark.django_db
A, B = "a@example.net", "b@example.net"
SUFFIX = "email.sending.error."
HTML = "<html><head><title>520</title></head><body>cloudflare</body></html>"


def sent_by(server: CloudflareServer, *recipients: str) -> Message:
    """Return a message after two rings, of which the provider saw one connection."""
    message = queued(*recipients)
    with configured(server):
        work(message)
    assert server.connections == 1
    return message


def reasons_of(message: Message) -> dict[str, object]:
    """Return the data of the mailbox's one event."""
    event = Event.objects.get(identity=message.identity)
    data: dict[str, object] = event.payload["data"]
    return data


@pytest.mark.parametrize("message_id", ["0b5c1f2a", None])
def test_an_accepted_send_is_submitted_in_both_shapes_of_the_answer(
    message_id: str | None,
) -> None:
    with CloudflareServer(taken([A, B], message_id)) as server:
        message = sent_by(server, A, B)

        assert (message.status, message.provider) == ("submitted", "cloudflare")
        assert message.provider_message_id == message_id
        assert statuses(message) == {A: "submitted", B: "submitted"}
        assert events_of(message) == ["message.sent"]
        assert dict(server.copies) == {A: 1, B: 1}
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.phase) == ("accepted", "answered")
    assert_units_add_up(message)


def test_the_message_id_of_a_send_is_the_providers_and_nobody_knows_it() -> None:
    with CloudflareServer() as server:
        message = sent_by(server, A)

    assert message.rfc_message_id is None
    assert Attempt.objects.get().rfc_message_id is None


@dataclass(frozen=True)
class Row:
    """One row of the table: what is answered, and what becomes of the message."""

    answer: Step
    status: str
    reason: str | None
    code: str | None = None
    alert: str | None = None
    issue: str | None = None
    backs_off: tuple[float, float] = (0, 0)

    @property
    def name(self) -> str:
        """Return the name of the test that shows this row."""
        if isinstance(self.answer, Say) and isinstance(self.answer.body, dict):
            errors = self.answer.body["errors"]
            words = errors[0]["message"] or errors[0]["code"] if errors else "none"
            return f"{self.answer.status} {words}".removeprefix(SUFFIX)
        return self.answer if isinstance(self.answer, str) else "html"


def _rejected(
    answer: Step,
    code: str,
    reason: str = "provider_validation",
    *,
    alert: str | None = None,
    issue: str | None = None,
) -> Row:
    return Row(answer, "rejected", reason, code, alert, issue)


def _e(code: str, status: int = 400) -> Say:
    return error(status, f"{code}: what was wrong", code)


INVALID = [
    *("E_VALIDATION_ERROR", "E_FIELD_MISSING", "E_TOO_MANY_RECIPIENTS"),
    *("E_TOO_MANY_ATTACHMENTS", "E_CONTENT_TOO_LARGE", "E_HEADER_NOT_ALLOWED"),
    *("E_HEADER_USE_API_FIELD", "E_HEADER_VALUE_INVALID", "E_HEADER_VALUE_TOO_LONG"),
    *("E_HEADER_NAME_INVALID", "E_HEADERS_TOO_LARGE", "E_HEADERS_TOO_MANY"),
    "E_DELIVERY_FAILED",
]
REFUSED = [
    *(_rejected(_e(code), code) for code in INVALID),
    _rejected(
        _e("E_RECIPIENT_NOT_ALLOWED"),
        "E_RECIPIENT_NOT_ALLOWED",
        alert="cloudflare_recipient_not_allowed",
    ),
    *(
        _rejected(error(400, f"{SUFFIX}{words}"), f"{SUFFIX}{words}")
        for words in (
            *("invalid_request_schema", "email.too_big"),
            *("email.no_content_length", "email.invalid"),
        )
    ),
    _rejected(
        error(200, f"{SUFFIX}email.invalid", 10200), f"{SUFFIX}email.invalid"
    ),  # an error inside a 200
    *(
        _rejected(
            _e(code),
            code,
            "sender_domain_unavailable",
            issue="sender_domain_unavailable",
        )
        for code in ("E_SENDER_DOMAIN_NOT_AVAILABLE", "E_SENDER_NOT_VERIFIED")
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_a_definite_refusal_rejects_the_message_and_is_never_tried_again(
    row: Row,
) -> None:
    with CloudflareServer(row.answer) as server:
        message = sent_by(server, A, B)

        assert server.copies.total() == 0
    assert (message.status, message.reason) == ("rejected", row.reason)
    assert statuses(message) == {A: "rejected", B: "rejected"}
    assert events_of(message) == ["message.rejected"]
    assert reasons_of(message)["reason"] == row.reason
    assert reasons_of(message)["detail"] == Attempt.objects.get().detail
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.code) == ("rejected", row.code)
    assert (attempt.detail or "").startswith("HTTP ")
    assert not OutboundState.objects.exists()
    assert_told(row)
    assert_units_add_up(message)


def assert_told(row: Row) -> None:
    """Assert what operator and domain are told: this row's, and nothing else."""
    alerts = Alert.objects.values_list("name", "subject")
    assert [*alerts] == ([(row.alert, "cloudflare")] if row.alert else [])
    codes = [issue["code"] for issue in Domain.objects.get().issues]
    assert codes == ([row.issue] if row.issue else [])


@pytest.mark.parametrize(
    "code", ["E_SENDER_DOMAIN_NOT_AVAILABLE", "E_SENDER_NOT_VERIFIED"]
)
def test_a_sender_that_the_provider_does_not_know_has_its_domain_checked(
    code: str,
) -> None:
    with CloudflareServer(_e(code)) as server:
        sent_by(server)

    domain = Domain.objects.get()
    assert [issue["code"] for issue in domain.issues] == ["sender_domain_unavailable"]
    assert domain.next_check_at is not None


PAUSED = [
    (403, "email.sending_disabled"),
    (403, "not_entitled"),
    (403, "forbidden"),
    (401, "authentication.unauthorized"),
    (401, "bad_token_type"),
    (503, "authentication.upstream"),
]
MINUTE = (54, 66)
LATER = [
    Row(
        error(429, f"{SUFFIX}throttled"),
        "queued",
        None,
        f"{SUFFIX}throttled",
        backs_off=(9, 11),
    ),
    Row(
        _e("E_RATE_LIMIT_EXCEEDED", 429),
        "queued",
        None,
        "E_RATE_LIMIT_EXCEEDED",
        backs_off=(9, 11),
    ),
    Row(
        _e("E_DAILY_LIMIT_EXCEEDED", 429),
        "queued",
        None,
        "E_DAILY_LIMIT_EXCEEDED",
        "provider_quota",
        backs_off=MINUTE,
    ),
    *(
        Row(
            error(status, f"{SUFFIX}{words}"),
            "queued",
            None,
            f"{SUFFIX}{words}",
            "cloudflare_sending_paused",
            backs_off=MINUTE,
        )
        for status, words in PAUSED
    ),
]


@pytest.mark.parametrize("row", LATER, ids=lambda row: row.name)
def test_what_may_pass_waits_for_its_back_off_and_nothing_was_sent(row: Row) -> None:
    with CloudflareServer(row.answer) as server:
        message = sent_by(server, A)

        assert server.copies.total() == 0
    assert (message.status, statuses(message)) == ("queued", {A: "queued"})
    attempt, state = Attempt.objects.get(), OutboundState.objects.get()
    assert (attempt.result, attempt.code) == ("retry", row.code)
    assert state.retry_at is not None
    assert attempt.finished_at is not None
    least, most = row.backs_off
    assert least <= (state.retry_at - attempt.finished_at).total_seconds() <= most
    assert_told(row)
    assert events_of(message) == []
    assert_units_add_up(message)


def _lost(answer: Step) -> Row:
    return Row(answer, "uncertain", "transport_connection_lost")


UNKNOWN = [
    _lost(error(500, f"{SUFFIX}internal_server", 10002)),
    _lost(error(200, f"{SUFFIX}internal_server", 10002)),
    _lost(_e("E_INTERNAL_SERVER_ERROR", 500)),
    _lost(_e("E_SOMETHING_NEW")),
    _lost(error(418, f"{SUFFIX}something_new")),
    _lost(Say(400, envelope(None, success=False))),  # an error with no code
    _lost(Say(200, envelope(None))),  # a success that says nothing
    _lost(Say(500, envelope({"queued": [A]}))),  # one that its status denies
    _lost(Say(200, HTML)),
    _lost(Say(429, HTML)),
    _lost(Say(520, HTML)),
    _lost(Say(502, "")),
    _lost(Say(301, envelope({"queued": [A]}))),
    _lost("reset"),
    _lost("reset_after"),
    _lost("half"),
]


@pytest.mark.parametrize("row", UNKNOWN, ids=lambda row: row.name)
def test_what_no_row_calls_definite_is_uncertain_and_never_sent_again(
    row: Row,
) -> None:
    with CloudflareServer(row.answer) as server:
        message = sent_by(server, A)

        assert server.copies.total() <= 1
    assert_in_doubt(message, row.reason)
    assert_told(row)


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_provider_that_hangs_or_drips_is_left_at_the_deadline(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, 0.4)
    with CloudflareServer(fault) as server:
        message = sent_by(server, A)

        assert server.copies.total() == 1
    assert_in_doubt(message, "transport_timeout")


def assert_in_doubt(message: Message, reason: str | None) -> None:
    """Assert that nobody knows, that it is said so, and that nothing is owed."""
    assert (message.status, message.reason) == ("uncertain", reason)
    assert statuses(message) == {A: "uncertain"}
    assert events_of(message) == ["message.uncertain"]
    assert reasons_of(message)["reason"] == reason
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.phase) == ("uncertain", "awaiting_reply")
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


def test_a_connection_that_is_refused_leaves_doubt_as_the_table_says() -> None:
    """R05: every connection error to an HTTP provider does."""
    with CloudflareServer() as server:
        pass
    message = queued(A)
    with configured(server):
        work(message)

    assert_in_doubt(message, "transport_connection_lost")


def test_of_several_errors_one_that_is_unknown_leaves_doubt() -> None:
    errors = [
        {"code": 10202, "message": f"{SUFFIX}email.invalid"},
        {"code": 10002, "message": f"{SUFFIX}internal_server"},
    ]
    answer = Say(400, envelope(None, success=False, errors=errors))
    with CloudflareServer(answer) as server:
        assert sent_by(server, A).status == "uncertain"


def test_a_redirect_is_not_followed() -> None:
    with CloudflareServer() as elsewhere, CloudflareServer(Say(307, "")) as server:
        sent_by(server, A)

        assert elsewhere.connections == 0


# --- the table as the specification has it -------------------------------------------

BY_CODE = {
    **dict.fromkeys(INVALID, "provider_validation"),
    "E_RECIPIENT_NOT_ALLOWED": "provider_validation",
    "E_SENDER_DOMAIN_NOT_AVAILABLE": "sender_domain_unavailable",
    "E_SENDER_NOT_VERIFIED": "sender_domain_unavailable",
    "E_RECIPIENT_SUPPRESSED": "recipient_suppressed_by_provider",
    "E_RATE_LIMIT_EXCEEDED": "rate_limit",
    "E_DAILY_LIMIT_EXCEEDED": "quota",
    "E_INTERNAL_SERVER_ERROR": None,
}
BY_SUFFIX = {
    **dict.fromkeys(
        ("invalid_request_schema", "email.too_big", "email.no_content_length"),
        "provider_validation",
    ),
    "email.invalid": "provider_validation",
    "throttled": "rate_limit",
    **dict.fromkeys(
        (
            *("email.sending_disabled", "not_entitled", "forbidden", "unauthorized"),
            *("bad_token_type", "authentication.upstream"),
        ),
        "paused",
    ),
    "internal_server": None,
}


def test_the_table_in_code_is_the_one_of_the_specification() -> None:
    """Each of its rows is shown above, or in the rounds, and the code has no other."""
    for table, wanted in ((CODES, BY_CODE), (SUFFIXES, BY_SUFFIX)):
        assert {words: row.verdict for words, row in table.items()} == wanted
    rows = (*REFUSED, *LATER, *UNKNOWN)
    shown = {row.name.split(" ", 1)[-1].split(":")[0] for row in rows}
    told = {words for name in shown for words in (name, *_ends_of(name))}
    assert {*BY_CODE, *BY_SUFFIX} - told == {"E_RECIPIENT_SUPPRESSED"}


def _ends_of(name: str) -> list[str]:
    """Return what stands behind each dot of a name."""
    parts = name.split(".")
    return [".".join(parts[n:]) for n in range(1, len(parts))]
