"""``manage.py doctor`` as an operator runs it: one line each, an exit code, an end."""

import json
from pathlib import Path

import pytest

from pylota.doctor.examination import PARTS
from tests.e2e.test_manage import manage
from tests.support.database import database_url
from tests.support.processes import free_port
from tests.support.tcp_proxy import TcpProxy


@pytest.mark.django_db(transaction=True)
def test_a_deployment_that_is_well_ends_with_0_and_is_read_by_programs(
    tmp_path: Path,
) -> None:
    status, output, errors = manage(
        tmp_path, "doctor", "--json", PM_ENV="local", DATABASE_URL=database_url()
    )

    told = json.loads(output)
    assert (status, errors, told["ok"]) == (0, "", True)
    assert [check["name"] for check in told["checks"]] == [p.name for p in PARTS]


def test_one_without_database_and_broker_ends_all_the_same(tmp_path: Path) -> None:
    """Both accept, and never say a word."""
    with TcpProxy(("127.0.0.1", free_port())) as mute:
        mute.freeze()
        status, output, errors = manage(
            tmp_path,
            "doctor",
            PM_ENV="local",
            DATABASE_URL=f"postgres://u:hush@127.0.0.1:{mute.port}/d?connect_timeout=2",
            CELERY_BROKER_URL=f"amqp://u:hush@127.0.0.1:{mute.port}//",
        )

    lines = output.splitlines()
    assert status == 1
    assert errors.strip().endswith(f"2 of {len(PARTS)} checks failed")
    assert len(lines) == len(PARTS)
    failing = [line for line in lines if "FAIL" in line]
    assert [line.split("  ")[0] for line in failing] == ["database", "broker"]
    assert all("Next: " in line for line in failing)
    assert "hush" not in output + errors
