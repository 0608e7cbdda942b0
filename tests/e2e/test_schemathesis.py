"""Schemathesis: what the description promises is what a running server does.

All its checks, in all its phases, with real ids in the paths: each call reaches the
logic behind it, and what it may destroy is a row of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import database_now
from delivery.api.schemas import SnsPosted
from mailboxes.key_services import create_key
from mailboxes.keyring_services import current_key
from mailboxes.models import Identity
from mailboxes.statuses import AddressStatus, KeyPurpose
from outbound.links import LinkTarget, mint_link
from pylota.api.path_parts import PATH_PARTS
from tests.factories import AddressFactory
from tests.support.lived_in import alias, hooked, lived_in
from tests.support.processes import ROOT, Processes, Running
from tests.support.sns import (
    FILE,
    TOPIC,
    Publisher,
    certificate_pem,
    delivery,
    rsa_key,
    ses_event,
)

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = int(os.environ.get("PM_TEST_EXAMPLES", "6"))
SEED = os.environ.get("PM_TEST_SEED", "1")
SECONDS = 900
CHECKS = """
[generation]
allow-x00 = false  # tests/e2e/test_hostile_requests.py sends those

[checks.positive_data_acceptance]
# which refusals a well-formed request may get is a check of its own
expected-statuses = [
  "2xx", "400", "401", "402", "403", "404", "409", "410", "413", "422", "429",
]
"""

PHASES = {
    "platform": "examples,coverage,fuzzing,stateful",
    "tenant": "examples,fuzzing,stateful",  # coverage is of forms, not of levels
}
ANSWERS = ("replyToMessage", "replyAllToMessage", "forwardMessage")
USAGE = ("getUsage", "listDailyUsage")
KEYS_TO_MAKE = """
[dictionaries.owner]
values = ["{identity}"]

[dictionaries.scope]
values = ["messages:read"]

[dictionaries.later]
values = ["2099-01-01T00:00:00Z"]

[[operations]]
include-operation-id = "createKey"
[operations.parameters]
"body.identity_id" = {{ dictionary = "owner" }}
"body.permissions[*]" = {{ dictionary = "scope" }}
"body.expires_at" = {{ dictionary = "later" }}
"""
ENDPOINTS_TO_MAKE = """
[dictionaries.nearby]
values = ["https://127.0.0.1/hook"]

[[operations]]
include-operation-id = ["createWebhook", "createPlatformWebhook"]
[operations.parameters]
"body.url" = { dictionary = "nearby" }
"body.identity_ids[*]" = { dictionary = "owner" }
"""
HOOKS = {"platform": "schemathesis_reach", "tenant": "schemathesis_checks"}
Parts = Mapping[str, str]


@pytest.fixture(scope="module")
def web(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A web process that also takes what the tests' own SNS signs."""
    certificates = tmp_path_factory.mktemp("certificates")
    (certificates / FILE).write_bytes(certificate_pem(rsa_key()))
    group = Processes(tmp_path_factory.mktemp("web"))
    yield group.web(PM_SES_SNS_TOPIC_ARN=TOPIC, PM_SNS_CERT_DIR=certificates)
    group.end_all()


def configuration(everywhere: Parts, of_its_own: Mapping[str, Parts]) -> str:
    """Return the file that feeds paths: what destroys has rows of its own."""
    lines = [CHECKS, "[parameters]", *fed(everywhere)]
    for operation, parts in of_its_own.items():
        lines += [
            f'[[operations]]\ninclude-operation-id = "{operation}"',
            "[operations.parameters]",
            *fed(parts),
        ]
    lines.append(KEYS_TO_MAKE.format(identity=everywhere["path.identity_id"]))
    lines.append(ENDPOINTS_TO_MAKE)
    return "\n".join(lines)


def fed(parts: Parts) -> list[str]:
    return [f"{json.dumps(name)} = {json.dumps(row)}" for name, row in parts.items()]


def world(identity: Identity, *, other: Identity) -> str:
    """Return the configuration for a mailbox, and a tenant that may be stopped."""
    rows = lived_in(identity)
    spare = AddressFactory.create(identity__tenant=identity.tenant).identity
    doomed = AddressFactory.create(identity__tenant=identity.tenant).identity_id
    hooks = [hooked(identity.tenant_id).id for _ in range(2)]
    keys = [create_key(name=f"k{n}", identity=spare).key.id for n in range(2)]
    aliases = [alias(spare).id for _ in range(2)]
    pending = alias(spare, status=AddressStatus.PENDING).id
    return configuration(
        {f"path.{name}": rows[name] for name in PATH_PARTS if name in rows}
        | {"path.token": link_of(identity, rows)},
        {
            "deleteIdentity": {"path.identity_id": doomed},
            "updateIdentity": {"path.identity_id": spare.id},
            "addAddress": {"path.identity_id": spare.id},
            "promoteAddress": of(spare, aliases[0]),
            "retireAddress": of(spare, aliases[1]),
            "deleteAddress": of(spare, pending),
            "revokeKey": {"path.key_id": keys[0]},
            "rotateKey": {"path.key_id": keys[1]},
            "deleteWebhook": {"path.webhook_id": hooks[0]},
            "updateWebhook": {"path.webhook_id": hooks[1]},
            "changeTenant": {"path.tenant_id": other.tenant_id},
            "changePolicy": {"path.tenant_id": other.tenant_id},
            "resolveMessage": {
                "path.identity_id": identity.id,
                "path.message_id": rows["doubtful_message_id"],
            },
            "cancelMessage": {
                "path.identity_id": identity.id,
                "path.message_id": rows["queued_message_id"],
            },
            **{usage: {"query.tenant_id": identity.tenant_id} for usage in USAGE},
            # no worker runs: a second answer would wait for the first one's thread
            **{answer: {"query.dry_run": "true"} for answer in ANSWERS},
            "rotateSigningKey": {"path.purpose": "thread"},
            "takeSesEvent": signed_by_sns(),
            "lookUpIdentity": {"query.address": rows["known_address"]},
        },
    )


def of(identity: Identity, address_id: str) -> dict[str, str]:
    return {"path.identity_id": identity.id, "path.address_id": address_id}


def signed_by_sns() -> dict[str, str]:
    """Return the fields of a message that SNS has signed for the web's topic."""
    told = Publisher().notification(ses_event("Delivery", **delivery("jo@example.net")))
    named = SnsPosted.model_fields.keys() & told.keys()
    return {f"body.{name}": told[name] for name in sorted(named)}


def link_of(identity: Identity, rows: Mapping[str, str]) -> str:
    """Return the token of a signed link to the file of the message."""
    target = LinkTarget(
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        message_id=rows["message_id"],
        attachment_id=rows["attachment_id"],
        expires_at=database_now() + timedelta(days=1),
    )
    signing = current_key(KeyPurpose.LINK)
    return mint_link(target, kid=signing.kid, key=signing.secret)


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("level", sorted(PHASES))
def test_every_check_of_schemathesis_holds(
    web: Running, tmp_path: Path, level: str
) -> None:
    identity = AddressFactory.create().identity
    other = AddressFactory.create().identity if level == "platform" else identity
    owner = None if level == "platform" else identity.tenant
    secret = create_key(name="caller", tenant=owner).secret
    (tmp_path / "schemathesis.toml").write_text(
        f'hooks = "tests.support.{HOOKS[level]}"\n' + world(identity, other=other)
    )

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file"),
            *(str(tmp_path / "schemathesis.toml"), "run", f"{web.url}/openapi.json"),
            *("-H", f"Authorization: Bearer {secret}", "--checks", "all"),
            *("--phases", PHASES[level], "--seed", SEED),
            *("--max-examples", str(EXAMPLES), "--no-color"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2000:]
