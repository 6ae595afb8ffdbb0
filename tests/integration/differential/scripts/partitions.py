"""Partitions and their replicas: elections, reassignments and registrations, as far as one node shows them."""

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.topics import NODE, TIMEOUT_MS, new
from tests.integration.differential.settling import settle
from tests.support.processes.clients.wire_client import Plain, trimmed

PREFERRED, UNCLEAN = 0, 1
STRANGER = 77


def elections(on: Play) -> None:
    on.quietly("create_topics", 7, topics=[new("elected", 2)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    ways: dict[str, tuple[int, list[tuple[str, list[int]]]]] = {
        "not needed": (PREFERRED, [("elected", [0, 1])]),
        "unclean, not needed": (UNCLEAN, [("elected", [0])]),
        "unknown partition": (PREFERRED, [("elected", [7])]),
        "negative partition": (UNCLEAN, [("elected", [-1])]),
        "unknown topic": (PREFERRED, [("not-there", [0])]),
        "impossible topic": (PREFERRED, [("not there", [0])]),
        "no partitions": (PREFERRED, [("elected", [])]),
        "no topics": (PREFERRED, []),
        "twice": (PREFERRED, [("elected", [0, 0])]),
        "unknown kind": (5, [("elected", [0])]),
    }
    for step, (kind, wanted) in ways.items():
        topics = [{"topic": name, "partitions": indexes} for name, indexes in wanted]
        fields = {"election_type": kind, "topic_partitions": topics, "timeout": TIMEOUT_MS}
        on.ask_in_every_version(step, "elect_leaders", range(3), **fields)
    everything = {"election_type": PREFERRED, "topic_partitions": None, "timeout": TIMEOUT_MS}
    for version in range(3):
        answer = on.quietly("elect_leaders", version, **trimmed("elect_leaders", version, everything))
        ours = [topic for topic in answer["replica_election_results"] if topic["topic"] == "elected"]
        on.note(f"all, version {version}", answer | {"replica_election_results": ours})


def reassignments(on: Play) -> None:
    on.quietly("create_topics", 7, topics=[new("moved", 2)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    ways: dict[str, tuple[str, int, list[int] | None]] = {
        "to where it is": ("moved", 0, [NODE]),
        "cancelled": ("moved", 0, None),
        "to nobody": ("moved", 0, []),
        "to one twice": ("moved", 0, [NODE, NODE]),
        "to a stranger": ("moved", 0, [NODE, STRANGER]),
        "to a negative broker": ("moved", 0, [-1]),
        "unknown partition": ("moved", 7, [NODE]),
        "unknown partition cancelled": ("moved", 7, None),
        "unknown topic": ("not-there", 0, [NODE]),
        "impossible topic": ("not there", 0, [NODE]),
    }
    for step, (name, index, replicas) in ways.items():
        for version in (0, 1):
            _reassign(on, f"{step}, version {version}", version, _move(name, index, replicas))
        _reassign(on, f"{step}, factor kept", 1, _move(name, index, replicas), keep=True)
    _reassign(on, "nothing", 1)
    _reassign(on, "good and bad together", 1, _move("moved", 1, [NODE]), _move("not-there", 0, [NODE]))
    for step, topics in {
        "listed": None,
        "none listed": [],
        "one listed": [{"name": "moved", "partition_indexes": [0]}],
        "unknown listed": [
            {"name": "not-there", "partition_indexes": [0]},
            {"name": "moved", "partition_indexes": [7]},
        ],
    }.items():
        on.ask(step, "list_partition_reassignments", 0, timeout=TIMEOUT_MS, topics=topics)


def _move(name: str, index: int, replicas: list[int] | None) -> Plain:
    return {"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}


def _reassign(on: Play, step: str, version: int, *topics: Plain, keep: bool = False) -> None:
    fields = {"timeout": TIMEOUT_MS, "topics": list(topics), "allow_replication_factor_change": not keep}
    api = "alter_partition_reassignments"
    on.ask(step, api, version, **trimmed(api, version, fields))


def brokers(on: Play) -> None:
    on.ask("a stranger is unregistered", "unregister_broker", 0, broker_id=STRANGER)
    on.ask("nobody is unregistered", "unregister_broker", 0, broker_id=-1)


def folders(on: Play) -> None:
    """Paths of folders and sizes of disks differ between any two nodes."""
    on.quietly("create_topics", 7, topics=[new("held", 2)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)

    def has_logs() -> bool:
        topics = [{"topic": "held", "partitions": [0, 1]}]
        (folder,) = on.quietly("describe_log_dirs", 1, topics=topics)["results"]
        return sum(len(topic["partitions"]) for topic in folder["topics"]) == 2

    # A broker creates the logs of new partitions after the configuration that `settle` waits for is in force.
    on.until(has_logs)
    ways = {"held": [("held", [0, 1])], "unknown": [("held", [7]), ("not-there", [0])], "nothing": []}
    for step, wanted in ways.items():
        topics = [{"topic": name, "partitions": indexes} for name, indexes in wanted]
        for version in range(1, 5):
            answer = on.quietly("describe_log_dirs", version, topics=topics)
            (folder,) = answer["results"]
            shown = {name: folder[name] for name in ("error_code", "topics")}
            on.note(f"{step}, version {version}", {**answer, "results": [shown]})
