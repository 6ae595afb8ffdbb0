"""Connection groups, set over the protocol: enforced by the broker, read back, visible over HTTP and in metrics."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import set_ip_rates, until
from tests.support.processes.clients.wire_client import ConnectionEnded, Plain, WireClient

GROUP, RATE, MAX, MEMBER = "connection-group", "connection_creation_rate", "max_connections", "member"
INGEST, WATCHED = "shop/ingest", "shop/watched"
DUAL = "DUAL"
"""A listener for clients of both families; the other one is the brokers' listener, and protected."""


class DualStackBroker(BrokerProcess):
    def server_properties(self) -> dict[str, str]:
        own = super().server_properties()
        both = own["listeners"].replace(f"{DUAL}://{self.host}", f"{DUAL}://[::]")
        return own | {"listeners": both, "advertised.listeners": own["listeners"]}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    properties = {"connection.quota.ip.action": "drop", "sluicegate.connection.group.members.max": "3"}
    with DualStackBroker(listeners=[DUAL], properties=properties) as process:
        yield process


def alter(broker: BrokerProcess, *changes: tuple[Mapping[str, str], Mapping[str, float | None]]) -> list[str | None]:
    """Alter quotas, and return the message of each entry; a value of None removes its key."""
    entries: list[Plain] = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": k, "value": v or 0.0, "remove": v is None} for k, v in values.items()],
        }
        for entity, values in changes
    ]
    with WireClient((broker.host, broker.port())) as client:
        answer = client.ask("alter_client_quotas", 1, entries=entries, validate_only=False)
    return [entry["error_message"] for entry in answer["entries"]]


def described(broker: BrokerProcess, *asked: tuple[str, int, str | None]) -> list[tuple[str, dict[str, float]]]:
    components = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in asked]
    with WireClient((broker.host, broker.port())) as client:
        answer = client.ask("describe_client_quotas", 1, components=components, strict=False)
    return [
        ("+".join(str(e["entity_name"]) for e in entry["entity"]), {v["key"]: v["value"] for v in entry["values"]})
        for entry in answer["entries"]
    ]


def shown(broker: BrokerProcess, **query: str) -> dict[str, Any]:
    status, body = broker.get(f"/connection-quotas?{urlencode(query)}")
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def served(broker: BrokerProcess, stack: ExitStack, source: str) -> bool:
    """Return whether a connection from there gets an answer; it stays open as long as `stack`."""
    host = "::1" if ":" in source else broker.host
    client = stack.enter_context(WireClient((host, broker.port(DUAL)), source=source))
    try:
        client.ask("api_versions", 0)
    except ConnectionEnded:
        return False
    return True


def in_force(broker: BrokerProcess, group: str, members: int) -> None:
    def holds() -> bool:
        status, body = broker.get(f"/connection-quotas?{urlencode({'group': group})}")
        return status == 200 and json.loads(body)["members"] == members

    until(holds, f"{group} has {members} members")


def test_a_group_is_set_enforced_read_back_shown_and_deleted(broker: BrokerProcess) -> None:
    ingest = {GROUP: INGEST}
    members = ["127.0.2.1", "127.0.3.0/24", "::1"]
    assert (
        alter(
            broker,
            (ingest, {MAX: 2, "shared": 1}),
            *((ingest | {"ip": member}, {MEMBER: 1}) for member in members),
            ({GROUP: WATCHED}, {RATE: 1, "observe": 1}),
            ({GROUP: WATCHED, "ip": "127.0.0.0/8"}, {MEMBER: 1}),
        )
        == [None] * 6
    )
    in_force(broker, INGEST, 3)
    in_force(broker, WATCHED, 1)
    with ExitStack() as stack:
        assert [served(broker, stack, ip) for ip in ("127.0.2.1", "::1", "127.0.3.9")] == [True, True, False]
        assert all(served(broker, stack, "127.0.4.1") for _ in range(30))
        (holder,) = shown(broker, address="127.0.3.9")["holders"]
        assert (holder["group"], holder["member"], holder["connections"]) == (INGEST, "127.0.3.0/24", 2)
        (watcher,) = shown(broker, address="127.0.4.1")["observers"]
        assert (watcher["group"], watcher["mode"], watcher["held"]) == (WATCHED, "Observe", {})
        assert watcher["would_hold"]["dropped"] >= 10
        metrics = broker.metrics()
        assert metrics[f'sluicegate_connection_group_held_total{{group="{INGEST}",reason="too_many"}}'] == 1
        assert metrics[f'sluicegate_connection_group_connections{{group="{INGEST}"}}'] == 2
    until(lambda: shown(broker, group=INGEST)["connections"] == 0, "the connections have ended")
    assert described(broker, (GROUP, 0, INGEST)) == [
        (INGEST, {MAX: 2.0, "shared": 1.0}),
        *((f"{INGEST}+{member}", {MEMBER: 1.0}) for member in members),
    ]
    set_ip_rates(broker, {"127.0.9.9": 7.0})
    until(lambda: described(broker, ("ip", 2, None)) == [("127.0.9.9", {RATE: 7.0})], "an ip filter finds no member")
    assert alter(broker, (ingest, {MAX: None, "shared": None})) == [None]
    until(lambda: INGEST not in shown(broker)["groups"], "the group is gone")
    with ExitStack() as stack:
        assert all(served(broker, stack, "127.0.2.1") for _ in range(5))
    assert broker.get("/connection-quotas?address=shop")[0] == 400
    assert broker.get(f"/connection-quotas?group={INGEST}")[0] == 404


def test_invalid_and_excessive_groups_are_rejected_and_a_restart_keeps_stored_ones(broker: BrokerProcess) -> None:
    new = {GROUP: "g"}
    messages = alter(
        broker,
        (new, {MAX: 1}),
        (new | {"ip": "10.0.0.1/8"}, {MEMBER: 1}),
        (new | {"ip": "10.0.0.0/8"}, {MEMBER: 1}),
        (new | {"user": "u"}, {MAX: 1}),
        *((new | {"ip": f"10.0.0.{n}"}, {MEMBER: 2.0**40 + n}) for n in range(3)),
        (new | {"ip": "10.0.0.9"}, {MEMBER: 7.5}),
    )
    assert [message is None for message in messages] == [True, False, True, False, True, True, False, False]
    assert messages[1] == "10.0.0.1/8 has bits set beyond its prefix; the range that contains it is 10.0.0.0/8"
    assert messages[6] == (
        "There are already 3 members of one connection-group, "
        "the maximum that sluicegate.connection.group.members.max allows"
    )
    assert str(messages[7]).startswith("member must be a whole number of at least 1")
    broker.stop()
    broker.start()
    in_force(broker, "g", 3)
    numbers = [values[MEMBER] for _, values in described(broker, (GROUP, 0, "g"), ("ip", 2, None))]
    assert numbers == [2.0**40, 1, 2.0**40 + 1], "by address; who has it is kept"
    (holder,) = shown(broker, address="10.9.9.9")["holders"]
    assert (holder["group"], holder["max_connections"]) == ("g", 1)
