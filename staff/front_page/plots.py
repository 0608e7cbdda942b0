"""What the front page's plots show, drawn: the facts come from ``traffic``."""

from collections.abc import Callable, Sequence

from django.utils.safestring import SafeString, mark_safe

from core.plots import Ranked, Series, bars, ranked, stacked
from staff.front_page.traffic import DomainSends, Hour, NearCap, Wait

FULL_BAR: float = 0.1
"""The rate of bounces and complaints that fills a bar: one in ten."""


def sends_plot(hours: Sequence[Hour]) -> SafeString:
    """Return the sends of each hour, those that went wrong below the others."""
    series = (
        _series("failed", hours, lambda hour: hour.did_not),
        _series("in doubt", hours, lambda hour: hour.in_doubt),
        _series("went out", hours, lambda hour: hour.went_out),
    )
    name = "Sends per hour by outcome, the last 48 hours"
    return _safe(stacked(name, [_label(hour) for hour in hours], series))


def waits_plot(waits: Sequence[Wait]) -> SafeString:
    """Return how long sends waited for a transport, hour by hour."""
    series = (
        Series("p95 (ms)", [wait.p95 for wait in waits]),
        Series("p50 (ms)", [wait.p50 for wait in waits]),
    )
    name = "Accept to transport in milliseconds, the last 48 hours"
    return _safe(bars(name, [_label(wait) for wait in waits], series))


def caps_plot(caps: Sequence[NearCap]) -> SafeString:
    """Return how much of its cap each of these tenants has used today."""
    rows = [
        Ranked(f"{one.slug}: {one.used:,} of {one.cap:,}", one.percent / 100)
        for one in caps
    ]
    return _safe(ranked("Tenants nearest to their daily cap", rows))


def bounces_plot(domains: Sequence[DomainSends]) -> SafeString:
    """Return the rates of bounces and complaints by domain; one in ten fills a bar."""
    rows = [
        Ranked(
            f"{_cut(one.name)}: {one.bounced:,} bounced, {one.complained:,} complained",
            one.complained / one.sends / FULL_BAR,
            one.bounced / one.sends / FULL_BAR,
        )
        for one in domains
    ]
    return _safe(ranked("Bounces and complaints by domain, the last 7 days", rows))


def _series(name: str, hours: Sequence[Hour], of: Callable[[Hour], int]) -> Series:
    return Series(name, [of(hour) for hour in hours])


def _label(one: Hour | Wait) -> str:
    return one.at.strftime("%a %H:00")


def _cut(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:31]}…"


def _safe(svg: str) -> SafeString:
    return mark_safe(svg)  # noqa: S308  core.plots escapes each text
