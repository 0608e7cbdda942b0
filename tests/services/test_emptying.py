"""After a test that commits, the next one finds nothing."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.test import TransactionTestCase

from mailboxes.models import Message
from tests.factories import QueuedMessageFactory
from tests.support import emptying

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("small", [emptying.SMALL, 0], ids=["deleted", "truncated"])
def test_no_row_is_left_but_those_that_django_keeps(
    monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(emptying, "SMALL", small)
    User.objects.create_superuser("ada")
    QueuedMessageFactory.create_batch(2)
    kept = Permission.objects.count()

    emptying.empty_tables(TransactionTestCase())

    filled = {
        type_.__name__ for type_ in apps.get_models() if type_._default_manager.exists()
    }
    assert filled == {"Permission", "ContentType"}
    assert Permission.objects.count() == kept > 0
    assert not Message.objects.exists()
