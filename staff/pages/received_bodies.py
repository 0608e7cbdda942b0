"""What providers posted: to look at, by whoever has that permission."""

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from core.sealing import SealBroken
from delivery.models import ReceivedBody
from delivery.received import opened


@admin.register(ReceivedBody)
class ReceivedBodyAdmin(ReadOnlyAdmin):
    """A body as it came. It holds addresses and headers of a mail."""

    list_display = ("posted_id", "source", "received_at")
    list_filter = ("source",)
    ordering = ("-received_at", "-id")
    exact_search = ("posted_id",)
    fields = ("source", "posted_id", "received_at", "body")
    readonly_fields = ("body",)

    @admin.display(description="Body")
    def body(self, row: ReceivedBody) -> str:
        """Return the text of the body."""
        try:
            plain = opened(row.source, row.posted_id, row.sealed)
        except SealBroken:
            return "It does not open: was it sealed with another PM_MASTER_KEY?"
        return plain.decode("utf-8", "replace")
