"""Custom headers: every name and limit of the table, and nothing smuggled in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import FieldError
from mailboxes.statuses import MessageKind
from outbound.headers_policy import (
    ServiceHeaders,
    is_free,
    judge_headers,
    service_headers,
)

RESERVED = [
    "From", "To", "Cc", "Bcc", "Subject", "Reply-To", "Date", "Message-ID", "Sender",
    "MIME-Version", "Content-Type", "Content-Transfer-Encoding", "DKIM-Signature",
    "Return-Path", "Received", "In-Reply-To", "References", "Auto-Submitted",
    "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id", "Precedence",
    "X-Pylota-Mail-Hop", "x-pylota-anything", "X-AI-Generated", "x-ai-generated",
    "X-PYLOTA-", "X-", "X", "X-a b", "X-a:b", "X-é", "X-a\r\nBcc", "", "X-" + "a" * 99,
    "Disposition-Notification-To", "ARC-Seal", "Resent-From", "Xa-b",
]  # fmt: skip


def paths(errors: tuple[FieldError, ...]) -> list[str]:
    return [error.path for error in errors]


@pytest.mark.parametrize("name", RESERVED)
def test_a_name_that_is_not_the_callers_is_forbidden_in_any_case(name: str) -> None:
    for spelling in {name, name.lower(), name.upper()}:
        judged = judge_headers({spelling: "value"})

        assert not is_free(spelling)
        assert len(judged.forbidden) == 1
        assert judged.forbidden[0].path.startswith("headers.")
        assert judged.allowed == ()


@pytest.mark.parametrize("name", ["X-Ref", "x-ref", "X-a_b-9", "X-" + "a" * 98])
def test_an_extension_goes_out_as_it_was_given(name: str) -> None:
    assert judge_headers({name: "Väl ue"}).allowed == ((name, "Väl ue"),)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Importance", ["high", "normal", "low"]),
        ("Priority", ["normal", "non-urgent", "urgent"]),
        ("Sensitivity", ["personal", "private", "company-confidential"]),
        ("Keywords", ["anything, at all"]),
        ("Comments", ["anything, at all"]),
        ("Organization", ["Acme Äpfel"]),
    ],
)
def test_a_plain_name_in_any_case_goes_out_in_its_own(
    name: str, values: list[str]
) -> None:
    for value in values:
        for spelling in (name, name.lower(), name.upper()):
            assert judge_headers({spelling: value}).allowed == ((name, value),)


@pytest.mark.parametrize("name", ["Importance", "Priority", "Sensitivity"])
@pytest.mark.parametrize("value", ["very high", "1", "none", "high, low"])
def test_a_value_that_is_not_listed_is_invalid(name: str, value: str) -> None:
    assert paths(judge_headers({name: value}).invalid) == [f"headers.{name}"]


def test_a_listed_value_may_come_in_capitals() -> None:
    assert judge_headers({"Importance": "HIGH"}).allowed == (("Importance", "high"),)


@pytest.mark.parametrize(
    "value",
    ["", "   ", "a\r\nBcc: x@y.example", "a\nb", "a\rb", "a\x00b", "a\tb", "\x7f",
     "\ud800", "v" * 2049, "é" * 1025],
)  # fmt: skip
def test_a_value_that_no_header_can_hold_is_invalid(value: str) -> None:
    assert paths(judge_headers({"X-Ref": value}).invalid) == ["headers.X-Ref"]


@pytest.mark.parametrize("value", ["v" * 2048, "é" * 1024, "\x85", "a\u2028b", " x "])
def test_data_is_data_up_to_2048_bytes(value: str) -> None:
    expected = "" if not value.strip() else value
    judged = judge_headers({"X-Ref": value})

    assert judged.allowed == ((("X-Ref", value),) if expected else ())


def test_two_names_that_differ_in_case_only_are_one_too_many() -> None:
    judged = judge_headers(
        {"X-Ref": "1", "x-ref": "2", "Keywords": "a", "KEYWORDS": "b"}
    )

    assert paths(judged.invalid) == ["headers.x-ref", "headers.KEYWORDS"]


def test_a_forbidden_name_is_told_before_a_bad_value() -> None:
    judged = judge_headers({"X-Ref": "", "Bcc": "x@y.example"})

    assert paths(judged.forbidden) == ["headers.Bcc"]
    assert judged.invalid == ()


def test_everything_wrong_is_told_at_once() -> None:
    judged = judge_headers({"X-A": "", "X-B": "\n", "Importance": "no", "X-C": "fine"})

    assert paths(judged.invalid) == ["headers.X-A", "headers.X-B", "headers.Importance"]


def test_sixteen_kilobytes_in_all_and_not_one_byte_more() -> None:
    given = {f"X-{n}": "v" * 2045 for n in range(8)}

    assert len(judge_headers(given).allowed) == 8
    given["X-0"] += "v"
    assert paths(judge_headers(given).invalid) == ["headers"]


def test_the_services_headers_count_towards_the_limits() -> None:
    given = {f"X-{n}": "v" * 2045 for n in range(8)}

    assert paths(judge_headers(given, service=[("References", "<a@b>")]).invalid)


def test_at_most_twenty_headers_without_x() -> None:
    given = {"Keywords": "a", "Comments": "b"}
    service = [(f"List-{n}", "v") for n in range(18)]

    assert judge_headers(given, service=[*service, ("X-More", "v")]).allowed
    judged = judge_headers(given, service=[*service, ("List-More", "v")])
    assert paths(judged.invalid) == ["headers"]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=4))
def test_what_is_allowed_is_one_line_under_a_name_of_the_callers(
    given_headers: dict[str, str],
) -> None:
    for name, value in judge_headers(given_headers).allowed:
        assert is_free(name)
        assert name.isascii()
        assert not {"\r", "\n", "\x00", ":"} & set(name)
        assert not {"\r", "\n", "\x00"} & set(value)
        assert value.strip()


@pytest.mark.parametrize("kind", ["transactional", "marketing", "auto_reply"])
def test_the_table_of_service_headers(kind: str) -> None:
    unsubscribe = (("List-Unsubscribe", "<https://x.example/u>"),)
    facts = ServiceHeaders(
        kind=MessageKind(kind),
        hop=3,
        is_disclosed_in_header=True,
        unsubscribe=unsubscribe if kind == "marketing" else (),
    )

    found = dict(service_headers(facts))

    assert found["X-Pylota-Mail-Hop"] == "3"
    assert found["X-AI-Generated"] == "true"
    assert (found.get("Auto-Submitted") == "auto-replied") == (kind == "auto_reply")
    assert ("List-Unsubscribe" in found) == (kind == "marketing")


def test_a_plain_send_carries_its_hop_and_nothing_else() -> None:
    facts = ServiceHeaders(kind=MessageKind.TRANSACTIONAL)

    assert service_headers(facts) == (("X-Pylota-Mail-Hop", "1"),)
