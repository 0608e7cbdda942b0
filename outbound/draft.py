"""Pure: what the steps of the policy find out, one after the other."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mailboxes.statuses import MessageKind, Operation
from outbound.mime import Attachment
from outbound.plan import (
    OwnAddress,
    PlannedFile,
    PlannedRecipient,
    SendFacts,
    SendPlan,
)
from outbound.requests import SendRequest
from outbound.text import text_from_html

SIGNATURE_MARK = "\n\n-- \n"


@dataclass(frozen=True, slots=True)
class NewIds:
    """The ids that a send will use if it is accepted."""

    message: str
    thread: str
    attachments: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """A request on its way to a plan."""

    facts: SendFacts
    request: SendRequest
    recipients: tuple[PlannedRecipient, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    files: tuple[Attachment, ...] = ()
    sender: OwnAddress | None = None
    operation: Operation = field(default=Operation.SEND)

    def finish(self, ids: NewIds) -> SendPlan:
        """Return the plan; the steps have filled in everything by now."""
        assert self.sender is not None  # noqa: S101  step 13 sets or refuses
        facts, request = self.facts, self.request
        text, page = self._bodies()
        return SendPlan(
            operation=self.operation,
            tenant_id=facts.tenant_id,
            identity_id=facts.identity_id,
            message_id=ids.message,
            thread_id=ids.thread,
            from_address=self.sender.address,
            from_name=facts.display_name,
            recipients=self.recipients,
            subject=request.subject,
            text=text,
            html=page,
            headers=self._service_headers() + self.headers,
            files=tuple(
                PlannedFile(id=id_, file=file)
                for id_, file in zip(ids.attachments, self.files, strict=True)
            ),
            labels=tuple(dict.fromkeys(request.labels)),
            metadata=dict(request.metadata),
            kind=MessageKind(request.kind),
            now=facts.now,
        )

    def _service_headers(self) -> tuple[tuple[str, str], ...]:
        hop = ("X-Pylota-Mail-Hop", "1")
        if self._disclosure()["mode"] == "header":
            return (hop, ("X-AI-Generated", "true"))
        return (hop,)

    def _disclosure(self) -> Mapping[str, Any]:
        disclosure: Mapping[str, Any] = self.facts.policy["ai_disclosure"]
        return disclosure

    def _bodies(self) -> tuple[str, str | None]:
        """Return text and HTML with signature and disclosure (the page, "Body")."""
        page = self.request.html
        text = self.request.text
        if text is None:
            text = text_from_html(page or "")
        facts, disclosure = self.facts, self._disclosure()
        if facts.signature_text:
            text += SIGNATURE_MARK + facts.signature_text
        if page is not None and facts.signature_html:
            page += f"<br><br>-- <br>{facts.signature_html}"
        if disclosure["mode"] == "footer":
            text += f"\n\n{disclosure['text']}"
            if page is not None:
                page += f"<p>{html.escape(disclosure['text'])}</p>"
        return text, page
