"""The remembered limits on external brokers: for which BrokerCluster, and until when."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.http.errors import KubeUnavailableError
from sluicegate_operator.planning.limits.limits import COUNT, DesiredLimits
from sluicegate_operator.quotas.brokers import WantedLimits
from sluicegate_operator.quotas.external_limits import ExternalLimits
from sluicegate_operator.quotas.state.ledger import LimitLedger
from tests.support.fakes.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.virtual_time

KEY = ("default", "shop")


def cluster(uid: str = "one", limits_set: tuple[str, ...] = ()) -> BrokerCluster:
    return BrokerCluster.model_validate(
        {
            "apiVersion": "sluicegate.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": {"name": "shop", "namespace": "default", "uid": uid},
            "spec": {"runtime": "External", "bootstrapServers": ("10.0.0.1:9092",)},
            "status": {"limitsSet": limits_set},
        }
    )


class Memory:
    """Replaces the context: keeps the fields written into statuses, or refuses all writes."""

    def __init__(self) -> None:
        self.written: list[Mapping[str, Any]] = []
        self.away = False

    async def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        if self.away:
            raise KubeUnavailableError("the API server is away")
        self.written.append(fields)


class Outside:
    def __init__(self) -> None:
        self.memory = Memory()
        self.brokers = ScriptedCluster(brokers=1)
        self.limits = ExternalLimits(self.memory)  # type: ignore[arg-type]

    async def enforce(self, of: BrokerCluster, **configs: str) -> dict[str, str]:
        """Enforce these limits; return the configuration of brokers afterwards."""
        pool = self.brokers.pool()
        desired = DesiredLimits({key.replace("_", "."): value for key, value in configs.items()}, exclusive=False)
        async with pool.admin:
            wanted = WantedLimits(desired, asyncio.get_running_loop().time())
            await self.limits.enforce(of, pool, wanted, LimitLedger())
        return dict(self.brokers.defaults)


async def test_nothing_is_set_while_it_cannot_be_remembered() -> None:
    outside = Outside()
    outside.memory.away = True
    with pytest.raises(KubeUnavailableError):
        await outside.enforce(cluster(), max_connections="5")
    assert outside.brokers.defaults == {}
    outside.memory.away = False
    assert await outside.enforce(cluster(), max_connections="5") == {COUNT: "5"}
    assert outside.memory.written == [{"limitsSet": [COUNT]}]


async def test_limits_set_by_another_operator_are_lifted_by_its_record() -> None:
    outside = Outside()
    outside.brokers.defaults = {COUNT: "5", "max.connections.per.ip": "9"}
    assert await outside.enforce(cluster(limits_set=(COUNT,))) == {"max.connections.per.ip": "9"}
    assert outside.memory.written == [{"limitsSet": []}]


async def test_a_status_that_is_read_late_makes_nobody_forget_what_was_set() -> None:
    outside = Outside()
    await outside.enforce(cluster(), max_connections="5")
    assert await outside.enforce(cluster()) == {}


async def test_limits_set_for_a_deleted_cluster_do_not_belong_to_a_new_one_with_its_name() -> None:
    outside = Outside()
    await outside.enforce(cluster("one"), max_connections="5")
    assert await outside.enforce(cluster("two")) == {COUNT: "5"}, "others may have set it there"
    outside.limits.forget(KEY)
    assert await outside.enforce(cluster("one")) == {COUNT: "5"}, "its status says nothing"
