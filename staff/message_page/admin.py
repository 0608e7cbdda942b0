"""Messages: who got what, what happened when, and the answer that a person owes."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST, require_safe

from core.acting import acting
from core.acts import REASON_LIMIT, Act, ActingAdmin
from core.canonical import key_hash
from core.ids import is_id
from delivery.errors import NotUncertain
from delivery.models import Delivery
from delivery.services import resolve
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from outbound.cancel import cancel
from outbound.models import LedgerEntry
from quota.models import Hold
from staff.message_page import content
from staff.message_page.timeline import timeline
from staff.statuses import Duty

_OUTCOMES: Final = {"sent": "was sent", "not_sent": "was not sent"}


@transaction.atomic
def _cancel(message: Message, answer: Mapping[str, Any]) -> str:
    cancel(message.public_id)
    return "It is canceled, and what it held is given back."


def _not_queued(message: Message) -> str:
    if message.status == MessageStatus.QUEUED:
        return ""
    return f"it is {message.status}, not queued"


CANCEL: Final = Act(
    name="cancel",
    label="Cancel it",
    permission=Duty.RESOLVE.permission,
    what="It is taken out of the queue for good; its key keeps answering that it was"
    " accepted. A worker that has just taken it for a call is not stopped.",
    run=_cancel,
    refused=_not_queued,
    is_grave=True,
)


@admin.register(Message)
class MessageAdmin(ActingAdmin):
    """A message with all that is known of it; an uncertain one can be settled.

    Looking needs ``mailboxes.view_message``, its content ``staff.read_mail``, settling
    ``staff.resolve_message``; nothing lets anybody change a field.
    """

    acts = (CANCEL,)
    change_form_template = "staff/message.html"
    list_display = ("public_id", "status", "short_subject", "short_from", "received_at")
    list_filter = ("status", "kind", "provider")
    ordering = ("-key",)
    exact_search = ("public_id", "from_address", "rfc_message_id")
    search_help_text = "A whole id, address, Message-ID or Idempotency-Key"

    @admin.display(description="subject", ordering=None)
    def short_subject(self, message: Message) -> str:
        """Return the subject, cut for a list."""
        return _cut(message.subject or "(no subject)", 60)

    @admin.display(description="from", ordering=None)
    def short_from(self, message: Message) -> str:
        """Return the sender, cut for a list."""
        return _cut(message.from_address or "", 40)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        """Leave the bodies in the table: a list shows none of them."""
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.defer("text", "html_sanitized", "extracted_text")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Message], search_term: str
    ) -> tuple[QuerySet[Message], bool]:
        """Find by id, address of either side, Message-ID, or Idempotency-Key."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if is_id(term.upper().replace("MSG_", "msg_"), "msg"):
            return queryset.filter(public_id=term), False
        keys = LedgerEntry.objects.filter(key_hash=key_hash(term))
        found = Q(public_id__in=list(keys.values_list("message_id", flat=True)[:100]))
        if "@" in term:
            address = term.strip("<>")
            received = Delivery.objects.filter(message=OuterRef("key"), address=address)
            found |= Q(from_address=address) | Q(rfc_message_id=address)
            found |= Q(Exists(received))
        return queryset.filter(found), False

    def get_urls(self) -> list[URLPattern]:
        """Add the answer to a doubt, and the content of the mail."""
        views = {
            "resolve": self.resolve_view,
            "html": self.html_view,
            "source": self.source_view,
        }
        own = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"mailboxes_message_{name}",
            )
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Message | None:
        """Find a message by its row's number, or by the id that the API shows."""
        if is_id(object_id, "msg"):
            from_field = "public_id"
        found: Message | None = super().get_object(request, object_id, from_field)
        return found

    def known(self, request: HttpRequest, record: Message) -> dict[str, Any]:
        """Return all that is known of the message."""
        message = record
        deliveries = list(message.deliveries.order_by("field", "address"))
        doubtful = [d for d in deliveries if d.status == DeliveryStatus.UNCERTAIN]
        return {
            "message": message,
            "deliveries": deliveries,
            "doubtful": doubtful,
            "timeline": timeline(message),
            "holds": list(Hold.objects.filter(ref=message.public_id)),
            "ledger": LedgerEntry.objects.filter(message_id=message.public_id).first(),
            "may_resolve": request.user.has_perm(Duty.RESOLVE.permission),
            "may_read": request.user.has_perm(Duty.READ_MAIL.permission),
            "note_limit": REASON_LIMIT,
        }

    def _readable(self, request: HttpRequest, object_id: str) -> Message:
        """Return a message whose content the user may read, or raise."""
        if not request.user.has_perm(Duty.READ_MAIL.permission):
            raise PermissionDenied
        return self._found(request, object_id)

    def _found(self, request: HttpRequest, object_id: str) -> Message:
        message = self.get_object(request, object_id)
        if message is None:
            raise Http404
        return message

    @method_decorator(require_safe)
    def html_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the HTML of a message, for the frame on its page."""
        return content.html_frame(self._readable(request, object_id))

    @method_decorator(require_safe)
    def source_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a message as it went over the wire, as plain text."""
        return content.source(self._readable(request, object_id))

    @method_decorator(require_POST)
    def resolve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Settle an uncertain send with the user's answer and reason."""
        if not request.user.has_perm(Duty.RESOLVE.permission):
            raise PermissionDenied
        message = self._found(request, object_id)
        outcome = request.POST.get("outcome")
        note = request.POST.get("note", "").replace("\x00", "").strip()
        if outcome not in _OUTCOMES or not note:
            messages.error(request, "Choose an answer and say how you know.")
        else:
            self._resolve(request, message, outcome, note[:REASON_LIMIT])
        return HttpResponseRedirect(
            reverse("admin:mailboxes_message_change", args=(message.pk,))
        )

    def _resolve(
        self, request: HttpRequest, message: Message, outcome: str, note: str
    ) -> None:
        try:
            with acting(str(request.user.pk)):
                resolve(
                    message.public_id,
                    outcome="sent" if outcome == "sent" else "not_sent",
                    note=note,
                )
        except NotUncertain as refusal:
            messages.warning(request, f"Nothing was changed: {refusal.detail}.")
        else:
            messages.success(request, f"Recorded: it {_OUTCOMES[outcome]}.")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
