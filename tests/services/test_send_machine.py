"""Sends in any order: submits, rings, crashes, answers, words of providers, people.

A machine makes up histories of one identity on a committed database, and keeps a model:
each key with the states that its recipients may have, and the copies that a provider
has counted. After each step the invariants of every fault hold, and the model does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from celery import current_app
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import Phase
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django import Settings

from core import clock, points
from core.clock import database_now
from delivery.events import DeliveryEvent
from delivery.models import Delivery, OutboundState
from delivery.statuses import DeliveryKind, EventSource
from delivery.tasks import apply_event
from domains.statuses import Transport
from mailboxes.key_services import create_key
from mailboxes.models import Event, Message, Thread
from mailboxes.statuses import MessageStatus
from outbound import deliver as deliver_module
from outbound import dispatch
from outbound.slots import process_slots
from outbound.tasks import deliver_message, sweep_claims
from quota.services import sweep_holds
from tests.factories import AddressFactory, WebhookEndpointFactory
from tests.support.api import ApiClient, booking, code_of
from tests.support.crashes import Crash
from tests.support.doubts import stored
from tests.support.emptying import empty_tables
from tests.support.invariants import ACCEPTED, NO_SUCH_ROWS, REFUSED
from tests.support.send_books import (
    ANSWERS,
    DENIES,
    CountingProvider,
    D,
    Send,
    moved,
)
from webhooks import client as webhook_client
from webhooks.outbox import number_all
from webhooks.outcomes import Outcome
from webhooks.tasks import deliver_event

SUITE: Final = (20, 30)
RELEASE: Final = (300, 50)
"""How many histories of how many steps."""

CHARGED: Final = "a delivery that is charged and not accepted, or the reverse"
BREACHES: Final = " UNION ALL ".join(
    f"SELECT '{what}', x::text FROM ({statement}) x"  # noqa: S608  constants only
    for what, statement in NO_SUCH_ROWS.items()
)
UNHELD: Final = """
SELECT 'a message that waits and holds less or more', x::text FROM (
  SELECT m.id, m.status FROM messages m WHERE m.status = 'queued' AND
    (SELECT count(*) FROM deliveries d
      WHERE d.message_pk = m.pk AND d.status = 'queued') <>
    (SELECT coalesce(sum(h.units), 0) FROM holds h WHERE h.ref = m.id)) x
"""
MOST_STEPS_ON: Final = timedelta(days=20)
"""Well within the time for which a key is remembered."""

SUBMITTING: Final = ("copied", "second_look", "inserted", "committed")
CALLING: Final = (
    *("deliver.rung", "deliver.claimed", "smtp.before_final_dot"),
    *("smtp.after_reply", "deliver.answered", "deliver.suppressed"),
    "record.written",
)
AFTER_THE_CALL: Final = (["deliver.answered"], ["record.written"])
"""Deaths that lose what a call has answered, but for its earlier rounds."""

ALARMS: Final = ("ring_due", "ring_due", "sweep", "expire_holds", "lose_broker")
TELLING: Final = ("webhook.claimed", "webhook.answered")
HARMFUL: Final = {DeliveryKind.COMPLAINED: 3, DeliveryKind.BOUNCED: 10}
"""How many of these one identity gets before it is paused by them."""

TASKS: Final = {task.name: task for task in (apply_event, deliver_event)}

picks = st.integers(0, 7)


def crashes(*names: str) -> st.SearchStrategy[str | None]:
    """Return where a process may die, or that it does not."""
    return st.none() | st.sampled_from(names)


@contextmanager
def dying_at(point: str | None) -> Iterator[list[str]]:
    """Let the process die at a named point, once, if it comes there; yield where."""
    died: list[str] = []

    def die() -> None:
        points.planted.clear()
        died.append(point or "")
        raise Crash

    points.planted.clear()
    if point:
        points.planted[point] = die
    with suppress(Crash):
        yield died
    points.planted.clear()


@dataclass(frozen=True)
class Post:
    """A request, as it can be repeated; a reply goes to a message's own path."""

    path: str
    body: dict[str, Any]
    to: tuple[str, ...]

    @property
    def is_reply(self) -> bool:
        """Tell whether it has to lock a thread."""
        return self.path.endswith("/reply")


@dataclass(frozen=True)
class Call:
    """How a task of a send goes: what is answered, where it dies, what happens beside.

    ``late`` is after how many minutes the task is given out once more, if it is.
    """

    script: list[str]
    crash: str | None
    when: str
    act: str | None
    late: int | None


calls = st.builds(
    Call,
    script=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3),
    crash=crashes(*CALLING),
    when=st.sampled_from(["before", "after"]),
    act=st.sampled_from([None, None, "ring", "cancel", "run_out", "doubt", "hear"]),
    late=st.sampled_from([None, 0, 2, 7, 31]),
)


class SendMachine(RuleBasedStateMachine):
    """One identity's sends, and what they may have come to."""

    provider: CountingProvider

    def __init__(self) -> None:
        """Begin with an identity that sends by a provider, and a receiver of events."""
        super().__init__()
        clock.offset = timedelta(0)
        address = AddressFactory.create(domain__transport=Transport.SES)
        self.sender, self.tenant = address.address, address.tenant
        secret = create_key(name="t", tenant=address.tenant).secret
        self.api = ApiClient(secret, address.identity_id)
        WebhookEndpointFactory.create(tenant=address.tenant)
        self.provider = CountingProvider()
        self.keys: dict[str, Send | None] = {}
        self.posts: dict[str, Post] = {}
        self.harm: dict[DeliveryKind, int] = dict.fromkeys(HARMFUL, 0)
        self.rings: list[tuple[str, str]] = []
        self.received: set[str] = set()
        type(self).running = self

    running: "SendMachine"

    def teardown(self) -> None:
        """Leave nothing behind: the alarms ask for no tenant."""
        points.planted.clear()
        empty_tables(TransactionTestCase())

    @property
    def sends(self) -> list[Send]:
        """Return what was accepted, in its order."""
        return [send for send in self.keys.values() if send is not None]

    @property
    def waiting(self) -> list[Send]:
        """Return those that may wait for a call, and that nobody has claimed."""
        unclaimed = [s for s in self.sends if s.claimed_at is None]
        return [s for s in unclaimed if not s.is_canceled and s.may_be(D.QUEUED)]

    def pick(self, number: int) -> Send:
        """Return one of the sends, the newest first."""
        return self.sends[-1 - number % len(self.sends)]

    # --- requests

    @initialize(sends=st.lists(st.integers(1, 2), min_size=3, max_size=5))
    def begin(self, sends: list[int]) -> None:
        """Begin with a few sends that were accepted."""
        for recipients in sends:
            self.submit(recipients, None)

    @rule(recipients=st.integers(1, 2), crash=crashes(*SUBMITTING))
    def submit(self, recipients: int, crash: str | None) -> None:
        """Send under a new key; the process may die on its way."""
        key = f"key-{len(self.keys)}"
        to = tuple(f"{who}-{key}@example.net" for who in "ab"[:recipients])
        body = booking(to=list(to), subject=f"About {key}")
        self._post(key, Post(self.api.path, body, to), crash=crash)

    @precondition(lambda self: self.keys)
    @rule(pick=picks, is_changed=st.booleans(), crash=crashes(*SUBMITTING))
    def resubmit(self, pick: int, is_changed: bool, crash: str | None) -> None:
        """Repeat a request, perhaps with another body; it may have got no answer."""
        key = list(self.keys)[-1 - pick % len(self.keys)]
        post = self.posts[key]
        if is_changed:
            post = replace(post, body={**post.body, "text": "See you on Saturday."})
        self._post(key, post, crash=crash)

    @precondition(lambda self: self.sends)
    @rule(pick=picks)
    def reply(self, pick: int) -> None:
        """Answer into a thread; one that has to wait for it dies in its wait."""
        send = self.pick(pick)
        key = f"key-{len(self.keys)}"
        path = f"{self.api.path}/{send.message_id}/reply"
        body = {"text": f"Fine, says {key}."}
        if not set(send.recipients) & self.provider.shunned:
            self._post(key, Post(path, body, send.recipients), crash="thread_wait")

    def _post(self, key: str, post: Post, *, crash: str | None) -> None:
        before, response = self.keys.setdefault(key, None), None
        if post.is_reply:
            crash = "thread_wait"  # it would wait for ten seconds, and nobody works
        with dying_at(crash and f"submit.{crash}"):
            response = self.api.send(post.body, key=key, path=post.path)
        if before is not None and response is not None:
            self._repeated(post == self.posts[key], before, response)
            return
        self.posts[key] = post
        if response is not None:
            assert response.status_code == 202, response.content
            self._accepted(key, response.json()["id"])
        elif crash == "committed":  # nobody was told, and a retry will be
            found = Message.objects.exclude(public_id__in=self.provider.sends)
            self._accepted(key, found.get().public_id)

    def _accepted(self, key: str, message_id: str) -> None:
        assert message_id not in self.provider.sends, "one message for two keys"
        send = Send(key, message_id, self.posts[key].to, database_now())
        self.keys[key] = self.provider.sends[message_id] = send

    def _repeated(self, is_same: bool, before: Send, response: Any) -> None:
        if is_same:
            assert response.status_code == 202, response.content
            assert response.json()["id"] == before.message_id
        else:
            assert response.status_code == 409, response.content
            assert code_of(response) == "idempotency_conflict"

    # --- workers

    @precondition(lambda self: self.waiting)
    @rule(hows=st.lists(st.tuples(picks, calls), min_size=1, max_size=4))
    def deliver(self, hows: list[tuple[int, Call]]) -> None:
        """Run tasks of sends that wait, due or not."""
        for pick, how in hows:
            if found := self.waiting:
                self._deliver_twice(found[-1 - pick % len(found)], how)

    @precondition(lambda self: self.sends)
    @rule(hows=st.lists(st.tuples(picks, calls), min_size=1, max_size=2))
    def deliver_again(self, hows: list[tuple[int, Call]]) -> None:
        """Run tasks of any sends, whatever has become of them."""
        for pick, how in hows:
            self._deliver_twice(self.pick(pick), how)

    def _deliver_twice(self, send: Send, how: Call) -> None:
        if how.act:
            self.provider.meanwhile[how.when] = getattr(self, f"_{how.act}")
        self._deliver(send.message_id, how.script, how.crash)
        if how.late is not None:
            self.advance(how.late)
            self._deliver(send.message_id, [])
        self.nobody_has_two()
        self.each_is_where_it_may_be()

    @precondition(lambda self: self.rings)
    @rule(pick=picks, crash=crashes(*CALLING, *TELLING), again=st.booleans())
    def take_ring(self, pick: int, crash: str | None, again: bool) -> None:
        """Run a task that was rung; a broker may hand it over once more, and late."""
        ring = self.rings[pick % len(self.rings)]
        if not again:
            self.rings.remove(ring)
        self._run(*ring, crash=crash)

    def _run(self, task: str, task_id: str, *, crash: str | None = None) -> None:
        if task == deliver_message.name:
            self._deliver(task_id, [], crash)
        else:
            with dying_at(crash):
                TASKS[task](task_id)

    def _deliver(
        self, message_id: str, script: list[str], crash: str | None = None
    ) -> None:
        self.provider.script = list(script)
        send, calls = self.provider.sends[message_id], self.provider.calls
        is_due = self._is_surely_due(send)
        with dying_at(crash) as died:
            deliver_message(message_id)
        self.provider.meanwhile.clear()
        send.lapse(database_now())
        if died == ["deliver.claimed"]:
            self.provider.claim(send, database_now())
        while self.provider.under_way:
            call = self.provider.under_way.pop()
            # a round is recorded before its worker has answered
            is_round = died in AFTER_THE_CALL and call.answer == "suppressed"
            if not died or is_round:
                self.provider.end(call, now=database_now())
        assert self.provider.calls > calls or not is_due or died
        assert process_slots().held == 0

    def _is_surely_due(self, send: Send) -> bool:
        states = {state for a in send.recipients for state in send.allowed[a]}
        is_waiting = states == {D.QUEUED} and not send.is_canceled
        is_new = send.earliest is None and send.claimed_at is None
        return (
            is_waiting and is_new and not self.provider.shunned & set(send.recipients)
        )

    def _ring(self, send: Send) -> None:
        """Let a second worker be told of a message whose call is under way."""
        script = self.provider.script
        calls = self.provider.calls
        deliver_message(send.message_id)
        assert self.provider.calls == calls
        self.provider.script = script

    def _run_out(self, send: Send) -> None:
        """Freeze the worker for longer than its claim."""
        self.advance(7)
        self.sweep()

    def _doubt(self, send: Send) -> None:
        """Freeze it until a person has said what became of its send."""
        self._run_out(send)
        self._resolve(send)

    def _hear(self, send: Send) -> None:
        """Let the provider's word overtake the record of its answer."""
        for address in send.recipients:
            self._tell(send, address, [DeliveryKind.DELIVERED], by="tag")

    # --- people and providers

    @precondition(lambda self: self.sends)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        """Cancel a send, in time or not."""
        self._cancel(self.pick(pick))

    def _cancel(self, send: Send) -> None:
        states = [send.allowed[address] for address in send.recipients]
        unsent = {D.QUEUED, D.SUPPRESSED}
        waits = send.claimed_at is None and not send.is_canceled
        may = waits and all(s & unsent for s in states) and send.may_be(D.QUEUED)
        must = may and {D.QUEUED} in states and all(s <= unsent for s in states)

        response = self.api.post(f"{self.api.path}/{send.message_id}/cancel")

        assert response.status_code in (200, 409), response.content
        assert may or response.status_code == 409, "canceled what may have been sent"
        if must and not self.provider.shunned & set(send.recipients):
            assert response.status_code == 200, response.content
        send.is_canceled |= response.status_code == 200

    @precondition(lambda self: self.sends)
    @rule(pick=picks)
    def resolve(self, pick: int) -> None:
        """Ask an honest person what became of a send; they know the provider's."""
        self._resolve(self.pick(pick))

    def _resolve(self, send: Send) -> None:
        if (outcome := self.provider.truth(send)) is None:
            return
        doubtful = send.may_be(D.UNCERTAIN)
        path = f"{self.api.path}/{send.message_id}/resolve"
        response = self.api.post(path, {"outcome": outcome})
        if not doubtful:
            assert code_of(response) == "not_uncertain"
            return
        is_sure = any(send.reachable(a) == {D.UNCERTAIN} for a in doubtful)
        assert response.status_code == 200 or not is_sure, response.content
        for address in doubtful if response.status_code == 200 else ():
            rest = send.reachable(address) - {D.UNCERTAIN}
            send.put(address, D.SUBMITTED if outcome == "sent" else D.FAILED, *rest)

    @precondition(lambda self: self.provider.copies)
    @rule(
        pick=picks,
        kinds=st.lists(st.sampled_from(DeliveryKind), min_size=1, unique=True),
        by=st.sampled_from(["tag", "provider", "likeness"]),
    )
    def hear(self, pick: int, kinds: list[DeliveryKind], by: str) -> None:
        """Let the provider speak of a copy it has, in any order and twice."""
        copies = sorted(self.provider.copies)
        key, address = copies[-1 - pick % len(copies)]
        send = self.keys[key]
        assert send is not None
        self._tell(send, address, kinds, by=by)

    def _tell(
        self, send: Send, address: str, kinds: list[DeliveryKind], *, by: str
    ) -> None:
        new = [kind for kind in kinds if self._is_news(send, address, kind)]
        if not self.provider.copies[send.key, address] or not new:
            return
        send.heard[address] += new
        is_exact = by == "tag" and D.QUEUED not in send.allowed[address]
        if is_exact and not send.waiting[address]:
            send.put(address, *moved(send.reachable(address), new))
        else:
            send.waiting[address] += new
        for row in stored(*(self._word(send, address, kind, by) for kind in new)):
            apply_event(row)
            apply_event(row)
        if {DeliveryKind.BOUNCED, DeliveryKind.COMPLAINED} & set(new):
            self.provider.shunned.add(address)

    def _is_news(self, send: Send, address: str, kind: DeliveryKind) -> bool:
        if kind in send.heard[address]:
            return False
        if kind in HARMFUL:
            self.harm[kind] += 1
            return self.harm[kind] <= HARMFUL[kind]
        return True

    def _word(
        self, send: Send, address: str, kind: DeliveryKind, by: str
    ) -> DeliveryEvent:
        return DeliveryEvent(
            source=EventSource.SES,
            event_id=f"{send.key}:{address}:{kind}",
            provider_message_id=f"provider:{send.message_id}:{send.recipients[0]}"
            if by == "provider"
            else None,
            tag=send.message_id if by == "tag" else None,
            sender=self.sender,
            recipient=address,
            kind=kind,
            occurred_at=database_now(),
            subject=f"About {send.key}",
            hard=True,
        )

    # --- alarms and time

    @rule(act=st.sampled_from(ALARMS))
    def alarm(self, act: str) -> None:
        """Let an alarm run, or the broker die."""
        getattr(self, act)()

    def sweep(self) -> None:
        """Run the claim alarm, and a second one beside it."""
        for _ in range(2):
            sweep_claims()
        for send in self.sends:
            send.lapse(database_now())

    def ring_due(self) -> None:
        """Run the dispatch alarm and the feed's; their rings go to the broker."""
        number_all()
        dispatch.dispatch_due()

    @rule(minutes=st.sampled_from([2, 7, 31, 26 * 60]))
    def advance(self, minutes: int) -> None:
        """Let time pass."""
        if clock.offset < MOST_STEPS_ON:
            clock.offset += timedelta(minutes=minutes)

    def expire_holds(self) -> None:
        """Let every hold run out, and sweep them."""
        self.advance(11)
        sweep_holds()

    def lose_broker(self) -> None:
        """Let the broker die with all its rings."""
        self.rings.clear()

    @precondition(lambda self: self.sends)
    @rule()
    def calm_down(self) -> None:
        """Let nothing more go wrong: all comes to its end, and everybody is told."""
        for _ in range(30):
            clock.offset += timedelta(minutes=7)
            self.sweep()
            self.ring_due()
            while self.rings:
                self._run(*self.rings.pop(0))
            if not self._is_unsettled():
                break
        assert not OutboundState.objects.exists(), "I2: queued for ever"
        told = Event.objects.filter(tenant=self.tenant).values_list("id", flat=True)
        assert set(told) == self.received
        for send in self.sends:
            for address in [] if send.is_canceled else send.may_be(D.QUEUED):
                ends = send.allowed[address] - {D.QUEUED}
                is_shunned = address in self.provider.shunned
                send.put(address, *ends, *([D.SUPPRESSED] if is_shunned else []))

    def _is_unsettled(self) -> bool:
        events = Event.objects.filter(tenant=self.tenant).count()
        return OutboundState.objects.exists() or events > len(self.received)

    # --- what must hold

    @invariant()
    def nobody_has_two(self) -> None:
        """I1, and no call that should not have been made."""
        for fault in self.provider.faults:
            raise fault
        assert all(copies == 1 for copies in self.provider.copies.values())

    @invariant()
    def each_is_where_it_may_be(self) -> None:
        """I2 and I3, and the model; what is seen narrows what is allowed."""
        rows = Delivery.objects.values_list("message__public_id", "address", "status")
        found = {(message, address): status for message, address, status in rows}
        ours = {(s.message_id, a): s for s in self.sends for a in s.recipients}
        assert set(found) == set(ours)
        for (_, address), send in ours.items():
            status = found[send.message_id, address]
            self._check(send, address, status)
            send.put(address, status)
        canceled = Message.objects.filter(status=MessageStatus.CANCELED)
        ids = {send.message_id for send in self.sends if send.is_canceled}
        assert set(canceled.values_list("public_id", flat=True)) == ids

    def _check(self, send: Send, address: str, status: str) -> None:
        may_be = send.reachable(address)
        if address in self.provider.shunned and D.QUEUED in may_be:
            may_be |= {D.SUPPRESSED}
        assert status in may_be, (send.key, address, status, sorted(may_be))
        copies = self.provider.copies[send.key, address]
        is_denied = DENIES & set(send.heard[address])
        if status in ACCEPTED:
            assert copies == 1, (send.key, address, status)
        if status in REFUSED and send.claimed_at is None and not is_denied:
            assert copies == 0, (send.key, address, status)

    @invariant()
    def the_books_add_up(self) -> None:
        """I4: holds, counters and the feed are functions of the rows."""
        with connection.cursor() as cursor:
            cursor.execute(f"{BREACHES} UNION ALL {UNHELD}")
            for what, row in cursor.fetchall():
                # a provider may deny what it has taken, and charged
                assert what == CHARGED, (what, row)
                assert self._was_denied(row), (what, row)
        assert not Thread.objects.filter(
            lock_owner__in=[s.message_id for s in self.sends if self._has_ended(s)]
        ).exists()

    def _was_denied(self, row: str) -> bool:
        return any(
            address in row and DENIES & set(kinds)
            for send in self.sends
            for address, kinds in send.heard.items()
        )

    def _has_ended(self, send: Send) -> bool:
        return send.is_canceled or not send.may_be(D.QUEUED)


@pytest.fixture
def _deployment(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider, a broker and a receiver of ours; no rate limits, no breaker."""
    for name in ("PM_RATE_PER_KEY", "PM_RATE_PER_TENANT", "PM_RATE_SENDS"):
        setattr(settings, name, 0)
    settings.PM_BREAKER_SECONDS = 0
    settings.PM_SES_REGION = "eu-west-1"
    objects = settings.STORAGES["objects"]
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {**objects, "OPTIONS": {"location": str(tmp_path / "objects")}},
    }

    def send_task(task: str, *, args: list[str], **_: object) -> None:
        SendMachine.running.rings.append((task, args[0]))

    def post(url: str, body: bytes, *, headers: Any) -> Outcome:
        SendMachine.running.received.add(headers["webhook-id"])
        return Outcome(http_status=204)

    monkeypatch.setattr(current_app, "send_task", send_task)
    monkeypatch.setattr(webhook_client, "post", post)
    monkeypatch.setattr(
        deliver_module, "transport_for", lambda _: SendMachine.running.provider
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_deployment")
def test_in_any_order_no_key_gives_two_mails_and_none_is_lost() -> None:
    is_longer = profile.get_current_profile_name() == "release"
    examples, steps = RELEASE if is_longer else SUITE
    # to shorten a history takes longer than to read it
    phases = tuple(Phase) if is_longer else (Phase.generate,)

    run_state_machine_as_test(
        SendMachine,
        settings=profile(
            max_examples=examples, stateful_step_count=steps, phases=phases
        ),
    )
