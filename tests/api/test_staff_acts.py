"""Acts of the staff: asked first, done by the services, kept with name and reason."""

import pytest
from django.contrib.auth.models import Group
from django.urls import reverse

from mailboxes.models import AuditRow, Event, Identity
from mailboxes.statuses import IdentityStatus
from staff.roles import DUTIES, ensure_roles
from tests.support.staff import browser

pytestmark = pytest.mark.django_db


def act(identity: Identity, name: str = "pause") -> str:
    return reverse("admin:mailboxes_identity_act", args=(identity.pk, name))


def test_an_act_asks_first_and_does_nothing_by_get(identity: Identity) -> None:
    page = browser("operator").get(act(identity))

    assert page.status_code == 200
    assert "what is queued is canceled" in page.content.decode()
    identity.refresh_from_db()
    assert identity.status == IdentityStatus.ACTIVE


def test_an_act_is_done_by_the_service_and_names_person_and_reason(
    identity: Identity,
) -> None:
    client = browser("operator")

    answer = client.post(act(identity), {"reason": "they asked for it"})

    assert answer.status_code == 302
    identity.refresh_from_db()
    assert identity.status == IdentityStatus.PAUSED
    row = AuditRow.objects.get(action="identity.pause")
    assert row.actor_user_id == client.session["_auth_user_id"]
    assert row.actor_key_id is None
    assert row.details == {"note": "they asked for it"}
    assert row.request_id
    assert Event.objects.filter(type="identity.paused").count() == 1


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_without_a_good_reason_nothing_is_done(identity: Identity, reason: str) -> None:
    answer = browser("operator").post(act(identity), {"reason": reason})

    assert answer.status_code == 400
    assert not AuditRow.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "support"])
def test_a_role_without_the_duty_gets_no_button_and_no_page(
    identity: Identity, role: str
) -> None:
    client = browser(role)
    shown = reverse("admin:mailboxes_identity_change", args=(identity.pk,))

    page = client.get(shown).content.decode()
    asked, forced = (
        client.get(act(identity)),
        client.post(act(identity), {"reason": "because"}),
    )

    assert act(identity) not in page
    assert "Pause it: your role may not" in page
    assert (asked.status_code, forced.status_code) == (403, 403)
    identity.refresh_from_db()
    assert identity.status == IdentityStatus.ACTIVE


def test_an_act_that_the_state_forbids_has_its_reason_in_a_line(
    identity: Identity,
) -> None:
    Identity.objects.filter(pk=identity.pk).update(
        status=IdentityStatus.PAUSED, pause_reason="manual"
    )
    client = browser("operator")
    shown = reverse("admin:mailboxes_identity_change", args=(identity.pk,))

    page = client.get(shown).content.decode()
    answer = client.post(act(identity), {"reason": "again"})

    assert "Pause it: it is not active" in page
    assert answer.status_code == 302
    assert not AuditRow.objects.exists()


@pytest.mark.parametrize(
    "where", ["no-such-identity", "idn_00000000000000000000000000"]
)
def test_an_act_on_what_is_not_there_is_not_found(where: str) -> None:
    path = reverse("admin:mailboxes_identity_act", args=(where, "pause"))

    assert browser("operator").post(path, {"reason": "x"}).status_code == 404


def test_an_unknown_act_is_not_found(identity: Identity) -> None:
    assert browser("admin").get(act(identity, "explode")).status_code == 404


def test_each_role_holds_all_of_the_one_before_it() -> None:
    ensure_roles()
    held: set[str] = set()
    for role, duties in DUTIES.items():
        group = Group.objects.get(name=role)
        now = set(group.permissions.values_list("codename", flat=True))
        assert held < now
        assert {duty.value for duty in duties} <= now
        held = now


def test_a_role_that_somebody_has_changed_is_put_right() -> None:
    ensure_roles()
    viewer = Group.objects.get(name="viewer")
    viewer.permissions.set(Group.objects.get(name="admin").permissions.all())

    ensure_roles()

    held = viewer.permissions.values_list("codename", flat=True)
    assert all(codename.startswith("view_") for codename in held)
    assert "view_receivedbody" not in held
