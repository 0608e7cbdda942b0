"""The rows of the outcome table (outbound tables, section 5), and what shows each.

Read it beside ``outbound/outcomes.py``, where the results of all transports become
outcomes. A row without a test, or with one that has gone, fails here.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
CLOUDFLARE: Final = "services/test_cloudflare_outcomes.py"
ROUNDS: Final = "services/test_cloudflare_rounds.py"
SES: Final = "services/test_ses_table.py"
SMTP: Final = "services/test_smtp_table.py"
RECORDS: Final = "services/test_claims_and_records.py"
FALLBACK: Final = "services/test_fallback.py"
BACK_OFF: Final = "services/test_back_off.py"

ROWS: Final = {
    "accepted by Cloudflare, SES, a relay, the simulator": [
        (CLOUDFLARE, "an_accepted_send_is_submitted_in_both_shapes_of_the_answer"),
        (SES, "200_submits_under_the_id_that_ses_gave"),
        (SMTP, "250_to_the_final_dot_is_accepted"),
        ("unit/test_simulator.py", "an_accepted_script_tells_its_events_in_time"),
        (RECORDS, "an_accepted_call_submits_charges_and_says_so"),
    ],
    "accepted, with deferred recipients": [
        (SMTP, "4yz_to_one_recipient_defers_that_one_and_the_rest_goes"),
        (
            RECORDS,
            "recipients_are_decided_one_by_one_and_only_the_deferred_tried_again",
        ),
    ],
    "Cloudflare: E_VALIDATION_ERROR and the like, E_DELIVERY_FAILED": [
        (CLOUDFLARE, "a_definite_refusal_rejects_the_message_and_is_never_tried_again"),
    ],
    "Cloudflare: E_RECIPIENT_NOT_ALLOWED": [
        (CLOUDFLARE, "a_definite_refusal_rejects_the_message_and_is_never_tried_again"),
        (CLOUDFLARE, "the_table_in_code_is_the_one_of_the_specification"),
    ],
    "the sender's domain is not known, or not verified": [
        (CLOUDFLARE, "a_sender_that_the_provider_does_not_know_has_its_domain_checked"),
        (SES, "a_refusal_that_blames_the_domain_makes_its_check_due"),
    ],
    "Cloudflare: E_RECIPIENT_SUPPRESSED": [
        (ROUNDS, "who_is_suppressed_is_set_aside_and_the_rest_is_sent_to_at_once"),
        (ROUNDS, "with_nobody_left_the_message_is_suppressed"),
        (ROUNDS, "when_nobody_can_tell_who_it_is_the_message_is_rejected"),
        (ROUNDS, "three_rounds_are_made_and_no_fourth"),
    ],
    "rate limit": [
        (CLOUDFLARE, "what_may_pass_waits_for_its_back_off_and_nothing_was_sent"),
        (SES, "what_may_pass_waits_and_what_an_operator_can_mend_raises_an_alert"),
        (BACK_OFF, "a_back_off_of_each_class_ends_after_a_day_and_says_so_once"),
    ],
    "daily quota": [
        (CLOUDFLARE, "what_may_pass_waits_for_its_back_off_and_nothing_was_sent"),
        (
            "services/test_cloudflare_calls.py",
            "the_first_quota_error_opens_the_alert_and_the_next_renews_it",
        ),
        (SES, "a_second_quota_error_renews_the_alert_of_the_first"),
        (BACK_OFF, "a_back_off_of_each_class_ends_after_a_day_and_says_so_once"),
    ],
    "SES: the account is suspended or paused": [
        (SES, "what_may_pass_waits_and_what_an_operator_can_mend_raises_an_alert"),
        (
            FALLBACK,
            "mail_that_a_paused_ses_refused_leaves_by_fallback_after_its_back_off",
        ),
    ],
    "SES: MessageRejected, BadRequestException, any other typed 4xx": [
        (SES, "a_typed_4xx_rejects_for_good"),
        (SES, "each_error_type_of_the_table_has_its_row_here"),
    ],
    "SMTP: 5yz to AUTH; no STARTTLS on offer": [
        (SMTP, "5yz_to_auth_is_a_refusal_with_a_domain_issue"),
        (SMTP, "no_starttls_on_offer_is_a_refusal_and_no_credentials_are_sent"),
        (
            "services/test_blamed_domains.py",
            "a_relay_that_refuses_login_or_tls_makes_the_domains_check_due",
        ),
    ],
    "SMTP: 5yz to MAIL FROM, to the dot, to every RCPT TO": [
        (SMTP, "5yz_to_mail_or_to_the_dot_is_a_refusal"),
        (SMTP, "5yz_to_every_recipient_is_a_refusal_without_data"),
    ],
    "SMTP: 5yz to one RCPT TO": [
        (SMTP, "5yz_to_one_recipient_refuses_that_one_and_the_rest_goes"),
    ],
    "SMTP: anything else before the final dot, and 4yz to it": [
        (SMTP, "4yz_at_any_step_is_tried_later"),
        (SMTP, "any_other_answer_before_the_dot_is_tried_later"),
        (SMTP, "4yz_to_every_recipient_ends_in_rset_and_quit_without_data"),
        (SMTP, "nobody_accepted_with_a_4yz_among_them_is_tried_later"),
        (
            "services/test_smtp_claims.py",
            "a_relay_that_refuses_the_connection_is_tried_later",
        ),
        (
            "services/test_smtp_faults.py",
            "a_fault_at_this_stage_never_makes_a_second_copy_nor_a_false_answer",
        ),
    ],
    "what no row calls definite": [
        (CLOUDFLARE, "what_no_row_calls_definite_is_uncertain_and_never_sent_again"),
        (SES, "what_no_row_calls_definite_is_uncertain_and_never_sent_again"),
        (SMTP, "after_the_dot_anything_but_a_complete_answer_is_unknown"),
        (RECORDS, "an_unknown_outcome_is_uncertain_and_never_called_again"),
    ],
    "no answer within the deadline": [
        (CLOUDFLARE, "a_provider_that_hangs_or_drips_is_left_at_the_deadline"),
        (SES, "a_peer_that_hangs_or_drips_does_not_outlive_the_deadline"),
        (SMTP, "after_the_dot_anything_but_a_complete_answer_is_unknown"),
    ],
    "the domain is failing": [
        (
            FALLBACK,
            "mail_of_a_broken_relay_domain_leaves_by_the_platforms_relay_instead",
        ),
        (FALLBACK, "with_fallback_disabled_nothing_is_sent_and_the_message_fails"),
        (FALLBACK, "a_broken_platform_domain_has_no_fallback_and_is_none"),
    ],
    "marketing, and Cloudflare is the transport": [
        (
            "services/test_cloudflare_calls.py",
            "marketing_that_would_leave_by_cloudflare_is_rejected_before_any_call",
        ),
        (FALLBACK, "marketing_does_not_leave_by_the_platforms_cloudflare"),
    ],
    "the domain is pending or verifying again": [
        (FALLBACK, "a_domain_that_is_checked_again_waits_and_does_not_fall_back"),
    ],
    "the domain is removed": [
        (FALLBACK, "a_removed_domain_rejects_and_does_not_fall_back"),
    ],
}


@cache
def _names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef))


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_outcome_table_is_shown_by_tests_that_stand(row: str) -> None:
    gone = [
        f"{file}::test_{name}"
        for file, name in ROWS[row]
        if f"test_{name}" not in _names_in(file)
    ]

    assert ROWS[row]
    assert gone == []
