"""Amazon SES, version 2 of its API: the stored bytes as raw content.

One POST, made once (architecture, section 6). What the table does not call definite is
unknown, a connection that was never opened among it (outbound tables, section 5).
"""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from core.deadline import Deadline
from core.http_once import NoAnswer
from outbound.transports.base import (
    PROVIDER_AWAY,
    QUESTION_SECONDS,
    ClaimLost,
    OutgoingMessage,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.ses_answers import accepted, refused
from outbound.transports.ses_client import SesAccount, client_of, ending_at
from outbound.transports.told import starred

TAG = "pylota_message"
"""The tag that SES's events carry back, so that a send in doubt finds its message."""
LISTS = {"to": "ToAddresses", "cc": "CcAddresses", "bcc": "BccAddresses"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SesTransport:
    """Speaks to SES. Knows nothing of rows, retries or Celery.

    ``seconds`` is the time of a call, the look-up of the name included.
    """

    account: SesAccount
    configuration_set: str | None = None
    seconds: float = 30.0

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Make one call and say how it ended.

        Raises ClaimLost when the claim would end before the call: none is made.
        """
        client = client_of(self.account)
        if message.asks_first and not self._is_there(client, message):
            return RetryLater(RetryClass.PAUSED, PROVIDER_AWAY)
        deadline = Deadline(min(self.seconds, message.deadline_seconds))
        if message.seconds_left() < deadline.left():
            raise ClaimLost("too little of the claim is left")
        try:
            with ending_at(deadline):
                return accepted(client.send_email(**self._request(message)))
        except ClientError as error:
            return refused(error.response, hidden=self._hidden(message))
        except Exception as error:  # whatever botocore made of the answer, or of none
            return self._lost(message, deadline, error)

    def _is_there(self, client: Any, message: OutgoingMessage) -> bool:
        """Ask what changes nothing; any answer but a 5xx is one, a refusal too."""
        seconds = min(QUESTION_SECONDS, self.seconds, message.deadline_seconds)
        try:
            with ending_at(Deadline(seconds)):
                client.get_account()
        except ClientError as error:
            status = int(error.response["ResponseMetadata"]["HTTPStatusCode"])
            return status < 500
        except Exception:  # whatever fails here, nothing has been sent
            return False
        return True

    def _request(self, message: OutgoingMessage) -> dict[str, Any]:
        request: dict[str, Any] = {
            "FromEmailAddress": message.from_address,
            "Destination": _destination(message),
            "Content": {"Raw": {"Data": message.mime}},
            "EmailTags": [{"Name": TAG, "Value": message.message_id}],
        }
        if self.configuration_set:
            request["ConfigurationSetName"] = self.configuration_set
        return request

    def _hidden(self, message: OutgoingMessage) -> tuple[str, ...]:
        return (self.account.access_key_id, *message.recipients)

    def _lost(
        self, message: OutgoingMessage, deadline: Deadline, error: Exception
    ) -> Unknown:
        if deadline.has_passed:
            return Unknown(UncertainReason.TIMEOUT, "no complete answer in time")
        if isinstance(error, NoAnswer):
            detail = starred(str(error), self._hidden(message))
        else:  # botocore quotes what it could not read
            detail = type(error).__name__
        return Unknown(UncertainReason.CONNECTION_LOST, detail)


def _destination(message: OutgoingMessage) -> dict[str, list[str]]:
    """Return the envelope: whoever is still queued, in the list that named them."""
    lists: dict[str, list[str]] = {name: [] for name in LISTS.values()}
    for address in message.recipients:
        lists[LISTS[message.fields.get(address, "to")]].append(address)
    return lists
