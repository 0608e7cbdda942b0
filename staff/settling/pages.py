"""The pages of sends in doubt: the list, a settlement's preview, its progress, its end.

Only a POST changes anything, and needs the duty to resolve; whoever may look at
messages may look at these.
"""

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from core.clock import database_now
from mailboxes.models import Message
from staff.models import Settlement
from staff.settling import services
from staff.settling.doubts import Asked, Doubt, bounded, choices, doubts
from staff.settling.forms import AnswerForm, Narrowing
from staff.settling.preview import preview_of
from staff.statuses import Duty, SettlementState

PAGE: Final = 50
LOOK: Final = "mailboxes.view_message"
SHOWN: Final = 50
"""Sends of each kind that the end of a settlement names."""


def may_resolve(request: HttpRequest) -> bool:
    """Tell whether this person may settle uncertain sends."""
    return request.user.has_perm(Duty.RESOLVE.permission)


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
        page = _page_number(request)
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
            "pages": _pages(request, page, total),
            "most": services.MOST,
        }
        return self._render(request, "staff/settling/queue.html", context)

    def _prepared(self, request: HttpRequest) -> HttpResponse:
        if not may_resolve(request):
            raise PermissionDenied
        asked = Narrowing(request.POST, {}).asked()
        seen_at = _instant(request.POST.get("seen_at", ""))
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
            return HttpResponseRedirect(_queue(asked))
        return HttpResponseRedirect(_place(made.id))

    def past_view(self, request: HttpRequest) -> HttpResponse:
        """List the settlements that were started, the latest first."""
        if not request.user.has_perm(LOOK):
            raise PermissionDenied
        page = _page_number(request)
        rows = Settlement.objects.exclude(state=SettlementState.PREVIEW)
        first = PAGE * (page - 1)
        context = {
            "title": "Past settlements",
            "settlements": rows.select_related("user").order_by("-created_at", "-id")[
                first : first + PAGE
            ],
            "pages": _pages(request, page, rows.count()),
            "queue": _queue(None),
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
            "queue": _queue(None),
            "chosen": form["outcome"].value(),
            **_progress(request, settlement),
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
            return HttpResponseRedirect(_place(settlement.id))
        if not form.is_valid():
            return self._shown(request, settlement, form)
        services.start(
            settlement.id,
            user_id=_user_id(request),
            outcome=form.cleaned_data["outcome"],
            reason=form.cleaned_data["reason"],
            now=database_now(),
        )
        return HttpResponseRedirect(_place(settlement.id))

    @method_decorator(require_POST)
    def go_on_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Settle the next few; answer with how far it is, or send back to the page."""
        if not may_resolve(request):
            raise PermissionDenied
        settlement = _settlement(object_id)
        services.go_on(settlement.id)
        if request.headers.get("HX-Request") != "true":
            return HttpResponseRedirect(_place(settlement.id))
        settlement.refresh_from_db()
        context = {**_progress(request, settlement), "is_fragment": True}
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


def _progress(request: HttpRequest, settlement: Settlement) -> dict[str, Any]:
    """Return how far it is; once it is done, the sends to look at too."""
    looked_at = settlement.settled + len(settlement.overtaken + settlement.changed)
    is_done = settlement.state == SettlementState.DONE
    return {
        "settlement": settlement,
        "total": len(settlement.keys),
        "looked_at": looked_at,
        "left": len(settlement.keys) - looked_at,
        "is_done": is_done,
        "is_running": settlement.state == SettlementState.RUNNING,
        "may_resolve": may_resolve(request),
        "overtaken": _named(settlement.overtaken) if is_done else (),
        "changed": _named(settlement.changed) if is_done else (),
        "settled": _named(_settled(settlement)) if is_done else (),
        "shown": SHOWN,
    }


def _found(asked: Asked | None, page: int, *, now: datetime) -> tuple[list[Doubt], int]:
    if asked is None:
        return [], 0
    return doubts(asked, limit=PAGE, offset=PAGE * (page - 1), now=now)


def _settled(settlement: Settlement) -> list[int]:
    others = {*settlement.overtaken, *settlement.changed}
    return [key for key in settlement.keys if key not in others]


def _named(keys: list[int]) -> list[Message]:
    rows = Message.objects.filter(key__in=keys[:SHOWN]).order_by("key")
    return list(rows.only("key", "public_id", "status"))


def _settlement(object_id: str) -> Settlement:
    found = Settlement.objects.select_related("user").filter(id=object_id).first()
    if found is None:
        raise Http404
    return found


def _user_id(request: HttpRequest) -> int:
    return int(str(request.user.pk))


def _place(settlement_id: str) -> str:
    return reverse("admin:staff_settlement_change", args=(settlement_id,))


def _queue(asked: Asked | None) -> str:
    query = urlencode(asked.kept()) if asked is not None else ""
    return reverse("admin:staff_settlement_changelist") + (f"?{query}" if query else "")


def _instant(text: str) -> datetime:
    """Return the instant at which the list was made; never one to come."""
    now = database_now()
    try:
        seen_at = datetime.fromisoformat(text)
    except ValueError:
        return now
    return min(seen_at, now) if seen_at.tzinfo else now


def _page_number(request: HttpRequest) -> int:
    asked = request.GET.get("page", "1")
    return int(asked) if asked.isdecimal() and 0 < len(asked) < 6 else 1


def _pages(request: HttpRequest, page: int, total: int) -> dict[str, Any]:
    def place(number: int) -> str:
        query = request.GET.copy()
        query["page"] = str(number)
        return f"?{query.urlencode()}"

    last = max(1, -(-total // PAGE))
    return {
        "number": page,
        "last": last,
        "before": place(page - 1) if page > 1 else "",
        "after": place(page + 1) if page < last else "",
        "from": PAGE * (page - 1) + 1,
        "to": min(PAGE * page, total),
    }
