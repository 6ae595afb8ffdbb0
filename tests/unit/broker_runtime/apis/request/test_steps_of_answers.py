"""Parts of handlers that process many items: they yield to other tasks after a bounded number of items."""

from collections import deque
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.static.primitive import i8

from broker_runtime.apis.configs import alter_own_listeners
from broker_runtime.apis.fetch import fetch_request, list_offsets
from broker_runtime.apis.fetch_sessions.repeated_fetch import PartitionBytes
from broker_runtime.apis.groups import offset_commit
from broker_runtime.apis.groups.commit_request import CommitRequest, TopicToCommit
from broker_runtime.apis.request.many_items import Pace
from broker_runtime.errors import ErrorCode
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit
from broker_runtime.groups.push.state.log_ends import End
from broker_runtime.wire.versions import INCREMENTAL_ALTER_CONFIGS

TOPIC_ID = UUID(int=5)


class CountedPace:
    """Counts the items of each part of the work."""

    def __init__(self) -> None:
        self.items: list[int] = []

    async def item(self, weight: int = 1) -> None:
        self.items.append(weight)

    async def next_slice(self) -> None:
        self.items.append(0)


class Ends:
    async def of(self, asked: dict[tuple[str, int], int]) -> dict[tuple[str, int], End]:
        return {at: End(0, 100) for at in asked}


async def test_many_offsets_are_compared_with_the_ends_of_logs_in_parts() -> None:
    count = 1_000
    offsets = [OffsetToCommit("t", number % 3, 5 + 100 * (number % 2), -1, None, TOPIC_ID) for number in range(count)]
    topic = TopicToCommit(b"", list(range(count)), [ErrorCode.NONE] * count)
    request = CommitRequest("g", Committer(), -1, deque([topic]), offsets)
    known = SimpleNamespace(id=TOPIC_ID, partitions=dict.fromkeys(range(3), SimpleNamespace(leader_epoch=0)))
    context = SimpleNamespace(image=SimpleNamespace(topics={"t": known}), groups=SimpleNamespace(ends=Ends()))
    pace = CountedPace()
    await offset_commit._refuse_beyond_ends(request, cast("Any", context), cast("Pace", pace))
    assert max(pace.items) <= 100
    assert sum(pace.items) >= count
    assert topic.problems == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE] * (count // 2)
    assert [each.leader_epoch for each in request.offsets] == [0] * (count // 2)


def test_topics_without_partitions_are_answered_in_steps() -> None:
    topics: list[tuple[str, list[Any]]] = [("t", []) for _ in range(1_000)]
    assert sum(1 for _ in list_offsets._reply(topics)) >= 1_000


def test_partitions_of_very_many_topics_are_released_in_steps() -> None:
    chunks: dict[str | UUID, set[PartitionBytes]] = {f"t{number}": set() for number in range(2_000)}
    assert sum(1 for _ in fetch_request.let_go_of(chunks)) >= 100
    assert chunks == {}


def test_one_resource_of_many_configurations_is_forwarded_in_steps() -> None:
    config = AlterableConfig(name="k", config_operation=i8(0), value="v")
    resource = AlterConfigsResource(resource_type=i8(2), resource_name="t", configs=(config,) * 1_000)
    steps = alter_own_listeners._encoded(INCREMENTAL_ALTER_CONFIGS, 1, [resource], validate_only=False)
    assert sum(1 for _ in steps) >= 200
