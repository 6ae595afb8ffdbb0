"""OffsetCommit and OffsetFetch as clients of a simulated cluster send them, version 8 and later."""

from collections.abc import Mapping, Sequence

from broker_runtime.wire.messages import Fields


def commit_fields(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
) -> Fields:
    """The content of an OffsetCommit; `offsets` by partition."""
    parts = [
        {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": None}
        for index, offset in offsets.items()
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": instance,
        "topics": [{"name": topic, "partitions": parts}],
    }


def fetch_fields(
    group: str, topic: str, partitions: Sequence[int], member: str | None = None, epoch: int = -1
) -> Fields:
    topics = [{"name": topic, "partition_indexes": tuple(partitions)}]
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": topics}
    return {"groups": [asked], "require_stable": False}
