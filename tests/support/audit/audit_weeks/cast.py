"""The clients, topics and APIs of a week."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, Any]
Rows = dict[str, Numbers]
"""Columns of one table as numbers. A name is its index in a list; -1 stands for no value."""

APIS: Final = {
    0: "Produce",
    1: "Fetch",
    3: "Metadata",
    8: "OffsetCommit",
    12: "Heartbeat",
    18: "ApiVersions",
    19: "CreateTopics",
}
PRODUCE, FETCH, API_VERSIONS, CREATE_TOPICS = 0, 1, 18, 19
ENDINGS: Final = ("answered", "refused", "hung up", "cancelled")

_SHARES: Final = {
    "producer": {0: 0.88, 3: 0.06, 18: 0.05, 19: 0.01},
    "consumer": {1: 0.80, 3: 0.05, 8: 0.08, 12: 0.05, 18: 0.02},
    "follower": {1: 1.0},
}
"""Shares of APIs in the requests of a client, by its role."""
_ROLES: Final = tuple(_SHARES)
_LIBRARIES: Final = (
    ("apache-kafka-java", "3.7.0"),
    ("apache-kafka-java", "2.8.1"),
    ("librdkafka", "2.3.0"),
    ("kafka-python", "2.0.2"),
    (None, None),
)
_ZIPF: Final = 1.1


class Client(NamedTuple):
    """The attributes that tell one client from another."""

    listener: str
    principal: str
    client_id: str | None
    client_ip: str
    software_name: str | None
    software_version: str | None
    role: str


class Topic(NamedTuple):
    """A topic. `use` is never, first day, always, or mirror: used by the mirror alone."""

    name: str
    partitions: int
    use: str


@dataclass(frozen=True, slots=True)
class Cast:
    """Clients and topics of one cluster.

    The first clients are those that injected events name: see FEED and the others.
    """

    clients: tuple[Client, ...]
    topics: tuple[Topic, ...]

    def columns(self, client: Numbers) -> dict[str, pa.Array]:
        """Columns that identify clients, for indexes in the list of clients."""
        names = ("listener", "client_ip", "principal", "client_id", "software_name", "software_version")
        place = pa.array(client)
        return {
            name: pa.array([getattr(each, name) for each in self.clients], pa.string()).take(place) for name in names
        }

    def topic_names(self, topic: Numbers) -> pa.Array:
        return pa.array([each.name for each in self.topics], pa.string()).take(pa.array(topic))

    def number(self, topic: str) -> int:
        return next(place for place, each in enumerate(self.topics) if each.name == topic)


FEED, MIRROR, STRANGER, STORMY, RETRYING = range(5)
"""Indexes of clients.

FEED produces to orders all the time, and MIRROR mirrors. STRANGER is a not yet identified client at
the storm's address, STORMY the same client once identified. RETRYING only retries meanwhile.
"""
_NAMED: Final = (
    Client("SASL", "User:orders-feed", "orders-feed", "10.0.0.5", "apache-kafka-java", "3.7.0", "named"),
    Client("SASL", "User:mirror", "mirror-maker", "10.0.0.6", "apache-kafka-java", "3.7.0", "named"),
    Client("PLAINTEXT", "User:ANONYMOUS", None, "10.66.6.6", None, None, "named"),
    Client("PLAINTEXT", "User:batch-77", "runaway", "10.66.6.6", "librdkafka", "2.3.0", "named"),
    Client("PLAINTEXT", "User:ANONYMOUS", None, "10.0.0.99", None, None, "named"),
)
MIRRORED: Final = ("orders", "payments")
"""Topics of one partition, led by broker 0, which no fault spoils."""


def make_cast(rng: np.random.Generator, principals: int, topics: int, brokers: int, prefix: str = "") -> Cast:
    clients = list(_NAMED)
    for number in range(principals):
        role = _ROLES[number % 2]
        for instance in range(int(rng.integers(1, 4))):
            name, version = _LIBRARIES[int(rng.integers(len(_LIBRARIES)))]
            client_id = None if number % 7 == 3 else f"{role}-{number:02d}-{instance}"
            address = f"10.{number // 200}.{number % 200}.{instance + 1}"
            listener = "SASL" if number % 3 else "PLAINTEXT"
            clients.append(Client(listener, f"User:app-{number:02d}", client_id, address, name, version, role))
    clients += [
        Client("BROKER", "User:broker", f"broker-{broker}-fetcher", f"10.255.0.{broker}", None, None, "follower")
        for broker in range(brokers)
    ]
    made = [Topic(prefix + name, 1, "mirror" if prefix else "always") for name in MIRRORED]
    made += [
        Topic(f"topic-{number:02d}", brokers * int(rng.integers(1, 3)), "always") for number in range(max(topics, 1))
    ]
    made += [
        Topic("seasonal", brokers, "first day"),
        Topic("legacy-import", brokers, "never"),
        Topic("checkout-dlq", brokers, "never"),
    ]
    return Cast(tuple(clients), tuple(made))


def draw_clients(rng: np.random.Generator, cast: Cast, broker: int, count: int) -> Numbers:
    """Draw clients of requests: few clients make most requests, and a broker does not replicate from itself."""
    weight = np.array(
        [
            0.0 if client.role == "named" or client.client_id == f"broker-{broker}-fetcher" else 1 / (place + 1) ** 0.7
            for place, client in enumerate(cast.clients)
        ]
    )
    return np.searchsorted(np.cumsum(weight / weight.sum())[:-1], rng.random(count), side="right")


def draw_apis(rng: np.random.Generator, cast: Cast, client: Numbers) -> Numbers:
    keys: Numbers = np.array(list(APIS))
    likely = np.cumsum([[_SHARES[role].get(int(key), 0.0) for key in keys] for role in _ROLES], axis=1)
    role = np.array([_ROLES.index(each.role) if each.role in _ROLES else 0 for each in cast.clients])[client]
    place = (rng.random(len(client))[:, None] >= likely[role][:, :-1]).sum(axis=1)
    api: Numbers = keys[place]
    return api


def draw_topics(rng: np.random.Generator, cast: Cast, broker: int, count: int, *, is_first_day: bool) -> Numbers:
    """Draw topics by Zipf's law from those in use of which the broker leads a partition."""
    weight = np.zeros(len(cast.topics))
    rank = 0
    for place, topic in enumerate(cast.topics):
        if topic.use == "always" or (topic.use == "first day" and is_first_day):
            rank += 1
            weight[place] = 0.0 if topic.partitions <= broker else 1 / rank**_ZIPF
    return np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(count), side="right")
