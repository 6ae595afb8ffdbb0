"""Changes of topics while brokers come and go."""

import asyncio
import random
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.cluster.connection import Key
from tests.simulation.cluster.members.group import TOPIC

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster


_LOOK_S = 0.05
_KNOWN_WITHIN_LOOKS = 200
_PARTITIONS_MAX = 8


async def new_topic(cluster: "Cluster", rng: random.Random) -> None:
    name = f"later-{rng.randrange(3)}"
    if await cluster.admin.create_topic(name, 1) and not any(lane.key[0] == name for lane in cluster.lanes):
        cluster.note(f"topic {name} is made")
        cluster.add_clients(name, 1)


async def temporary_topic(cluster: "Cluster", rng: random.Random) -> None:
    """Create and delete a topic, perhaps under a name that was deleted before, while brokers come and go."""
    name = f"temporary-{rng.randrange(2)}"
    if await cluster.admin.create_topic(name, rng.randint(1, 3)):
        cluster.note(f"topic {name} is made")
    await asyncio.sleep(rng.uniform(0.0, 3.0))
    if await cluster.admin.delete_topic(name):
        cluster.note(f"topic {name} is deleted")


async def reassign(cluster: "Cluster", rng: random.Random) -> None:
    topic, index = "orders", rng.randrange(cluster.shape.partitions)
    replicas = rng.sample([broker.node_id for broker in cluster.brokers], cluster.shape.replication_factor)
    said = await cluster.admin.reassign(topic, index, replicas)
    cluster.note(f"{topic}-{index} is to be on {replicas}: {said}")


async def grow(cluster: "Cluster", rng: random.Random) -> None:
    """Add a partition to the topic of groups, a few times."""
    wanted = cluster.partitions_of_groups() + 1
    if cluster.groups and wanted <= _PARTITIONS_MAX:
        said = await cluster.admin.grow_topic(TOPIC, wanted)
        cluster.note(f"{TOPIC} is to have {wanted} partitions: {said}")


async def elect_preferred(cluster: "Cluster", rng: random.Random) -> None:
    cluster.note(f"preferred leaders are elected: {await cluster.admin.elect_preferred()}")


async def topic_made_again(cluster: "Cluster", rng: random.Random) -> None:
    """Delete a topic with its records and create it again, with new clients; some records may be deleted before."""
    name, partitions = f"again-{rng.randrange(2)}", rng.randint(1, 2)
    if name in cluster.busy_topics:
        return
    cluster.busy_topics.add(name)
    if cluster.has_clients(name):
        if rng.random() < 0.5 and not await _delete_records_of(cluster, rng, (name, 0)):
            return
        cluster.abandon_clients(name)
        if not await cluster.admin.delete_topic(name):
            # It may still be deleted later, and must not be a new topic by then: this name is no longer used.
            return
        cluster.topic_is_deleted(name)
        cluster.note(f"topic {name} is deleted")
        await asyncio.sleep(rng.choice((0.0, 0.0, rng.uniform(0.0, 2.0))))
    made = await cluster.admin.create_new_topic(name, partitions)
    if made is not None and await _is_known(cluster, name, made):
        cluster.note(f"topic {name} is made with {partitions} partitions")
        cluster.add_clients(name, partitions)
        cluster.busy_topics.discard(name)


async def _is_known(cluster: "Cluster", name: str, topic_id: UUID) -> bool:
    """Wait until every broker knows the new topic; return whether it does.

    Clients name topics, not their ids: a broker without the new topic would serve them the old one.
    """
    for _ in range(_KNOWN_WITHIN_LOOKS):
        await asyncio.sleep(_LOOK_S)
        nodes = [process.broker.broker for process in cluster.brokers if process.broker is not None]
        known = [None if node is None else node.image.topics.get(name) for node in nodes]
        if len(known) == len(cluster.brokers) and all(topic is not None and topic.id == topic_id for topic in known):
            return True
    return False


async def delete_records(cluster: "Cluster", rng: random.Random) -> None:
    key = rng.choice(sorted(cluster.deletions))
    if key[0] in cluster.busy_topics:
        return
    cluster.busy_topics.add(key[0])
    if await _delete_records_of(cluster, rng, key) or not key[0].startswith("again-"):
        cluster.busy_topics.discard(key[0])


async def _delete_records_of(cluster: "Cluster", rng: random.Random, key: Key) -> bool:
    """Delete some records; False if no broker answered.

    The request may then still be executed later, perhaps on the next topic of that name.
    """
    deletions = cluster.deletions[key]
    ends = [batch.base_offset + len(batch.values) for lane in cluster.lanes_of(key) for batch in lane.batches]
    before = rng.randint(0, max(ends, default=0))
    if before <= deletions.asked:
        return True
    deletions.asked = before
    low_watermark = await cluster.admin.delete_records(key, before)
    cluster.note(f"records of {key[0]}-{key[1]} before {before} are deleted: it begins at {low_watermark}")
    deletions.answered = max(deletions.answered, low_watermark or 0)
    return low_watermark is not None
