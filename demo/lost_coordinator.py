"""The act in which the coordinator of a push group is killed, whose consumers subscribe by a wildcard."""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable

import yaml
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from demo.checks import Expectations
from demo.parcels import CONSUMERS, GROUP, PATTERN, TOPICS
from demo.stage import QUICKSTART, START_TIMEOUT_S, DemoError, Stage, bootstrap_of, is_ready
from demo.takeover import Takeover, expect_survived, taken_over

READ_S = 2.0
"""Time for undisturbed reading before and after the kill."""
SETTLE_TIMEOUT_S = 40.0
ANSWER_TIMEOUT_S = 5.0
LOOK_INTERVAL_S = 0.1


async def lose_coordinator(stage: Stage, expectations: Expectations, say: Callable[[str], None]) -> Takeover:
    for name in ("cluster.yaml", "listener.yaml"):
        shutil.copyfile(QUICKSTART / name, stage.manifests / name)
    (stage.manifests / "parcels.yaml").write_text(yaml.safe_dump_all(_topics(), sort_keys=False))
    say(f"three new brokers call two consumers, which read {PATTERN}; all topics have three replicas")
    await stage.start_up()
    cluster = await stage.wait_until("three brokers and the topics of parcels", is_ready, START_TIMEOUT_S)
    bootstrap = bootstrap_of(cluster)
    result = stage.folder / "parcels.json"
    parcels = await stage.start_parcels(bootstrap, result)
    before = await _settled(bootstrap)
    await asyncio.sleep(READ_S)
    pid = next(node.pid for node in cluster.nodes if node.role == "broker" and node.id == before)
    if pid is None:
        raise DemoError(f"broker {before}, the coordinator of {GROUP}, has no process")
    say(f"kill -9 of the consumers' coordinator, broker {before}")
    killed_s = time.time()
    os.kill(pid, signal.SIGKILL)
    # A broker that is asked too early has not yet noticed the kill.
    await asyncio.sleep(READ_S)
    after = await _settled(bootstrap)
    await asyncio.sleep(READ_S)
    await stage.stop_process(parcels)
    found = taken_over(json.loads(result.read_text()), (before, after), sum(TOPICS.values()), killed_s)
    expect_survived(found, len(CONSUMERS), expectations)
    return found


def _topics() -> list[dict[str, object]]:
    return [
        {
            "apiVersion": "sluicegate.dev/v1alpha1",
            "kind": "Topic",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "shop"}, "partitions": partitions, "replicas": 3},
        }
        for name, partitions in TOPICS.items()
    ]


async def _settled(bootstrap: str) -> int:
    """Wait until all consumers read, and return the id of the group's coordinator."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        described = await asyncio.to_thread(_described, admin)
        if (
            described is not None
            and described.state is ConsumerGroupState.STABLE
            and len(described.members) == len(CONSUMERS)
            and described.coordinator is not None
        ):
            coordinator: int = described.coordinator.id
            return coordinator
        if time.monotonic() > deadline_s:
            raise DemoError(f"the consumers of {GROUP} are not stable within {SETTLE_TIMEOUT_S:g} s")
        await asyncio.sleep(LOOK_INTERVAL_S)


def _described(admin: AdminClient) -> ConsumerGroupDescription | None:
    """Describe the group. Returns None while no coordinator answers."""
    asked = admin.describe_consumer_groups([GROUP], request_timeout=ANSWER_TIMEOUT_S)
    try:
        return asked[GROUP].result(ANSWER_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError):
        return None
