"""Random members: they join, leave, fall silent, miss answers and change subscriptions, and coordinators fail over.

No partition ever has two owners among the members of the group. A replay of the log gives the same group. When nothing
more happens every partition has one owner.
"""

from random import Random

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.heartbeat import ConsumerHeartbeatAnswer
from tests.support.groups.consumer_groups import Coordinator, durable

TOPICS = {"small": 3, "middle": 7, "large": 300}
"""The large topic's assignment is computed aside."""
REGEXES = (None, "small|middle", ".*l.*")
BEGIN_AGAIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class Member:
    """A client of KIP-848: it owns its assignment, after it has given up the partitions that it must give up."""

    def __init__(self, member_id: str, instance_id: str | None, rng: Random) -> None:
        self.member_id, self.instance_id = member_id, instance_id
        self.topics = tuple(rng.sample(sorted(TOPICS), rng.randint(1, 3)))
        self.regex = rng.choice(REGEXES)
        self.is_replaced = False
        """Whether the member has ended because another instance has its place."""
        self.forget()

    def forget(self) -> None:
        self.epoch = 0
        self.owned: dict[object, set[int]] = {}
        self.wanted: dict[object, set[int]] = {}
        self.says_all = True

    def settle(self) -> None:
        """Give up partitions first, and take new ones when nothing is left to give up."""
        self.owned = {topic: had & self.wanted.get(topic, set()) for topic, had in self.owned.items()}
        self.owned = {topic: had for topic, had in self.owned.items() if had}

    def beat(self, coordinator: Coordinator, answer_is_lost: bool) -> None:
        owned = {topic: tuple(sorted(held)) for topic, held in self.owned.items()}
        everything = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex or "",
        }
        if self.is_replaced:
            return
        more = {"instance_id": self.instance_id, "owned": owned, **(everything if self.says_all else {})}
        try:
            answer = coordinator.heartbeat(self.member_id, self.epoch, **more)
        except KafkaError as error:
            if error.code is ErrorCode.FENCED_INSTANCE_ID:
                self.forget()
                self.is_replaced = True
            elif error.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
                if error.code not in BEGIN_AGAIN:
                    raise
                self.forget()
            return
        self.says_all = answer_is_lost
        if not answer_is_lost:
            self.hear(answer)

    def hear(self, answer: ConsumerHeartbeatAnswer) -> None:
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.wanted = {topic: set(partitions) for topic, partitions in answer.assignment.items()}
            given_up = all(held <= self.wanted.get(topic, set()) for topic, held in self.owned.items())
            if given_up:
                self.owned = {topic: set(partitions) for topic, partitions in self.wanted.items()}


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.coordinator = Coordinator()
        self.members: list[Member] = []
        self.made = 0
        for name, partitions in TOPICS.items():
            if name != "middle":
                self.coordinator.topic(name, partitions)

    def step(self) -> None:
        rng, coordinator = self.rng, self.coordinator
        coordinator.aside_at_once = rng.random() < 0.5
        match rng.choices(
            ("beat", "settle", "come", "go", "die", "wait", "silence", "topic", "change", "fail over"),
            (50, 25, 6, 2, 2, 8, 1, 1, 3, 1),
        )[0]:
            case "come" if len(self.members) < 6:
                self.made += 1
                instance_id = rng.choice((None, None, f"i{rng.randint(0, 2)}"))
                self.members.append(Member(f"m{self.made}", instance_id, rng))
            case "wait":
                coordinator.wait(rng.choice((0.3, 1.0, 5.0)))
            case "silence":
                coordinator.wait(46)
            case "topic":
                coordinator.topic("middle", rng.randint(1, TOPICS["middle"]))
            case "fail over":
                coordinator.fail_over()
            case action if self.members:
                self.act(action, rng.choice(self.members))

    def act(self, action: str, member: Member) -> None:
        match action:
            case "beat":
                member.beat(self.coordinator, answer_is_lost=self.rng.random() < 0.1)
            case "settle":
                member.settle()
            case "change":
                member.topics = tuple(self.rng.sample(sorted(TOPICS), 1))
                member.says_all = True
            case "go" | "die":
                self.members.remove(member)
                if action == "go" and member.epoch > 0:
                    member.epoch = self.rng.choice((-1, -2)) if member.instance_id else -1
                    member.beat(self.coordinator, answer_is_lost=True)

    def check(self) -> None:
        groups = self.coordinator.state.groups
        if not groups:
            return
        group = self.coordinator.group
        owners: dict[tuple[object, int], str] = {}
        for member in self.members:
            if member.member_id in group.members:
                for topic, partitions in member.owned.items():
                    for partition in partitions:
                        other = owners.setdefault((topic, partition), member.member_id)
                        assert other == member.member_id, f"{topic}-{partition} is owned by {other} too"

    def come_to_rest(self) -> None:
        self.coordinator.aside_at_once = True
        for _ in range(30):
            self.coordinator.wait(5)
            for member in self.members:
                member.beat(self.coordinator, answer_is_lost=False)
                member.settle()
                self.check()


@pytest.mark.parametrize("seed", range(40))
def test_partitions_have_one_owner_and_find_it(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
        world.check()
    assert durable(world.coordinator.replayed()) == durable(world.coordinator.state)
    if not world.members:
        return
    world.come_to_rest()
    group = world.coordinator.group
    assert group.state_name == "Stable"
    topics = world.coordinator.environment.image.topics
    for member in world.members:
        if member.member_id not in group.members:
            continue  # Another instance has its place.
        assert member.owned == {
            topic: set(partitions) for topic, partitions in world.coordinator.assigned(member.member_id).items()
        }
    for name in group.subscriptions.topics:
        topic = topics.get(name)
        for partition in topic.partitions if topic is not None else ():
            assert topic is not None
            assert not group.owners.free(topic.id, (partition,)), f"nobody owns {name}-{partition}"
