"""One check more, loaded by Schemathesis itself: why a well-formed request is refused.

A form that fits its schema may be refused for what no schema can say; then the answer
must say so, in words that the description of the route has.
"""

import re
from typing import Any, Final

import schemathesis

BEYOND_A_SCHEMA: Final = frozenset(
    {
        "cursor",  # signed
        "expires_at",  # in the future
        "timezone",  # one of the IANA database
        "owner.email",  # RFC 5321 is no regular expression
        "metadata",  # counted in bytes
        "read",  # what was sent is never unread
        "attachments",  # base64 of a size, types, names: judged together
        "headers",  # by name: which, and what each may hold
        "from_address",  # one of the identity's
        *("unsubscribe", "consent"),  # of marketing mail, with a date and a URL
        "labels_remove",  # nothing is added and removed at once
        "from",  # not after the last day, and at most 92 days before it
        *("plan_id", "topups"),  # of the deployment's catalogue
        *("url", "identity_ids"),  # of an endpoint: looked up
        "until",  # later than since
    }
)
"""Paths of ``invalid_request`` that a well-formed request may be refused at."""


def _is_well_formed(case: Any) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.check
def only_what_no_schema_says(ctx: Any, response: Any, case: Any) -> None:
    """Fail when a well-formed request is refused as malformed."""
    if response.status_code != 400 or not _is_well_formed(case):
        return
    error = response.json()["error"]
    said = case.operation.definition.raw["responses"]["400"]["description"]
    word = error["details"].get("reason") or error["code"]
    if f"`{word}`" not in said:
        raise AssertionError(f"400 {word} is not named by {case.operation.label}")
    if word == "invalid_request":
        paths = {
            re.sub(r"(?<!owner)[.\[].*", "", e["path"])
            for e in error["details"]["errors"]
        }
        if not paths or paths - BEYOND_A_SCHEMA:
            raise AssertionError(f"a well-formed request is malformed: {error}")
