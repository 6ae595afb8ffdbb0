"""Groups of KIP-848: members join, share, revoke, return and leave, with the answers of ConsumerGroupHeartbeat.

The script chooses members' IDs; topics are compared by name, because each node has its own IDs.
"""

from collections.abc import Mapping
from threading import Event
from uuid import UUID

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.configs import GROUP
from tests.integration.differential.settling import resource, settle
from tests.support.processes.clients.wire_client import Plain, trimmed

PROPERTIES: Mapping[str, str] = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "3",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
}
BEAT = "consumer_group_heartbeat"
TIMEOUT_MS = 15_000
STRANGER = UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
WAITING = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")
JOIN: Mapping[str, Plain] = {"rebalance_timeout": 60_000, "topic_partitions": []}


def pass_by(seconds: float) -> None:
    """Wait; only the effect of time is tested."""
    Event().wait(seconds)


class Group:
    """One group of a play. Its name is unique, even if a play is repeated."""

    def __init__(self, on: Play, name: str) -> None:
        self.on, self.id = on, f"{name}-{on.number}"
        self.topics: dict[str, str] = {}
        """Topic names by ID."""
        on.until(self._is_coordinated)

    def _is_coordinated(self) -> bool:
        found = self.on.quietly("find_coordinator", 4, key_type=0, coordinator_keys=[self.id])
        if found["coordinators"][0]["error_code"] != "none":
            return False
        answer = self.beat("nobody", -1)
        return answer["error_code"] not in WAITING

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic, and wait until it is known. Its name is unique to this play."""
        name = f"{name}-{self.on.number}"
        new = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        self.on.quietly("create_topics", 7, topics=[new], timeout=TIMEOUT_MS, validate_only=False)
        settle(self.on)
        asked = [{"topic_id": UUID(int=0), "name": name}]
        options = {"include_topic_authorized_operations": False, "allow_auto_topic_creation": False}
        found = self.on.quietly("metadata", 12, topics=asked, **options)
        self.topics[found["topics"][0]["topic_id"]] = name
        return name

    def beat(self, member: str, epoch: int, version: int = 1, **fields: Plain) -> Plain:
        """Send a heartbeat, and return the answer with topics by name, in order."""
        owned = fields.get("topic_partitions")
        asked = {"topic_partitions": None, **fields, "group_id": self.id, "member_id": member, "member_epoch": epoch}
        if isinstance(owned, dict):
            ids = {name: UUID(topic_id) for topic_id, name in self.topics.items()}
            asked["topic_partitions"] = [
                {"topic_id": ids.get(name, STRANGER), "partitions": list(parts)} for name, parts in owned.items()
            ]
        answer = self.on.quietly(BEAT, version, **trimmed(BEAT, version, asked))
        return self.named(answer) if isinstance(answer, dict) else answer

    def say(self, step: str, member: str, epoch: int, **fields: Plain) -> Plain:
        return self.on.note(step, self.beat(member, epoch, **fields))

    def join(self, step: str, member: str, *names: str, **fields: Plain) -> Plain:
        return self.say(step, member, 0, **{**JOIN, "subscribed_topic_names": list(names), **fields})

    def describe(self, step: str, version: int = 1) -> None:
        answer = self.on.quietly(
            "consumer_group_describe", version, group_ids=[self.id], include_authorized_operations=True
        )
        self.on.note(step, self.named(answer))

    def describe_shares(self, step: str) -> None:
        """Record how many partitions of all topics each member is assigned."""
        answer = self.on.quietly("consumer_group_describe", 1, group_ids=[self.id], include_authorized_operations=False)
        shares = [
            sum(len(part["partitions"]) for part in member["target_assignment"]["topic_partitions"])
            for member in answer["groups"][0]["members"]
        ]
        self.on.note(step, sorted(shares))

    def named(self, answer: Plain) -> Plain:
        """Return the answer with `topic_partitions` as a mapping of names."""
        if isinstance(answer, list):
            members = all(isinstance(item, dict) and "member_id" in item for item in answer) and bool(answer)
            items = [self.named(item) for item in answer]
            return {item["member_id"]: item for item in items} if members else items
        if not isinstance(answer, dict):
            return answer
        if "subscribed_topic_names" in answer:
            answer = {**answer, "subscribed_topic_names": sorted(answer["subscribed_topic_names"])}
        return {
            name: (
                {self.topics.get(part["topic_id"], "?"): sorted(part["partitions"]) for part in value}
                if name == "topic_partitions"
                else self.named(value)
            )
            for name, value in answer.items()
        }


def refused(on: Play) -> None:
    """Invalid requests, and unknown members and groups."""
    group = Group(on, "refused")
    topic = group.topic("refused", 1)
    full = {**JOIN, "subscribed_topic_names": [topic]}
    for version in (0, 1):
        ways: dict[str, tuple[str, int, Mapping[str, Plain]]] = {
            "no member id": ("", 0, {**full, "topic_partitions": {topic: [0]}, "rebalance_timeout": -1}),
            "no member id in an epoch": ("", 3, {}),
            "no member id and leaves": ("", -1, {}),
            "no timeout": ("a", 0, {**full, "rebalance_timeout": -1}),
            "no partitions": ("a", 0, {**full, "topic_partitions": None}),
            "owns something already": ("a", 0, {**full, "topic_partitions": {topic: [0]}}),
            "no subscription": ("a", 0, JOIN),
            "empty instance": ("a", 0, {**full, "instance_id": ""}),
            "blank instance": ("a", 0, {**full, "instance_id": " "}),
            "empty rack": ("a", 0, {**full, "rack_id": ""}),
            "unknown assignor": ("a", 0, {**full, "server_assignor": "sticky"}),
            "assignor in capitals": ("a", 0, {**full, "server_assignor": "Uniform"}),
            "goes for a while without an instance": ("a", -2, {}),
            "epoch -3": ("a", -3, {}),
            "bad expression": ("a", 0, {**JOIN, "subscribed_topic_regex": "["}),
            "bad expression beside names": ("a", 0, {**full, "subscribed_topic_regex": "("}),
            "epoch of nobody": ("a", 3, {}),
            "nobody leaves": ("a", -1, {}),
            "an instance of nobody leaves": ("a", -2, {"instance_id": "i"}),
            "timeout zero": ("zero", 3, {"rebalance_timeout": 0}),
        }
        for step, (member, epoch, fields) in ways.items():
            on.note(f"{step}, version {version}", group.beat(member, epoch, version, **fields))
    empty_group = {"group_id": "", "member_id": "a", "member_epoch": 1, "topic_partitions": None}
    on.ask("no group id", BEAT, 1, **empty_group)
    group.describe("a group that is not there")
    for version in (0, 1):
        on.ask(
            f"described, version {version}",
            "consumer_group_describe",
            version,
            group_ids=["", "not-there"],
            include_authorized_operations=False,
        )


def shared(on: Play) -> None:
    """Partitions move from one member to another, in the steps of the protocol."""
    group = Group(on, "shared")
    topic = group.topic("shared", 4)
    group.join("a joins", "a", topic)
    group.describe("with one member")
    group.say("a is steady", "a", 2)
    group.say(
        "a says all again", "a", 2, **{**JOIN, "subscribed_topic_names": [topic], "topic_partitions": {topic: [0]}}
    )
    group.say("a owns all", "a", 2, topic_partitions={topic: [0, 1, 2, 3]})
    group.join("b joins", "b", topic)
    group.describe("while a does not know of b")
    told = group.say("a hears of b", "a", 2)
    kept = told["assignment"]["topic_partitions"][topic]
    group.describe("while a gives up")
    group.say("b waits", "b", 3)
    group.say("a has not given up", "a", 2, topic_partitions={topic: [0, 1, 2, 3]})
    group.say("a says nothing of it", "a", 2)
    group.say("a comes from the future", "a", 6)
    group.say("a has given up", "a", 2, topic_partitions={topic: kept})
    group.describe("while b has not heard")
    group.say("a missed the answer and says nothing", "a", 2)
    group.say("a missed the answer and owns too much", "a", 2, topic_partitions={topic: [0, 1, 2, 3]})
    group.say("a missed the answer and owns what it may", "a", 2, topic_partitions={topic: kept})
    group.say("b has its share", "b", 3)
    group.describe("when all is done")
    group.say("a is in its epoch", "a", 3)
    group.join("b begins again", "b", topic)
    group.say("b goes on", "b", 3)
    group.join("c joins", "c", topic)
    group.join("a fourth is one too many", "d", topic)
    group.say("b leaves", "b", -1)
    group.say("b leaves again", "b", -1)
    group.describe("without b")
    answer = group.say("a hears of it", "a", 3)
    for turn in range(3):
        assigned = answer["assignment"]
        owned = {} if assigned is None else {"topic_partitions": assigned["topic_partitions"]}
        answer = group.say(f"a follows {turn}", "a", answer["member_epoch"], **owned)
    group.say("a leaves", "a", -1)
    group.say("c leaves", "c", -1)
    group.describe("empty")
    group.join("e joins the empty group", "e", topic)


def subscriptions(on: Play) -> None:
    """Subscriptions change, and topics change."""
    group = Group(on, "subscriptions")
    one, two = group.topic("one", 2), group.topic("two", 2)
    group.join("a joins", "a", one, two)
    group.say("a asks for less", "a", 2, subscribed_topic_names=[one])
    group.describe("a gives up")
    group.say("a has given up", "a", 2, topic_partitions={one: [0, 1]})
    group.say("a asks for the same", "a", 3, subscribed_topic_names=[one])
    group.say("a asks for it twice", "a", 3, subscribed_topic_names=[one, one])
    group.say("a asks for what is not there", "a", 3, subscribed_topic_names=[one, "not-there"])
    group.say("a asks for nothing", "a", 4, subscribed_topic_names=[], topic_partitions={})
    group.describe("a has nothing")
    group.say("a asks again", "a", 5, subscribed_topic_names=[one, two])
    group.say("a has another rack", "a", 6, rack_id="r")
    group.say("a has another timeout", "a", 6, rebalance_timeout=30_000)
    group.say("a wants another assignor", "a", 6, server_assignor="range")
    group.describe("with another assignor")
    on.quietly(
        "create_partitions",
        3,
        topics=[{"name": one, "count": 3, "assignments": None}],
        timeout=TIMEOUT_MS,
        validate_only=False,
    )
    settle(on)
    pass_by(0.3)
    group.say("a hears of more partitions", "a", 6)
    group.say("a has them", "a", 7)
    on.quietly("delete_topics", 6, topics=[{"name": two, "topic_id": UUID(int=0)}], timeout=TIMEOUT_MS)
    settle(on)
    pass_by(0.3)
    group.say("a hears that a topic is gone", "a", 7)
    group.say("a has given it up", "a", 7, topic_partitions={one: [0, 1, 2]})
    group.describe("without the topic")


def expressions(on: Play) -> None:
    """Topics of a regular expression are resolved after the join."""
    group = Group(on, "expressions")
    one = group.topic("matched-one", 2)
    group.topic("unmatched", 1)
    regex: dict[str, Plain] = {"subscribed_topic_regex": f"matched-[a-z]+-{on.number}"}
    joined = group.beat("a", 0, **JOIN, **regex)
    on.note("a joins", {name: joined[name] for name in ("error_code", "member_id")})
    on.until(lambda: bool(group.beat("a", 0, **JOIN, **regex)["assignment"]["topic_partitions"]))
    found = group.beat("a", 0, **JOIN, **regex)
    on.note("a has what was found", found["assignment"])
    epoch = found["member_epoch"]
    group.on.note("a is steady", group.beat("a", epoch)["assignment"])
    bad = group.beat("a", epoch, subscribed_topic_regex="(")
    on.note("a asks for what is no expression", bad["error_code"])
    group.on.note("a stays as it was", group.beat("a", epoch)["error_code"])
    ended = group.beat("a", epoch, subscribed_topic_regex="", topic_partitions={one: [0, 1]})
    on.note("a subscribes to nothing", ended["assignment"])
    described = on.quietly("consumer_group_describe", 1, group_ids=[group.id], include_authorized_operations=False)[
        "groups"
    ][0]["members"][0]
    on.note("what it subscribes to then", [described["subscribed_topic_names"], described["subscribed_topic_regex"]])


def static_members(on: Play) -> None:
    """Instances that return, and instances that must not."""
    group = Group(on, "static")
    topic = group.topic("static", 2)
    group.join("a joins as i", "a", topic, instance_id="i")
    group.join("b joins as i", "b", topic, instance_id="i")
    group.join("a joins as i again", "a", topic, instance_id="i")
    group.say("a is steady", "a", 2, instance_id="i")
    group.say("a is steady without its instance", "a", 2)
    group.say("b says that it is i", "b", 2, instance_id="i")
    group.say("a says that it is j", "a", 2, instance_id="j")
    group.say("b goes as i", "b", -2, instance_id="i")
    group.say("a goes for a while", "a", -2, instance_id="i")
    group.describe("a is away")
    group.say("a speaks while it is away", "a", 2, instance_id="i")
    group.say("a speaks from its absence", "a", -2, instance_id="i")
    group.join("b comes as i", "b", topic, instance_id="i")
    group.describe("b is there")
    group.say("a speaks when it is replaced", "a", 2, instance_id="i")
    group.say("b goes for a while", "b", -2, instance_id="i")
    group.join("c comes as i and asks for something else", "c", "not-there", instance_id="i")
    group.say("c is steady", "c", 3, instance_id="i")
    group.say("c gives up", "c", 2, instance_id="i", topic_partitions={})
    group.say("c leaves for good", "c", -1, instance_id="i")
    group.join("d comes as i", "d", topic, instance_id="i")


def paced(on: Play) -> None:
    """An assignment is computed at most once in the interval."""
    key = "group.consumer.assignment.interval.ms"
    for value in ("2000", "0"):
        change = {
            "resource_type": 4,
            "resource_name": "",
            "configs": [{"name": key, "config_operation": 0, "value": value}],
        }
        on.quietly("incremental_alter_configs", 1, resources=[change], validate_only=False)
        settle(on)
        if value == "0":
            break
        group = Group(on, "paced")
        topic = group.topic("paced", 2)
        group.join("a joins", "a", topic)
        group.join("b joins at once", "b", topic)
        group.describe("before the interval is over")
        group.say("a is steady", "a", 2)
        pass_by(2.2)
        group.say("b finds the interval over", "b", 2)
        group.say("a hears", "a", 2)
        group.say("b leaves", "b", -1)
        group.say("a is told nothing yet", "a", 2, topic_partitions={})


def configured(on: Play) -> None:
    """Times are configured for one group, and change while it has members."""
    group = Group(on, "configured")
    topic = group.topic("configured", 2)

    def configure(**values: str) -> None:
        changes = [(f"consumer.{name.replace('_', '.')}.ms", 0, value) for name, value in values.items()]
        asked = [resource(GROUP, group.id, *changes)]
        on.quietly("incremental_alter_configs", 1, resources=asked, validate_only=False)
        settle(on)

    configure(heartbeat_interval="2000")
    group.beat("a", 0, **JOIN, subscribed_topic_names=[topic])
    group.beat("a", 2, topic_partitions={topic: [0, 1]})
    group.say("a is steady", "a", 2)
    configure(heartbeat_interval="1400", session_timeout="1500")
    group.say("a hears of another interval", "a", 2)
    pass_by(3)
    group.say("a is forgotten before the session of other groups would end", "a", 2)
    group.describe("it is gone")
    resources = [{"resource_type": GROUP, "resource_name": group.id, "configs": []}]
    on.ask("undone", "alter_configs", 2, resources=resources, validate_only=False)


def silent(on: Play) -> None:
    """Members that are silent, or do not revoke, are removed."""
    group = Group(on, "silent")
    topic = group.topic("silent", 2)
    group.join("a joins", "a", topic, rebalance_timeout=2_000)
    group.join("s joins", "s", topic, instance_id="i")
    group.say("a hears", "a", 2)
    pass_by(2.5)
    group.say("a did not give up", "a", 2)
    group.say("s has all", "s", 3, instance_id="i")
    group.say("s goes for a while", "s", -2, instance_id="i")
    pass_by(7)
    group.say("s is forgotten", "s", 4, instance_id="i")
    group.describe("all are gone")


def commits(on: Play) -> None:
    """Offsets are accepted from members in their epoch."""
    group = Group(on, "commits")
    topic = group.topic("commits", 2)
    group.join("a joins", "a", topic)

    def commit(step: str, version: int, member: str, epoch: int) -> None:
        part = {
            "partition_index": 0,
            "committed_offset": 0,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        fields = {
            "group_id": group.id,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
            "retention_time": -1,
            "topics": [{"name": topic, "partitions": [part]}],
        }
        answer = on.quietly("offset_commit", version, **trimmed("offset_commit", version, fields))
        on.note(step, answer["topics"][0]["partitions"][0]["error_code"])

    def fetch(step: str, member: str | None, epoch: int) -> None:
        asked = {"group_id": group.id, "member_id": member, "member_epoch": epoch}
        groups = [{**asked, "topics": [{"name": topic, "partition_indexes": [0]}]}]
        answer = on.quietly("offset_fetch", 9, groups=groups, require_stable=False)
        on.note(step, answer["groups"][0]["error_code"])

    for version in (8, 9):
        commit(f"a commits, version {version}", version, "a", 2)
        commit(f"a commits in an epoch to come, version {version}", version, "a", 3)
        commit(f"b commits, version {version}", version, "b", 2)
        commit(f"somebody commits, version {version}", version, "", -1)
    fetch("a asks", "a", 2)
    fetch("a asks in another epoch", "a", 3)
    fetch("b asks", "b", 2)
    fetch("somebody asks", None, -1)
    group.say("a leaves", "a", -1)
    commit("somebody commits to the empty group", 9, "", -1)
    commit("a commits to the empty group", 9, "a", 2)


def assignors(on: Play) -> None:
    """The assignors' results: the partitions of each member, but for the uniform one only their number.

    Which ones they are depends on the topics' IDs there.
    """
    group = Group(on, "assignor-range")
    one, two = group.topic("range-one", 4), group.topic("range-two", 3)
    group.join("range: a joins", "a", one, two, server_assignor="range")
    group.join("range: b joins", "b", one, two, server_assignor="range")
    group.describe("range: two members")
    group.join("range: c joins for one topic", "c", one, server_assignor="range")
    group.describe("range: three members")
    group.say("range: b leaves", "b", -1)
    group.say("range: a hears", "a", 2)
    group.describe("range: without b")
    group = Group(on, "assignor-uniform")
    one, two = group.topic("uniform-one", 4), group.topic("uniform-two", 3)
    for member in ("a", "b", "c"):
        group.beat(member, 0, **JOIN, subscribed_topic_names=[one, two])
        group.describe_shares(f"uniform: {member} has joined")
    group.beat("b", -1)
    group.beat("a", 2)
    group.describe_shares("uniform: without b")
