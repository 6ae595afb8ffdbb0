"""The operator's Lease while other work blocks its event loop, and a client without the Lease."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeFencedError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import TOPIC
from sluicegate_operator.kube.lease.lease import LeaseElector
from sluicegate_operator.kube.lease.lease_thread import LeaseThread
from tests.support.fakes.kube.one_lease import OneLease

DURATION_S = 3


def elector(server: OneLease, identity: str) -> LeaseElector:
    return LeaseElector(
        server,  # type: ignore[arg-type]
        ("default", "test"),
        identity,
        duration_s=DURATION_S,
        renew_every_s=DURATION_S / 10,
    )


async def test_work_that_holds_up_the_event_loop_costs_no_renewal() -> None:
    server = OneLease()
    with LeaseThread(elector(server, "busy")) as lease:
        await lease.acquire()
        before = server.writes
        # Longer than the Lease lasts. Nothing else of this loop runs in the meantime.
        threading.Event().wait(DURATION_S * 1.2)
        assert lease.held()
        assert server.writes > before
        await lease.release()
        assert not lease.held()


async def test_a_lease_that_is_lost_ends_the_wait_of_the_work() -> None:
    server = OneLease()
    with LeaseThread(elector(server, "one")) as lease:
        await lease.acquire()
        server.away = True
        async with asyncio.timeout(DURATION_S * 20):
            await lease.lost()
        assert not lease.held()


async def test_without_the_lease_nothing_is_written(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                # No server listens there.
                "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
                "users": [{"name": "test", "user": {}}],
            }
        )
    )
    client = KubeClient(str(kubeconfig), may_write=lambda: False)
    try:
        with pytest.raises(KubeFencedError, match="does not hold the Lease"):
            await client.apply_status(TOPIC, "default", "orders", {})
        with pytest.raises(KubeUnavailableError):
            await client.list(TOPIC, "default")
    finally:
        client.close()
