"""The plan catalogue: what it grants, and every mistake that it may not have."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from quota.catalogue import BUILT_IN, parse_catalogue
from quota.plans import INVALID, catalogue, catalogue_digest
from quota.statuses import Feature


def shown(**changes: Any) -> dict[str, Any]:
    return {**BUILT_IN.model_dump(mode="json"), **changes}


def plan(**changes: Any) -> dict[str, Any]:
    first: dict[str, Any] = shown()["plans"][0]
    return {**first, **changes}


def test_the_built_in_catalogue_is_one_that_could_be_configured() -> None:
    assert parse_catalogue(json.dumps(shown())) == parse_catalogue("") == BUILT_IN


@pytest.mark.parametrize(
    ("plan_id", "price", "granted", "topups"),
    [
        ("free", 0, [1_000, 5, 0, 1], False),
        ("developer", 1000, [10_000, 10, 5, 10], True),
        ("team", 4950, [100_000, 100, 50, 100], True),
    ],
)
def test_each_built_in_plan_grants_its_share(
    plan_id: str, price: int, granted: list[int], topups: bool
) -> None:
    found = BUILT_IN.plan(plan_id)

    assert found is not None
    assert (found.price, found.topups) == (price, topups)
    assert BUILT_IN.granted(plan_id, {}) == dict(zip(Feature, granted, strict=True))


@pytest.mark.parametrize(
    ("plan_id", "sends", "inboxes"), [("free", 1_000, 5), ("team", 103_000, 102)]
)
def test_top_ups_count_where_the_plan_takes_them(
    plan_id: str, sends: int, inboxes: int
) -> None:
    granted = BUILT_IN.granted(plan_id, {"sends": 3, "inboxes": 2})

    assert granted is not None
    assert (granted[Feature.SENDS], granted[Feature.INBOXES]) == (sends, inboxes)


def test_unlimited_stays_unlimited_with_top_ups() -> None:
    features = {**plan()["features"], "sends": None}
    found = parse_catalogue(
        json.dumps(shown(plans=[plan(features=features, topups=True)]))
    )

    granted = found.granted("free", {"sends": 3})
    assert granted is not None
    assert granted[Feature.SENDS] is None


def test_a_plan_that_is_gone_grants_nothing_anew() -> None:
    assert BUILT_IN.granted("gone", {}) is None


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda: "{", "the catalogue"),
        (list, "the catalogue"),
        (lambda: shown(version=2), "version"),
        (lambda: shown(version="1"), "version"),
        (lambda: shown(currency="GBP"), "currency"),
        (lambda: shown(interval="year"), "interval"),
        (lambda: shown(note="x"), "note"),
        (lambda: shown(plans=[]), "plans"),
        (lambda: shown(plans=[plan(), plan()]), "two plans have the same plan_id"),
        (lambda: shown(plans=[plan(plan_id="Free")]), "plans.0.plan_id"),
        (lambda: shown(plans=[plan(plan_id="f" * 33)]), "plans.0.plan_id"),
        (lambda: shown(plans=[plan(price=-1)]), "plans.0.price"),
        (lambda: shown(plans=[plan(price=0.5)]), "plans.0.price"),
        (lambda: shown(plans=[plan(price=1)]), "default_plan names no plan"),
        (lambda: shown(default_plan="gone"), "default_plan names no plan"),
        (lambda: shown(default_plan="team"), "default_plan names no plan"),
        (lambda: shown(plans=[plan(features={"sends": 1})]), "plans.0.features"),
        (
            lambda: shown(plans=[plan(features={**plan()["features"], "sends": -1})]),
            "plans.0.features.sends",
        ),
        (
            lambda: shown(plans=[plan(features={**plan()["features"], "seats": 1})]),
            "plans.0.features.seats",
        ),
        (lambda: shown(topups={}), "topups.sends"),
    ],
)
def test_a_mistake_is_refused_where_it_is(
    change: Callable[[], Any], where: str
) -> None:
    given = change()

    with pytest.raises(ValueError, match=where.replace(".", r"\.")):
        parse_catalogue(given if isinstance(given, str) else json.dumps(given))


def test_a_catalogue_of_no_use_is_logged_once_and_the_built_in_one_counts(
    settings: Any,
) -> None:
    settings.PM_PLAN_CATALOG = json.dumps(shown(currency="GBP", default_plan="once"))

    with capture_logs() as lines:
        found = [catalogue() for _ in range(3)]

    assert found == [BUILT_IN] * 3
    assert [line["event"] for line in lines] == [INVALID]


def test_the_digest_is_of_what_is_said_and_not_of_how(settings: Any) -> None:
    written = [json.dumps(shown()), json.dumps(shown(), indent=2), ""]
    digests = set()
    for settings.PM_PLAN_CATALOG in written:
        digests.add(catalogue_digest())
    assert digests == {BUILT_IN.digest()}

    settings.PM_PLAN_CATALOG = json.dumps(shown(currency="eur"))
    assert catalogue_digest() != BUILT_IN.digest()
