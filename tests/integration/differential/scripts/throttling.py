"""Client quotas that throttle: whose bucket is used, for how long, and what is refused (KIP-13, KIP-599).

The nodes have two samples of a second (`quota.window.num`), and eleven for changes of topics.
"""

import time

from tests.integration.differential.comparing import Near
from tests.integration.differential.play import Play
from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.client_quotas import Entity, entry
from tests.integration.differential.scripts.records import NOW_MS, fetch_fields, produce_fields, topic
from tests.integration.differential.scripts.topics import TIMEOUT_MS, new
from tests.integration.differential.settling import settle
from tests.support.processes.wire_client import Plain

NEAR_MS = 300
SAMPLES_S = 3.2
"""After this time, the samples of earlier requests do not count any more."""
USER = ("user", "ANONYMOUS")
PRODUCED, CONSUMED, CHANGED = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"


def set_quota(on: Play, key: str, value: float | None, *entity: tuple[str, str | None]) -> None:
    on.quietly("alter_client_quotas", 1, entries=[entry(entity, (key, value))], validate_only=False)
    settle(on)


def throttled(answer: Plain) -> Near:
    return Near(answer["throttle_time"], NEAR_MS)


def produced(on: Play, step: str, client_id: str, size: int, name: str) -> None:
    """Produce a batch with a connection of its own, which is muted if the client is throttled."""
    fields = produce_fields(name, Batch(NOW_MS, value=b"x" * size).encode(), 1)
    with on.open(client_id=client_id) as client:
        answer = client.ask("produce", 9, **fields)
    codes = [part["error_code"] for one in answer["responses"] for part in one["partition_responses"]]
    on.note(step, {"codes": codes, "throttled": throttled(answer)})


def forget(on: Play) -> None:
    """Wait until the samples of earlier requests do not count any more."""
    forgotten_s = time.monotonic() + SAMPLES_S

    def is_forgotten() -> bool:
        on.quietly("describe_client_quotas", 1, components=[], strict=True)
        return time.monotonic() >= forgotten_s

    on.until(is_forgotten)


LEVELS: dict[str, Entity] = {
    "default client": [("client-id", None)],
    "client": [("client-id", "a")],
    "default user": [("user", None)],
    "default user and client": [("user", None), ("client-id", None)],
    "default user, client": [("user", None), ("client-id", "a")],
    "user": [USER],
    "user and default client": [USER, ("client-id", None)],
    "user and client": [USER, ("client-id", "a")],
}


def levels(on: Play) -> None:
    """Each further level has a smaller quota, and so a longer throttle time, where it applies."""
    topic(on, "levels")
    for number, (name, entity) in enumerate(LEVELS.items(), 1):
        set_quota(on, PRODUCED, 30_000 - 3_000 * number, *entity)
        forget(on)
        for client_id in ("a", "b", ""):
            produced(on, f"{name}: produced by {client_id or 'no client id'}", client_id, 30_000, "levels")
    for entity in LEVELS.values():
        set_quota(on, PRODUCED, None, *entity)
    produced(on, "no quota", "a", 30_000, "levels")


def shared(on: Play) -> None:
    topic(on, "shared")
    forget(on)
    set_quota(on, PRODUCED, 20_000, USER)
    produced(on, "a user's first client", "a", 15_000, "shared")
    produced(on, "a user's second client", "b", 15_000, "shared")
    set_quota(on, PRODUCED, None, USER)
    set_quota(on, PRODUCED, 20_000, ("client-id", None))
    produced(on, "a client", "c", 15_000, "shared")
    produced(on, "another client", "d", 15_000, "shared")
    produced(on, "the first client again", "c", 15_000, "shared")
    set_quota(on, PRODUCED, None, ("client-id", None))


def fetched(on: Play) -> None:
    topic(on, "taken")
    for _ in range(3):
        on.quietly("produce", 9, **produce_fields("taken", Batch(NOW_MS, value=b"x" * 30_000).encode(), 1))
    set_quota(on, CONSUMED, 40_000, ("client-id", "reader"))
    with on.open(client_id="reader") as client:
        first = client.ask("fetch", 12, **fetch_fields("taken", [(0, 0)], session_epoch=0))
        on.note("within the quota", in_short(first))
    with on.open(client_id="reader") as client:
        again = fetch_fields("taken", [], session_id=first["session_id"], session_epoch=1)
        on.note("over the quota", in_short(client.ask("fetch", 12, **again | {"topics": []})))
    with on.open(client_id="other") as client:
        on.note("another client", in_short(client.ask("fetch", 12, **fetch_fields("taken", [(0, 0)]))))
    set_quota(on, CONSUMED, None, ("client-id", "reader"))


def in_short(answer: Plain) -> Plain:
    sizes = [len(part["records"] or b"") for one in answer["responses"] for part in one["partitions"]]
    return {
        "code": answer["error_code"],
        "session": bool(answer["session_id"]),
        "sizes": sizes,
        "throttled": throttled(answer),
    }


def changed(on: Play) -> None:
    """The vectors of Kafka's ControllerMutationQuotaTest, with one sample more."""
    for name, version in (("strict", 6), ("permissive", 5)):
        set_quota(on, CHANGED, 2, USER, ("client-id", name))
        with on.open(client_id=name) as client:
            made = [new(f"{name}-{number}", 30) for number in range(2)]
            fields = {"topics": made, "timeout": TIMEOUT_MS, "validate_only": False}
            answer = client.ask("create_topics", version, **fields)
            codes = sorted(each["error_code"] for each in answer["topics"])
            on.note(f"{name}: topics made", {"codes": codes, "throttled": throttled(answer)})
        set_quota(on, CHANGED, None, USER, ("client-id", name))
    with on.open(client_id="validating") as client:
        set_quota(on, CHANGED, 2, USER, ("client-id", "validating"))
        fields = {"topics": [new("validated", 30)], "timeout": TIMEOUT_MS, "validate_only": True}
        for number in range(2):
            answer = client.ask("create_topics", 6, **fields)
            codes = [each["error_code"] for each in answer["topics"]]
            on.note(f"validated {number}", {"codes": codes, "throttled": throttled(answer)})
        set_quota(on, CHANGED, None, USER, ("client-id", "validating"))
    settle(on)
    set_quota(on, CHANGED, 2, USER, ("client-id", "growing"))
    with on.open(client_id="growing") as client:
        grown = [{"name": "permissive-0", "count": 60, "assignments": None}]
        fields = {"topics": grown, "timeout": TIMEOUT_MS, "validate_only": False}
        answer = client.ask("create_partitions", 3, **fields)
        codes = [each["error_code"] for each in answer["results"]]
        on.note("grown", {"codes": codes, "throttled": throttled(answer)})
    with on.open(client_id="growing") as client:
        grown = [{"name": "permissive-1", "count": 60, "assignments": None}]
        answer = client.ask("create_partitions", 3, topics=grown, timeout=TIMEOUT_MS, validate_only=False)
        codes = [each["error_code"] for each in answer["results"]]
        on.note("grown too much", {"codes": codes, "throttled": throttled(answer)})
    set_quota(on, CHANGED, None, USER, ("client-id", "growing"))
    set_quota(on, CHANGED, 2, USER, ("client-id", "deleting"))
    with on.open(client_id="deleting") as client:
        answer = client.ask("delete_topics", 5, topic_names=["permissive-0", "permissive-1"], timeout=TIMEOUT_MS)
        codes = sorted(each["error_code"] for each in answer["responses"])
        on.note("deleted", {"codes": codes, "throttled": throttled(answer)})
    set_quota(on, CHANGED, None, USER, ("client-id", "deleting"))
