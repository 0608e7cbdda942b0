"""The pages of sends in doubt: the list, a settlement's preview, its progress, its end.

Only a POST changes anything, and needs the duty to resolve; whoever may look at
messages may look at these.
"""

from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from core.clock import database_now
from staff.models import Settlement
from staff.settling import services
from staff.settling.asked import Asked, bounded
from staff.settling.doubts import Doubt, choices, doubts
from staff.settling.forms import AnswerForm, Narrowing
from staff.settling.places import (
    PAGE,
    page_number,
    pages_of,
    queue_url,
    seen_at_of,
    settlement_url,
)
from staff.settling.preview import preview_of
from staff.settling.progress import may_resolve, progress
from staff.statuses import SettlementState

LOOK: Final = "mailboxes.view_message"


class SettlementPages:
    """Views of the settlements' admin, each behind its own permission check."""

    admin_site: Any

    def queue_view(self, request: HttpRequest) -> HttpResponse:
        """List what is in doubt; a POST makes a settlement of some of it."""
        if not request.user.has_perm(LOOK):
            raise PermissionDenied
        if request.method == "POST":
            return self._prepared(request)
        offered = choices()
        form = Narrowing(request.GET, offered)
        asked = form.asked()
        page = page_number(request)
        seen_at = database_now()
        found, total = _found(asked, page, now=seen_at)
        context = {
            "title": "Uncertain sends",
            "form": form,
            "narrowed": bool(asked and asked.kept()),
            "kept": asked.kept() if asked else {},
            "found": found,
            "total": total,
            "in_all": sum(one.number for one in offered.get("tenant", ())),
            "seen_at": seen_at.isoformat(),
            "may_resolve": may_resolve(request),
            "pages": pages_of(request, page, total),
            "most": services.MOST,
        }
        return self._render(request, "staff/settling/queue.html", context)

    def _prepared(self, request: HttpRequest) -> HttpResponse:
        if not may_resolve(request):
            raise PermissionDenied
        asked = Narrowing(request.POST, {}).asked()
        seen_at = seen_at_of(request.POST.get("seen_at", ""))
        if request.POST.get("which") == "all" and asked is not None:
            made, has_more = services.prepare(
                bounded(asked, seen_at=seen_at),
                user_id=_user_id(request),
                until=seen_at,
            )
            if has_more:
                messages.warning(
                    request,
                    f"These are the {services.MOST:,} oldest. Settle the others after.",
                )
        else:
            made = services.prepare_ticked(
                request.POST.getlist("message"),
                user_id=_user_id(request),
                until=seen_at,
            )
        if not made.keys:
            made.delete()
            messages.error(request, "Tick the sends that the answer is for first.")
            return HttpResponseRedirect(queue_url(asked))
        return HttpResponseRedirect(settlement_url(made.id))

    def past_view(self, request: HttpRequest) -> HttpResponse:
        """List the settlements that were started, the latest first."""
        if not request.user.has_perm(LOOK):
            raise PermissionDenied
        page = page_number(request)
        rows = Settlement.objects.exclude(state=SettlementState.PREVIEW)
        first = PAGE * (page - 1)
        context = {
            "title": "Past settlements",
            "settlements": rows.select_related("user").order_by("-created_at", "-id")[
                first : first + PAGE
            ],
            "pages": pages_of(request, page, rows.count()),
            "queue": queue_url(None),
        }
        return self._render(request, "staff/settling/past.html", context)

    def settlement_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a settlement: what it would do, how far it is, or what it did."""
        if not request.user.has_perm(LOOK):
            raise PermissionDenied
        return self._shown(request, _settlement(object_id), AnswerForm())

    def _shown(
        self, request: HttpRequest, settlement: Settlement, form: AnswerForm
    ) -> HttpResponse:
        preview = None
        if settlement.state == SettlementState.PREVIEW:
            preview = preview_of(settlement)
        context = {
            "title": "Settle uncertain sends",
            "preview": preview,
            "form": form,
            "queue": queue_url(None),
            "chosen": form["outcome"].value(),
            **progress(request, settlement),
        }
        return self._render(
            request, "staff/settling/settlement.html", context, form=form
        )

    @method_decorator(require_POST)
    def start_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take the answer and the reason."""
        if not may_resolve(request):
            raise PermissionDenied
        settlement = _settlement(object_id)
        form = AnswerForm(request.POST)
        if settlement.state != SettlementState.PREVIEW:
            messages.warning(request, "It was started already: this is how far it is.")
            return HttpResponseRedirect(settlement_url(settlement.id))
        if not form.is_valid():
            return self._shown(request, settlement, form)
        services.start(
            settlement.id,
            user_id=_user_id(request),
            outcome=form.cleaned_data["outcome"],
            reason=form.cleaned_data["reason"],
            now=database_now(),
        )
        return HttpResponseRedirect(settlement_url(settlement.id))

    @method_decorator(require_POST)
    def go_on_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Settle the next few; answer with how far it is, or send back to the page."""
        if not may_resolve(request):
            raise PermissionDenied
        settlement = _settlement(object_id)
        services.go_on(settlement.id)
        if request.headers.get("HX-Request") != "true":
            return HttpResponseRedirect(settlement_url(settlement.id))
        settlement.refresh_from_db()
        context = {**progress(request, settlement), "is_fragment": True}
        return render(request, "staff/settling/progress.html", context)

    def _render(
        self,
        request: HttpRequest,
        template: str,
        context: dict[str, Any],
        form: AnswerForm | None = None,
    ) -> HttpResponse:
        is_bad = form is not None and bool(form.errors)
        shared = self.admin_site.each_context(request)
        status = 400 if is_bad else 200
        return render(request, template, {**shared, **context}, status=status)


def _found(asked: Asked | None, page: int, *, now: datetime) -> tuple[list[Doubt], int]:
    if asked is None:
        return [], 0
    return doubts(asked, limit=PAGE, offset=PAGE * (page - 1), now=now)


def _settlement(object_id: str) -> Settlement:
    found = Settlement.objects.select_related("user").filter(id=object_id).first()
    if found is None:
        raise Http404
    return found


def _user_id(request: HttpRequest) -> int:
    return int(str(request.user.pk))
