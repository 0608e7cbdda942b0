"""What a person may do to a record in the admin: asked first, then done by a service.

A record's page shows a button for each act that its state allows, and the reason in a
line for each that it does not. The button leads to a page that says what will happen
and asks why; only its answer, a POST, does anything. The service that the API calls
does it, and its audit rows name the person and the reason (core/acting.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from unfold.widgets import UnfoldAdminTextareaWidget

from core.acting import acting
from core.admin import ReadOnlyAdmin
from core.errors import PylotaError

REASON_LIMIT: Final = 500


class ActForm(forms.Form):
    """Why it is done; an act that needs more has a form of its own below this one."""

    reason = forms.CharField(
        label="Why?",
        help_text="One sentence. It is kept in the audit log, with your account.",
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
    )

    def clean_reason(self) -> str:
        """Return the reason without what no text may hold."""
        return str(self.cleaned_data["reason"]).replace("\x00", "").strip()


def always(_: Any) -> str:
    """Return that nothing stands against an act."""
    return ""


def nothing_more(_: Any) -> Sequence[tuple[str, object]]:
    """Return no further facts."""
    return ()


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that may be done to a record.

    ``run`` gets the record and the cleaned form, and returns what is said afterwards.
    ``refused`` returns why it cannot be done now, or nothing; ``facts`` what the page
    shows before one confirms: pairs of a label and a value. ``shown`` names a template
    for an answer that is shown at once instead, a secret for one; ``run`` then returns
    its context. ``is_grave`` makes the button red.
    """

    name: str
    label: str
    permission: str
    what: str
    run: Callable[[Any, Mapping[str, Any]], Any]
    refused: Callable[[Any], str] = always
    facts: Callable[[Any], Iterable[tuple[str, object]]] = nothing_more
    form: type[ActForm] = ActForm
    shown: str = ""
    is_grave: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """An act as a record's page shows it: with its address, or why it is closed."""

    act: Act
    url: str
    closed: str


class ActingAdmin(ReadOnlyAdmin):
    """Records that are shown, never saved, with acts beside them."""

    acts: ClassVar[Sequence[Act]] = ()
    change_form_template = "staff/record.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the page of each act."""
        meta = self.model._meta
        own = path(
            "<path:object_id>/act/<slug:name>/",
            self.admin_site.admin_view(self.act_view),
            name=f"{meta.app_label}_{meta.model_name}_act",
        )
        urls: list[URLPattern] = super().get_urls()
        return [own, *urls]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one record with what may be done to it."""
        record = self.get_object(request, object_id)
        known = dict(extra_context or {})
        if record is not None:
            known |= {"offers": self.offers(request, record)}
            known |= self.known(request, record)
        page: HttpResponse = super().change_view(request, object_id, form_url, known)
        return page

    def known(self, request: HttpRequest, record: Any) -> dict[str, Any]:
        """Return what the template of this kind of record shows beside its fields."""
        return {}

    def offers(self, request: HttpRequest, record: Model) -> list[Offer]:
        """Return each act with its address, or with why it is not open now."""
        return [
            Offer(act, self._url(record, act), self._closed(request, record, act))
            for act in self.acts
        ]

    def _url(self, record: Model, act: Act) -> str:
        meta = self.model._meta
        name = f"admin:{meta.app_label}_{meta.model_name}_act"
        return reverse(name, args=(record.pk, act.name))

    def _closed(self, request: HttpRequest, record: Model, act: Act) -> str:
        if not request.user.has_perm(act.permission):
            return "your role may not"
        return act.refused(record)

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Say what will happen and ask why; do it when that is answered."""
        act = next((act for act in self.acts if act.name == name), None)
        record = self.get_object(request, object_id)
        if act is None or record is None:
            raise Http404
        if not self.has_view_permission(request, record):
            raise PermissionDenied
        if not request.user.has_perm(act.permission):
            raise PermissionDenied
        if closed := act.refused(record):
            messages.warning(request, f"{act.label}: not possible, {closed}.")
            return self._back(record)
        form = act.form(request.POST or None)
        if request.method == "POST" and form.is_valid():
            return self._done(request, record, act, form)
        return render(
            request,
            "staff/act.html",
            {
                **self.admin_site.each_context(request),
                "title": act.label,
                "opts": self.model._meta,
                "record": record,
                "act": act,
                "facts": list(act.facts(record)),
                "form": form,
                "back": self._back(record).url,
            },
            status=400 if form.errors else 200,
        )

    def _done(
        self, request: HttpRequest, record: Model, act: Act, form: ActForm
    ) -> HttpResponse:
        reason = form.cleaned_data["reason"]
        try:
            with acting(str(request.user.pk), reason=reason):
                said = act.run(record, form.cleaned_data)
        except PylotaError as refusal:
            messages.error(request, f"Nothing was changed: {refusal.detail}")
            return self._back(record)
        if act.shown:
            context = self.admin_site.each_context(request)
            more = {"title": act.label, "back": self._back(record).url, **said}
            answer = render(request, act.shown, {**context, **more})
            answer["Cache-Control"] = "no-store"
            return answer
        messages.success(request, str(said))
        return self._back(record)

    def _back(self, record: Model) -> HttpResponseRedirect:
        meta = self.model._meta
        name = f"admin:{meta.app_label}_{meta.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=(record.pk,)))
