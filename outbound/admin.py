"""Messages: who got what, how far each call came, and the answer that a person owes."""

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from core.admin import ReadOnlyAdmin
from core.canonical import key_hash
from core.ids import is_id
from delivery.errors import NotUncertain
from delivery.models import Attempt, Delivery
from delivery.services import resolve
from delivery.statuses import AttemptPhase, DeliveryStatus
from mailboxes.models import AuditRow, Message
from outbound.models import LedgerEntry

NOTE_LIMIT: Final = 500
_OUTCOMES: Final = {"sent": "was sent", "not_sent": "was not sent"}
_REACHED: Final = {
    AttemptPhase.CONNECTING: "connecting: no octet of the message had left",
    AttemptPhase.SENDING: "sending: the final dot had not been written",
    AttemptPhase.AWAITING_REPLY: "the final dot was written, no reply had come",
    AttemptPhase.ANSWERED: "answered",
    AttemptPhase.WORKER_LOST: "the worker was lost before it could say",
}


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt as the page shows it."""

    attempt: Attempt
    reached: str


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    """A message with its deliveries and attempts; an uncertain one can be settled.

    Looking needs ``mailboxes.view_message``, settling ``staff.resolve_message``;
    neither lets anybody change a field.
    """

    change_form_template = "admin/outbound/message.html"
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
        """Add the one thing that may be done to a message."""
        settle = path(
            "<path:object_id>/resolve/",
            self.admin_site.admin_view(self.resolve_view),
            name="mailboxes_message_resolve",
        )
        urls: list[URLPattern] = super().get_urls()
        return [settle, *urls]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Message | None:
        """Find a message by its row's number, or by the id that the API shows."""
        if is_id(object_id, "msg"):
            from_field = "public_id"
        found: Message | None = super().get_object(request, object_id, from_field)
        return found

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one message with all that is known of it."""
        message = self.get_object(request, object_id)
        known = self._known(request, message) if message is not None else {}
        page: HttpResponse = super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **known}
        )
        return page

    def _known(self, request: HttpRequest, message: Message) -> dict[str, Any]:
        deliveries = list(message.deliveries.order_by("field", "address"))
        doubtful = [d for d in deliveries if d.status == DeliveryStatus.UNCERTAIN]
        attempts = [
            AttemptRow(row, _REACHED.get(AttemptPhase(row.phase), row.phase))
            for row in message.attempts.order_by("n")
        ]
        return {
            "message": message,
            "deliveries": deliveries,
            "doubtful": doubtful,
            "attempts": attempts,
            "audit": AuditRow.objects.filter(target_id=message.public_id).order_by(
                "created_at"
            )[:50],
            "ledger": LedgerEntry.objects.filter(message_id=message.public_id).first(),
            "may_resolve": self.has_resolve_permission(request),
            "note_limit": NOTE_LIMIT,
        }

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may settle an uncertain send."""
        return request.user.has_perm("staff.resolve_message")

    @method_decorator(require_POST)
    def resolve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Settle an uncertain send with the user's answer and reason."""
        if not self.has_resolve_permission(request):
            raise PermissionDenied
        message = self.get_object(request, object_id)
        if message is None:
            raise Http404
        outcome = request.POST.get("outcome")
        note = request.POST.get("note", "").replace("\x00", "").strip()
        if outcome not in _OUTCOMES or not note:
            messages.error(request, "Choose an answer and say how you know.")
        else:
            self._resolve(request, message, outcome, note[:NOTE_LIMIT])
        return HttpResponseRedirect(
            reverse("admin:mailboxes_message_change", args=(message.pk,))
        )

    def _resolve(
        self, request: HttpRequest, message: Message, outcome: str, note: str
    ) -> None:
        try:
            resolve(
                message.public_id,
                outcome="sent" if outcome == "sent" else "not_sent",
                note=note,
                actor_user_id=str(request.user.pk),
            )
        except NotUncertain as refusal:
            messages.warning(request, f"Nothing was changed: {refusal.detail}.")
        else:
            messages.success(request, f"Recorded: it {_OUTCOMES[outcome]}.")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
