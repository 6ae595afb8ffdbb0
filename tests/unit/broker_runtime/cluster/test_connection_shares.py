"""The shell around shares of rates of the cluster, against a scripted controller, in virtual time."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.cluster.connection_shares import ConnectionShares, Reporting, share_samples
from broker_runtime.cluster.lifecycle import Phase
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.membership_status import MembershipStatus
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.wire.messages import Entity
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings
from kafka_bytes.own_keys import CONNECTION_SHARES
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

RATE = 100


class Controller(ControllerClient):
    """A scripted controller: grants `share`, refuses with `error`, or never answers while `hangs`."""

    def __init__(self) -> None:
        self.reports: list[Mapping[str, Any]] = []
        self.share = 50_000
        self.error: ErrorCode | None = None
        self.hangs = False
        self.damage: dict[str, Any] = {}
        """Fields of answers that have other values than usual."""
        self.followed = 0

    async def request(
        self, api_key: int, version: int, content: Mapping[str, Any], timeout_s: float | None = None
    ) -> Entity:
        assert (api_key, version) == (CONNECTION_SHARES, 0)
        self.reports.append(content)
        if self.hangs:
            await asyncio.sleep(2)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        await asyncio.sleep(0.001)
        grants = [SimpleNamespace(name=one["name"], rate=one["rate"], share=self.share) for one in content["limits"]]
        usual = {
            "error_code": self.error or ErrorCode.NONE,
            "verdict": 0,
            "controller_epoch": 1,
            "lease_ms": 4_000,
            "brokers": 2,
            "more_soon": False,
            "shares": grants,
        }
        return SimpleNamespace(**usual | self.damage)

    def follow(self, other: ControllerClient) -> None:
        self.followed += 1


class Acceptor:
    """An acceptor without waiting clients."""

    waiting_total = 0

    def __init__(self) -> None:
        self.changes = 0

    def limits_changed(self) -> None:
        self.changes += 1


class Server:
    """The quotas of one listener with a rate of the cluster."""

    def __init__(self) -> None:
        settings = QuotaSettings(max_connection_creation_rate=RATE, cluster_wide=True)
        self.quotas = ConnectionQuotas(settings, 0)
        self.quotas.add_listener("EXTERNAL", 0)
        self.acceptors = {"EXTERNAL": Acceptor()}
        self.limit_changes = LimitChanges(self.quotas, lambda: 0.0)


class World:
    def __init__(self, clock: ManualClock) -> None:
        self.controller = Controller()
        self.server = Server()
        self.member = SimpleNamespace(phase=Phase.RUNNING, serving=True, epoch=11, broker_id=7)
        member = cast(MembershipStatus, self.member)
        self.shares = ConnectionShares(
            Reporting(200, 4_000),
            clock,
            (self.controller, self.controller),
            lambda: member,
            MetadataImage(),
            self.server,
        )

    @property
    def share(self) -> float:
        share = self.server.quotas.rate_limit.share
        assert share is not None
        return share.share / 1_000


def in_world(work: Callable[[World], Any]) -> None:
    clock = ManualClock()

    async def whole() -> None:
        world = World(clock)
        running = asyncio.create_task(world.shares.run())
        try:
            await work(world)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(whole(), clock)


def test_a_share_is_requested_renewed_and_applied() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(0.2)
        assert world.share == 50
        assert world.server.acceptors["EXTERNAL"].changes > 0
        (first,) = world.controller.reports
        assert (first["broker_id"], first["broker_epoch"], first["is_full"]) == (7, 11, True)
        assert first["limits"] == [{"name": "broker", "rate": RATE * 1_000, "share": 0, "demand": 0}]
        await asyncio.sleep(10)
        assert 8 <= len(world.controller.reports) <= 12
        assert world.controller.reports[-1]["limits"] == []

    in_world(work)


def test_without_a_rate_of_the_cluster_nothing_is_sent_and_no_timer_runs() -> None:
    async def work(world: World) -> None:
        world.server.quotas.update(QuotaSettings(), 0)
        await asyncio.sleep(0.5)
        timers = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
        await asyncio.sleep(60)
        assert not world.controller.reports
        assert timers <= 1
        world.server.quotas.update(QuotaSettings(max_connection_creation_rate=RATE, cluster_wide=True), 0)
        world.shares.wake()
        await asyncio.sleep(0.2)
        assert world.controller.reports

    in_world(work)


def test_a_broker_that_is_not_registered_reports_nothing_and_one_that_stops_serving_gives_up() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(1)
        world.member.phase, world.member.serving = Phase.CUT_OFF, False
        await asyncio.sleep(1)
        assert world.share == 0
        count = len(world.controller.reports)
        await asyncio.sleep(10)
        assert len(world.controller.reports) == count
        world.member.phase, world.member.serving = Phase.RUNNING, True
        await asyncio.sleep(0.5)
        assert world.share == 50
        assert world.controller.reports[count]["is_full"]

    in_world(work)


def test_a_failure_is_retried_with_the_controller_that_others_follow() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(1)
        world.controller.hangs = True
        await asyncio.sleep(5.5)
        # The lease has ended: an equal part of two brokers remains.
        assert world.share == 50
        assert world.controller.followed >= 1
        world.controller.hangs, world.controller.error = False, ErrorCode.NOT_CONTROLLER
        followed = world.controller.followed
        await asyncio.sleep(5)
        assert 3 <= world.controller.followed - followed <= 7
        world.controller.error, world.controller.share = None, 70_000
        await asyncio.sleep(2.5)
        assert world.share == 70
        samples = {one.name: one.value for one in world.shares.collect() if not one.labels.get("outcome")}
        assert samples["sluicegate_cluster_connection_rate"] == RATE
        assert samples["sluicegate_cluster_connection_rate_share"] == 70

    in_world(work)


def grant(share: int, rate: int = RATE * 1_000) -> dict[str, Any]:
    return {"shares": [SimpleNamespace(name="broker", rate=rate, share=share)]}


@pytest.mark.parametrize(
    "damage",
    [
        {"verdict": 9},
        {"verdict": -1},
        {"lease_ms": 0},
        {"lease_ms": -4_000},
        {"lease_ms": 2**31 - 1},
        {"brokers": 0},
        {"brokers": -3},
        grant(-1),
        grant(RATE * 1_000 + 1),
        grant(2**63 - 1, 2**63 - 2),
        grant(-5, -9),
    ],
)
def test_an_answer_out_of_range_counts_as_none(damage: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(1)
        assert world.share == 50
        world.controller.damage = damage
        await asyncio.sleep(5.5)
        # The lease has ended: an equal part of two brokers remains.
        assert world.share == 50
        text = "the controller does not answer reports about rates of the cluster"
        assert sum(text in message for message in caplog.messages) == 1
        world.controller.damage, world.controller.share = {}, 70_000
        await asyncio.sleep(2.5)
        assert world.share == 70

    in_world(work)


def test_shares_of_unknown_limits_are_ignored() -> None:
    async def work(world: World) -> None:
        many = [SimpleNamespace(name=f"group:{n}", rate=9_000, share=9_000) for n in range(10_000)]
        world.controller.damage = {"shares": [*grant(60_000)["shares"], *many]}
        await asyncio.sleep(1)
        assert world.share == 60

    in_world(work)


def test_quotas_without_a_rate_of_the_cluster_have_no_samples() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(0.2)
        assert not list(share_samples(ConnectionQuotas(QuotaSettings(), 0), world.shares.rates, {"failed": 0}, 0))

    in_world(work)
