"""Pure: what the steps of the policy find out, one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mailboxes.recipients import Party, participants
from mailboxes.statuses import MessageKind, Operation
from mailboxes.threading import ThreadHeaders
from outbound.body import BodyInput, Original, Signature, build_bodies
from outbound.headers_policy import ServiceHeaders, service_headers
from outbound.mime import Attachment
from outbound.plan import (
    OwnAddress,
    PlannedFile,
    PlannedRecipient,
    PlannedThread,
    SendFacts,
    SendPlan,
)
from outbound.requests import AnyRequest
from outbound.unsubscribe import Unsubscribe, unsubscribe_headers
from quota.caps import caps_of
from suppressions.filters import Filtered, FilterFacts


@dataclass(frozen=True, slots=True)
class NewIds:
    """The ids that a send will use if it is accepted."""

    message: str
    thread: str
    attachments: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """A request on its way to a plan.

    ``carried`` are the files of a forwarded message, once they have been read, and
    ``forwarded_html`` its HTML if it is ours; ``filters`` what is known of the
    recipients.
    """

    facts: SendFacts
    request: AnyRequest
    operation: Operation
    recipients: tuple[PlannedRecipient, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    files: tuple[Attachment, ...] = ()
    carried: tuple[Attachment, ...] = field(default=(), repr=False)
    sender: OwnAddress | None = None
    unpins: bool = False
    subject: str = ""
    named: ThreadHeaders = field(default_factory=ThreadHeaders)
    hop: int = 1
    unsubscribe: Unsubscribe | None = None
    filters: FilterFacts = field(default_factory=FilterFacts)
    filtered: Mapping[str, Filtered] = field(default_factory=dict)
    forwarded_html: str | None = field(default=None, repr=False)

    @property
    def kind(self) -> MessageKind:
        """Return what the message is for."""
        return MessageKind(self.request.kind)

    @property
    def from_(self) -> OwnAddress:
        """Return the sender; step 13 has chosen one by now, or has refused."""
        assert self.sender is not None  # noqa: S101  step 13 sets or refuses
        return self.sender

    def own_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers that the service sets, but for those of the thread."""
        way_out = self.unsubscribe
        return service_headers(
            ServiceHeaders(
                kind=self.kind,
                hop=self.hop,
                is_disclosed_in_header=self._disclosure_mode() == "header",
                unsubscribe=unsubscribe_headers(way_out) if way_out else (),
            )
        )

    def finish(
        self, ids: NewIds, *, reply_to: Callable[["Draft", int], Party | None]
    ) -> SendPlan:
        """Return the plan; the steps have filled in everything by now.

        ``reply_to`` gives the Reply-To for a thread's number, or None.
        """
        facts, request = self.facts, self.request
        thread = facts.thread
        seq = thread.seq if thread else facts.next_thread_seq
        answers_to = reply_to(self, seq)
        return SendPlan(
            operation=self.operation,
            tenant_id=facts.tenant_id,
            identity_id=facts.identity_id,
            message_id=ids.message,
            thread=PlannedThread(
                id=thread.id if thread else ids.thread,
                key=thread.key if thread else None,
                seq=seq if thread or answers_to else None,
                head=thread.head if thread else None,
                participants=self._participants(),
                unpins=self.unpins,
            ),
            from_address=self.from_.address,
            from_name=facts.display_name,
            reply_to=answers_to,
            recipients=self.recipients,
            subject=self.subject,
            bodies=build_bodies(self._said(), to_text=_text_of),
            in_reply_to=self.named.in_reply_to,
            references=self.named.references,
            headers=self.own_headers() + self.headers,
            files=tuple(
                PlannedFile(id=id_, file=file)
                for id_, file in zip(
                    ids.attachments, self.files + self.carried, strict=True
                )
            ),
            labels=tuple(dict.fromkeys(request.labels)),
            metadata=dict(request.metadata),
            kind=self.kind,
            consent=request.consent.model_dump() if request.consent else None,
            caps=caps_of(
                facts.identity_id,
                policy=facts.policy,
                send_policy=facts.send_policy,
                is_system=facts.is_system,
            ),
            most_exchanges=int(facts.policy["auto_reply"]["max_automatic_exchanges"]),
            now=facts.now,
        )

    def _participants(self) -> tuple[Party, ...]:
        known = self.facts.thread.participants if self.facts.thread else ()
        named = [Party(r.address, r.name) for r in self.recipients if r.field != "bcc"]
        return tuple(participants(known, named, own=self.facts.own))

    def _said(self) -> BodyInput:
        facts, rules = self.facts, self.facts.policy["ai_disclosure"]
        return BodyInput(
            text=self.request.text,
            html=self.request.html,
            signature=Signature(facts.signature_text, facts.signature_html),
            disclosure=rules["text"] if rules["mode"] == "footer" else None,
            unsubscribe=self.unsubscribe,
            original=self._original(),
        )

    def _original(self) -> Original | None:
        answered = self.facts.answered
        if self.operation != Operation.FORWARD or answered is None:
            return None
        original = answered.original
        return replace(original, html=original.html or self.forwarded_html)

    def _disclosure_mode(self) -> str:
        return str(self.facts.policy["ai_disclosure"]["mode"])


def _text_of(html: str) -> str:
    from core.html_text import text_from_html  # its libraries are slow to load

    return text_from_html(html)
