"""Cloudflare Email Sending over its REST API (outbound tables, section 5).

One POST, made once. Before it nothing has left; after its first octet only a complete
answer that the table knows says what became of the message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode

from core.deadline import Deadline
from core.http_answer import Answer
from core.http_once import NoAnswer, ask
from outbound.transports.base import (
    PROVIDER_AWAY,
    QUESTION_SECONDS,
    OutgoingMessage,
    RecipientSuppressed,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.cloudflare_answers import page_of, result_of
from outbound.transports.cloudflare_body import body_of
from outbound.transports.told import starred

MOST_PAGES = 20
"""Pages of the suppression list that are read for one recipient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudflareTransport:
    """Speaks Cloudflare's API. Knows nothing of rows, retries or Celery.

    ``base`` is the API's URL without a slash at its end. ``seconds`` is the time of a
    call, and again of all look-ups that follow a refusal.
    """

    account_id: str
    token: str = field(repr=False)
    base: str
    seconds: float = 30.0

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Make one call and say how it ended; a refusal also says whom it is about."""
        try:
            body = body_of(message)
        except Exception as error:  # nothing has left, whatever went wrong
            return RetryLater(RetryClass.PAUSED, "not_composed", type(error).__name__)
        if message.asks_first and not self._is_there(message):
            return RetryLater(RetryClass.PAUSED, PROVIDER_AWAY)
        deadline = self._deadline(message)
        if message.seconds_left() < deadline.left():
            return RetryLater(RetryClass.PAUSED, "claim_too_old")
        try:
            answer = self._ask("POST", "send", deadline, body)
        except NoAnswer as error:
            return self._lost(message, deadline, error)
        result = result_of(answer, hidden=self._hidden(message))
        if isinstance(result, RecipientSuppressed):
            return replace(result, found=self._suppressed(message))
        return result

    def _is_there(self, message: OutgoingMessage) -> bool:
        """Ask what changes nothing; any complete answer but a 5xx is one."""
        deadline = Deadline(min(QUESTION_SECONDS, self._deadline(message).left()))
        try:
            return self._ask("GET", "suppressions?per_page=1", deadline).status < 500
        except Exception:  # whatever fails here, nothing has been sent
            return False

    def _suppressed(self, message: OutgoingMessage) -> Mapping[str, str]:
        """Return whom the provider suppresses, with its reasons; empty: nobody knows.

        All look-ups share one deadline. One that fails leaves everybody in doubt.
        """
        if len(message.recipients) == 1 and message.journal_bcc is None:
            return {message.recipients[0]: "unknown"}
        deadline = self._deadline(message)
        found = {}
        for address in message.recipients:
            try:
                reason = self._reason(address, message.domain, deadline)
            except Exception:  # the refusal stays definite, whatever a look-up meets
                return {}
            if reason is not None:
                found[address] = reason
        return found

    def _reason(self, address: str, domain: str, deadline: Deadline) -> str | None:
        query = {"email": address}
        for _ in range(MOST_PAGES):  # pages may be empty while there are more
            answer = self._ask("GET", f"suppressions?{urlencode(query)}", deadline)
            page = page_of(answer, address=address, domain=domain)
            if page is None:
                raise NoAnswer("no list of suppressions")
            if page.reason is not None or not page.cursor:
                return page.reason
            query["cursor"] = page.cursor
        raise NoAnswer("a list of suppressions without end")

    def _ask(
        self, method: str, path: str, deadline: Deadline, body: bytes = b""
    ) -> Answer:
        account = quote(self.account_id, safe="")
        return ask(
            method,
            f"{self.base}/accounts/{account}/email/sending/{path}",
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": "pylota",
            },
            content=body,
            deadline=deadline,
        )

    def _deadline(self, message: OutgoingMessage) -> Deadline:
        return Deadline(min(self.seconds, message.deadline_seconds))

    def _hidden(self, message: OutgoingMessage) -> tuple[str, ...]:
        journal = (message.journal_bcc,) if message.journal_bcc else ()
        return (self.token, *message.recipients, *journal)

    def _lost(
        self, message: OutgoingMessage, deadline: Deadline, error: NoAnswer
    ) -> Unknown:
        """Return the doubt that is left: every connection error is one (the page)."""
        if deadline.has_passed:
            return Unknown(UncertainReason.TIMEOUT, "no complete answer in time")
        detail = starred(str(error), self._hidden(message))
        return Unknown(UncertainReason.CONNECTION_LOST, detail)
