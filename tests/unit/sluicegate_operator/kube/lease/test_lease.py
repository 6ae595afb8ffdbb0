"""The actions of a Lease holder, and their times: against an API server in memory and a manual clock."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.kube.lease.lease import LeaseElector
from tests.support.fakes.kube.one_lease import OneLease
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

DURATION_S = 15


def elector(server: OneLease, clock: ManualClock, **options: Any) -> LeaseElector:
    return LeaseElector(
        server,  # type: ignore[arg-type]
        ("default", "test"),
        "one",
        duration_s=DURATION_S,
        renew_every_s=DURATION_S / 3,
        clock=clock.monotonic,
        **options,
    )


def test_a_holder_that_was_frozen_knows_at_once_that_it_may_not_write() -> None:
    clock = ManualClock()
    one = elector(OneLease(), clock)
    run(one.acquire(), clock)
    assert one.held
    clock.advance(DURATION_S * 2 / 3 - 0.1)
    assert one.held
    clock.advance(0.2)
    # No task of it has run since: it has not tried to renew, and `lost` is not set.
    assert not one.held
    assert not one.lost.is_set()


def test_a_lease_is_renewed_every_third_of_its_duration() -> None:
    clock, server = ManualClock(), OneLease()
    one = elector(server, clock)

    async def hold() -> None:
        await one.acquire()
        keeping = asyncio.create_task(one.run_while_held())
        await asyncio.sleep(60.1)
        keeping.cancel()

    run(hold(), clock)
    assert server.writes == 1 + 12
    assert server.reads == 1


@pytest.mark.parametrize("trouble", ["the API server is away", "the work stands still"])
def test_a_lease_that_is_not_renewed_is_lost_before_another_process_may_take_it(trouble: str) -> None:
    clock, server, working = ManualClock(), OneLease(), [True]
    one = elector(server, clock, alive=lambda: working[0])

    async def hold() -> None:
        await one.acquire()
        server.away = trouble == "the API server is away"
        working[0] = trouble != "the work stands still"
        async with asyncio.timeout(DURATION_S):
            await one.run_while_held()

    run(hold(), clock)
    assert one.lost.is_set()
    assert server.writes == 1


def test_a_renewal_that_is_refused_is_tried_again_with_what_is_there() -> None:
    clock, server = ManualClock(), OneLease()
    one = elector(server, clock)

    async def hold() -> None:
        await one.acquire()
        keeping = asyncio.create_task(one.run_while_held())
        await asyncio.sleep(1.0)
        assert server.lease is not None
        # A user labels it: another version, and still ours.
        server.lease = {**server.lease, "metadata": {**server.lease["metadata"], "resourceVersion": "labelled"}}
        await asyncio.sleep(DURATION_S)
        assert one.held
        keeping.cancel()

    run(hold(), clock)
    assert not one.lost.is_set()


class NeverAnswers(OneLease):
    async def replace(self, kind: Kind, namespace: str, name: str, manifest: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(10 * DURATION_S)
        raise AssertionError("nobody waits so long")


def test_a_renewal_and_a_release_without_an_answer_say_so(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    one = elector(NeverAnswers(), clock)

    async def hold() -> None:
        await one.acquire()
        await one.run_while_held()
        await one.release()

    run(hold(), clock)
    said = [record.getMessage() for record in caplog.records]
    assert "the lease default/test was not renewed: no answer" in said
    assert "the lease default/test was not released: too slow" in said
