"""Client quotas that throttle: whose bucket is used, for how long, and what is refused (KIP-13, KIP-599).

The nodes have two samples of a second (`quota.window.num`), and eleven for changes of topics.
"""

import time
from collections.abc import Iterator

from tests.integration.differential.comparing import Near
from tests.integration.differential.play import Play
from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.client_quotas import Entity, entry
from tests.integration.differential.scripts.records import NOW_MS, fetch_fields, produce_fields, topic
from tests.integration.differential.scripts.topics import TIMEOUT_MS, new
from tests.integration.differential.settling import settle
from tests.support.processes.clients.wire_client import Plain

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
    """The log has one batch: Kafka fills an answer up to the quota with a part of the next one."""
    name, reader = f"taken-{on.number}", f"reader, play {on.number}"
    topic(on, name)
    on.quietly("produce", 9, **produce_fields(name, Batch(NOW_MS, value=b"x" * 30_000).encode(), 1))
    set_quota(on, CONSUMED, 40_000, ("client-id", reader))
    with on.open(client_id=reader) as client:
        first = client.ask("fetch", 12, **fetch_fields(name, [(0, 0)], session_epoch=0))
        on.note("within the quota", in_short(first))
    with on.open(client_id=reader) as client:
        again = fetch_fields(name, [], session_id=first["session_id"], session_epoch=1)
        on.note("over the quota", in_short(client.ask("fetch", 12, **again | {"topics": []})))
    with on.open(client_id="other") as client:
        on.note("another client", in_short(client.ask("fetch", 12, **fetch_fields(name, [(0, 0)]))))
    set_quota(on, CONSUMED, None, ("client-id", reader))


def in_short(answer: Plain) -> Plain:
    sizes = [len(part["records"] or b"") for one in answer["responses"] for part in one["partitions"]]
    return {
        "code": answer["error_code"],
        "session": bool(answer["session_id"]),
        "sizes": sizes,
        "throttled": throttled(answer),
    }


def changed(on: Play) -> None:
    """The vectors of Kafka's ControllerMutationQuotaTest, with one sample more. A repeated play has other names."""
    for name, version in (("strict", 6), ("permissive", 5)):
        made = [new(f"{name}-{on.number}-{number}", 30) for number in range(2)]
        charged(on, f"{name}: topics made", "create_topics", version, "topics", topics=made, validate_only=False)
    for _ in on_one_bucket(on, "validating"):
        for number in range(2):
            made = [new(f"validated-{on.number}", 30)]
            step = f"validated, number {number}"
            asked(on, step, "validating", "create_topics", 6, "topics", topics=made, validate_only=True)
    for _ in on_one_bucket(on, "growing"):
        for number in range(2):
            grown = [{"name": f"permissive-{on.number}-{number}", "count": 60, "assignments": None}]
            step = f"grown, number {number}"
            asked(on, step, "growing", "create_partitions", 3, "results", topics=grown, validate_only=False)
    for _ in on_one_bucket(on, "deleting"):
        for number in range(2):
            names = [f"permissive-{on.number}-{number}"]
            asked(on, f"deleted, number {number}", "deleting", "delete_topics", 5, "responses", topic_names=names)


def charged(on: Play, step: str, api: str, version: int, results: str, **fields: Plain) -> None:
    """Send a request with a client id, and so a bucket, of its own."""
    for _ in on_one_bucket(on, step):
        asked(on, step, step, api, version, results, **fields)


def on_one_bucket(on: Play, name: str) -> Iterator[None]:
    client = ("client-id", f"{name}, play {on.number}")
    set_quota(on, CHANGED, 2, USER, client)
    yield
    set_quota(on, CHANGED, None, USER, client)


def asked(on: Play, step: str, client_id: str, api: str, version: int, results: str, **fields: Plain) -> None:
    with on.open(client_id=f"{client_id}, play {on.number}") as client:
        answer = client.ask(api, version, timeout=TIMEOUT_MS, **fields)
    codes = sorted(each["error_code"] for each in answer[results])
    on.note(step, {"codes": codes, "throttled": throttled(answer)})
