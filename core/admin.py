"""What every page of the admin shares: the system's records are shown, never saved."""

from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

COUNTED_AT_MOST: Final = 10_001


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # not generic at run time
    """Counts at most 10,001 rows: a list of millions costs what a small one does."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, or 10,001 for more than 10,000."""
        rows = self.object_list
        if isinstance(rows, QuerySet):
            return rows.order_by()[:COUNTED_AT_MOST].count()
        return len(rows)


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """A list and a page per record, and no way to add, change or delete one.

    ``exact_search`` names the columns that a pasted value is compared with.
    """

    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_filter_submit = False
    actions = None
    exact_search: tuple[str, ...] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody: the API and the services make records."""
        return False

    def has_change_permission(
        self, request: HttpRequest, obj: Model | None = None
    ) -> bool:
        """Nobody: see ``has_view_permission`` for who may look."""
        return False

    def has_delete_permission(
        self, request: HttpRequest, obj: Model | None = None
    ) -> bool:
        """Nobody."""
        return False

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the exact columns, so that the search box is shown."""
        return self.exact_search

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find a pasted value exactly; a part of one finds nothing."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = queryset.none()
        for column in self.exact_search:
            found = found | queryset.filter(**{column: term})
        return found, False
