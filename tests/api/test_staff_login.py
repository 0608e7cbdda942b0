"""Logging in: passwords, second factors, how often one may be wrong, and the end."""

import re
import time
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from mailboxes.models import AuditRow
from staff.login import FAILURES_OF_A_CLIENT
from staff.sessions import LOGGED_IN_AT, SECONDS

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
WHERE = "/admin/login/"
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture(autouse=True)
def _cheap_passwords(settings: object) -> None:
    """Hash quickly: what a password costs is not what is tested."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # type: ignore[attr-defined]


@pytest.fixture
def ada() -> User:
    """A superuser without a second factor."""
    return User.objects.create_superuser("ada", password=PASSWORD)


def log_in(client: Client, password: str = PASSWORD, **more: str) -> int:
    fields = {"username": "ada", "password": password, **more}
    return client.post(WHERE, fields).status_code


def is_in(client: Client) -> bool:
    return client.get("/admin/mailboxes/tenant/").status_code == 200


def code_of(user: User, *, ahead: int = 0) -> str:
    device = TOTPDevice.objects.get(user=user)
    totp = TOTP(device.bin_key)
    totp.time = time.time() + 30 * ahead
    return f"{totp.token():06d}"


def enrolled(user: User) -> list[str]:
    """Switch a second factor on as a person does; return the recovery codes."""
    client = Client()
    client.force_login(user, backend=BACKEND)
    client.get(reverse("second-factor"))
    page = client.post(reverse("second-factor"), {"code": code_of(user)})
    found = re.search(r'<code id="secret">([^<]+)<', page.content.decode())
    assert found is not None
    return found[1].split()


def test_an_account_without_a_second_factor_needs_no_code(ada: User) -> None:
    client = Client()

    assert log_in(client) == 302
    assert is_in(client)


def test_with_a_second_factor_the_password_is_not_enough(ada: User) -> None:
    enrolled(ada)
    client = Client()

    assert log_in(client) == 200
    assert not is_in(client)
    assert log_in(client, otp_token=code_of(ada, ahead=1)) == 302
    assert is_in(client)


def test_a_code_counts_once_and_a_wrong_one_never(ada: User) -> None:
    enrolled(ada)
    code = code_of(ada, ahead=1)

    assert log_in(Client(), otp_token=code) == 302
    assert log_in(Client(), otp_token=code) == 200  # a replay
    assert log_in(Client(), otp_token="000000") == 200


def test_wrong_codes_make_the_right_one_wait(ada: User) -> None:
    enrolled(ada)
    with time_machine.travel(time.time() + 60, tick=False):
        for _ in range(3):
            assert log_in(Client(), otp_token="000001") == 200
        assert log_in(Client(), otp_token=code_of(ada)) == 200


def test_a_recovery_code_counts_once(ada: User) -> None:
    codes = enrolled(ada)

    assert len(set(codes)) == 10
    assert log_in(Client(), otp_token=codes[3]) == 302
    assert log_in(Client(), otp_token=codes[3]) == 200
    assert StaticToken.objects.count() == 9


def test_a_first_code_that_is_wrong_leaves_the_account_as_it_was(ada: User) -> None:
    client = Client()
    client.force_login(ada, backend=BACKEND)
    client.get(reverse("second-factor"))

    answer = client.post(reverse("second-factor"), {"code": "000000"})

    assert answer.status_code == 400
    assert not TOTPDevice.objects.filter(confirmed=True).exists()
    assert log_in(Client()) == 302


def test_switching_it_off_takes_a_code_and_both_are_kept(ada: User) -> None:
    enrolled(ada)
    client = Client()
    client.force_login(ada, backend=BACKEND)

    client.post(reverse("second-factor"), {"code": "000000"})
    assert TOTPDevice.objects.filter(confirmed=True).exists()
    with time_machine.travel(time.time() + 120, tick=False):
        client.post(reverse("second-factor"), {"code": code_of(ada)})

    assert not TOTPDevice.objects.exists()
    assert set(AuditRow.objects.values_list("action", "actor_user_id")) == {
        ("staff.second_factor_on", str(ada.pk)),
        ("staff.second_factor_off", str(ada.pk)),
    }


def test_the_page_of_the_second_factor_is_for_those_who_are_in() -> None:
    answer = Client().get(reverse("second-factor"))

    assert answer.status_code == 302
    assert answer["Location"].startswith(WHERE)


def test_the_fifth_wrong_password_locks_the_account_from_there_alone(
    ada: User,
) -> None:
    client = Client()
    answers = [log_in(client, "wrong") for _ in range(5)]

    assert answers == [200, 200, 200, 200, 429]
    assert log_in(client) == 429
    assert log_in(Client(REMOTE_ADDR="10.0.0.9")) == 302
    with time_machine.travel(timezone.now() + timedelta(minutes=16), tick=False):
        assert log_in(client) == 302


def test_a_client_that_tries_many_accounts_is_stopped(ada: User) -> None:
    client = Client()
    for n in range(FAILURES_OF_A_CLIENT):
        client.post(WHERE, {"username": f"name-{n}", "password": "x"})

    page = client.post(WHERE, {"username": "ada", "password": PASSWORD})

    assert page.status_code == 200
    assert "Too many wrong passwords" in page.content.decode()
    assert log_in(Client(REMOTE_ADDR="10.0.0.9")) == 302


def test_a_log_in_ends_after_twelve_hours_however_busy(ada: User) -> None:
    client = Client()
    assert log_in(client) == 302
    session = client.session
    session[LOGGED_IN_AT] = time.time() - SECONDS + 60
    session.save()
    assert is_in(client)

    session[LOGGED_IN_AT] = time.time() - SECONDS - 1
    session.save()

    assert not is_in(client)


def test_pages_of_the_admin_load_nothing_from_elsewhere_and_run_no_inline_script(
    ada: User,
) -> None:
    client = Client()
    client.force_login(ada, backend=BACKEND)

    policy = client.get("/admin/")["Content-Security-Policy"]

    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "default-src 'self'" in policy
    assert "Content-Security-Policy" not in client.get("/v1/me")
