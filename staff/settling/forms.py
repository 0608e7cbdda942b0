"""What a list of sends in doubt may be narrowed to, and the answer that is given."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django import forms

from core.acts import ActForm
from staff.settling.asked import Asked, Hint
from staff.settling.doubts import REACHED, Choice

_INPUT: Final = {"class": "pm-input"}
Choices = Mapping[str, Sequence[Choice]]


def _select() -> forms.Select:
    return forms.Select(attrs=_INPUT)


def _instant(label: str) -> forms.CharField:
    box = forms.TextInput(attrs={"type": "datetime-local", "step": "1", **_INPUT})
    return forms.CharField(label=label, required=False, widget=box)


class Narrowing(forms.Form):
    """The filters of the list. A value that nothing has leaves an empty list."""

    q = forms.CharField(
        label="Find",
        required=False,
        max_length=512,
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "Whole id, address or Idempotency-Key",
                "class": "pm-input",
            }
        ),
    )
    tenant = forms.CharField(label="Tenant", required=False, widget=_select())
    domain = forms.CharField(label="Domain", required=False, widget=_select())
    transport = forms.CharField(label="Transport", required=False, widget=_select())
    phase = forms.CharField(label="Phase reached", required=False, widget=_select())
    evidence = forms.ChoiceField(
        label="Evidence",
        required=False,
        choices=[("", "Any"), *Hint.choices],
        widget=_select(),
    )
    since = _instant("In doubt from (UTC)")
    until = _instant("In doubt until (UTC)")

    def __init__(self, data: Mapping[str, Any], choices: Choices) -> None:
        """Offer what there is, with its numbers, and what is asked for already."""
        super().__init__(data)
        for name in ("tenant", "domain", "transport", "phase"):
            offered = [
                (one.value, f"{REACHED.get(one.value, one.value)} ({one.number})")
                for one in choices.get(name, ())
            ]
            asked = str(data.get(name, "")).strip()
            if asked and asked not in {value for value, _ in offered}:
                offered.append((asked, f"{asked} (0)"))
            widget = self.fields[name].widget
            assert isinstance(widget, forms.Select)  # noqa: S101  made above
            widget.choices = [("", "Any"), *offered]

    def clean_q(self) -> str:
        """Return what was pasted without what no text may hold."""
        return str(self.cleaned_data["q"]).replace("\x00", "").strip()

    def clean_since(self) -> datetime | None:
        """Return the instant; a form without a zone is UTC."""
        return _read(self.cleaned_data["since"])

    def clean_until(self) -> datetime | None:
        """Return the instant, and refuse one that is not after ``since``."""
        until, since = _read(self.cleaned_data["until"]), self.cleaned_data.get("since")
        if until is not None and since is not None and until <= since:
            raise forms.ValidationError("It must be later than the other.")
        return until

    def asked(self) -> Asked | None:
        """Return what is asked for; None if that cannot be told."""
        if not self.is_valid():
            return None
        return Asked(**{**self.cleaned_data, "since": self.cleaned_data.get("since")})


def _read(text: str) -> datetime | None:
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise forms.ValidationError("Give a date and a time, in UTC.") from None


class AnswerForm(ActForm):
    """Were they sent, or not, and how one knows."""

    field_order = ("outcome", "reason")
    outcome = forms.ChoiceField(
        choices=[("sent", "They were sent"), ("not_sent", "They were not sent")],
        error_messages={"required": "Choose an answer."},
        widget=forms.RadioSelect,
    )
