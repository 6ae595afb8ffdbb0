"""The whole path of a limit: manifest, API server, operator, broker, socket, and back to the status."""

from confluent_kafka import Producer

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, CLUSTER, EXTERNAL_PORT, UNLIMITED, Shop, condition_of, quota_document
from sluicegate_operator.cli.storms.storm_report import AttemptOutcome

RATE = 50
ANSWERS_S = 2.0
"""How long a storm waits for answers after its last attempt."""


def most(rate: int, seconds: float) -> float:
    """Return the maximum of connections that a token bucket admits in that time.

    One second's worth is saved, and one connection waits.
    """
    return rate * (1 + seconds) + 1


def test_every_resource_of_the_quickstart_becomes_ready(shop: Shop) -> None:
    for kind, name in (("brokercluster", "shop"), ("brokerlistener", "shop-external"), ("topic", "orders")):
        shop.await_condition(kind, name, "Ready", "True")
    for name in ("shop-external-rate", "shop-noisy-neighbour"):
        shop.await_condition("connectionquota", name, "Ready", "True")
    table = shop.plane.kubectl("get", "connectionquotas")
    row = next(line for line in table.splitlines() if line.startswith("shop-external-rate"))
    assert row.split()[1:][:6] == [CLUSTER, "listener", "EXTERNAL", str(RATE), f"{BROKERS}/{BROKERS}", "True"]


def test_the_status_shows_the_limits_that_brokers_report(shop: Shop) -> None:
    assert shop.external_rates() == [RATE] * BROKERS
    assert [shop.ip_rates(pod) for pod in shop.broker_pods()] == [{"127.0.1.7": 5.0}] * BROKERS
    status = shop.quota("shop-external-rate")["status"]
    assert status["effective"] == {"maxConnectionCreationRate": RATE}
    assert status["enforcedAt"]


def test_an_ordinary_client_produces_through_the_listener(shop: Shop) -> None:
    brokers = ",".join(f"{pod.address}:{EXTERNAL_PORT}" for pod in shop.broker_pods())
    producer = Producer({"bootstrap.servers": brokers, "message.timeout.ms": 60000})
    acknowledged: list[int] = []
    for number in range(60):
        producer.produce(
            "orders",
            str(number),
            partition=number % 6,
            on_delivery=lambda error, message: acknowledged.append(error is None),
        )
    assert producer.flush(60) == 0
    assert acknowledged == [True] * 60


def test_a_storm_on_the_listener_is_held_to_its_limit(shop: Shop) -> None:
    seconds, offered = 7.0, 300
    report = shop.storm(shop.pod(1), rate=offered, seconds=seconds)
    accepted = report.total[AttemptOutcome.ACCEPTED]
    assert accepted <= most(RATE, report.elapsed_s + ANSWERS_S)
    assert accepted >= 0.8 * RATE * seconds, "the limit lets clients in evenly"
    assert report.total.attempts >= 2 * accepted, "a storm is more than what is let in"
    blocked = shop.metric(shop.pod(1), 'kafka_network_acceptor_blocked_percent{listener="EXTERNAL"}')
    assert blocked > 0


def test_an_address_is_held_to_its_own_limit_and_its_neighbour_is_not(shop: Shop) -> None:
    pod = shop.pod(2)
    noisy = shop.storm(pod, rate=40, seconds=4, source="127.0.1.7").total
    limit = most(5, 4 + ANSWERS_S)
    assert noisy[AttemptOutcome.ACCEPTED] <= limit
    # Connections of the last two seconds may still wait unread.
    assert noisy[AttemptOutcome.CLOSED] >= noisy.attempts - limit - 80
    quiet = shop.storm(pod, rate=50, seconds=2, source="127.0.1.8").total
    assert quiet[AttemptOutcome.ACCEPTED] > limit
    assert quiet[AttemptOutcome.ACCEPTED] >= 0.9 * quiet.attempts


def test_a_changed_limit_takes_effect_without_any_restart(shop: Shop) -> None:
    before = shop.fingerprint()
    pod = shop.pod(0)
    rate = in_force_within_a_second(shop)
    assert shop.external_rates() == [rate] * BROKERS
    held = shop.storm(pod, rate=100, seconds=2)
    limit = most(rate, held.elapsed_s + ANSWERS_S)
    assert held.total[AttemptOutcome.ACCEPTED] <= limit
    shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=1000))
    shop.await_enforced("shop-external-rate")
    free = shop.storm(pod, rate=100, seconds=2)
    assert free.total[AttemptOutcome.ACCEPTED] > limit
    assert free.total[AttemptOutcome.ACCEPTED] >= 0.9 * free.total.attempts
    assert shop.fingerprint() == before


def in_force_within_a_second(shop: Shop) -> int:
    """Check several changes, because a loaded machine may stall for a second; return the rate of the successful one."""
    took_s = []
    for rate in (7, 8, 9, 10):
        shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=rate))
        took_s.append(shop.await_enforced("shop-external-rate")["status"]["applySeconds"])
        if took_s[-1] < 1.0:
            return rate
    raise AssertionError(f"no change was in force within a second: {took_s}")


def test_a_deleted_quota_is_lifted(shop: Shop) -> None:
    shop.delete("connectionquota", "shop-external-rate", "shop-noisy-neighbour")
    shop.await_external_rate(UNLIMITED)
    wait_for("no address is limited", lambda: [shop.ip_rates(pod) for pod in shop.broker_pods()] == [{}] * BROKERS)


def test_connections_of_a_broker_and_of_any_address_are_limited_too(shop: Shop) -> None:
    shop.apply(
        quota_document("shop-all", {"broker": {}}, maxConnections=5000, maxConnectionCreationRate=2000),
        quota_document("shop-any-address", {"defaultIp": {}}, maxConnectionCreationRate=400, maxConnections=300),
    )
    try:
        shop.await_enforced("shop-all")
        shop.await_enforced("shop-any-address")
        for pod in shop.broker_pods():
            assert shop.broker_config(pod, "max.connections") == 5000
            assert shop.broker_config(pod, "max.connection.creation.rate") == 2000
            assert shop.broker_config(pod, "max.connections.per.ip") == 300
            assert shop.ip_rates(pod)[None] == 400
    finally:
        shop.delete("connectionquota", "shop-all", "shop-any-address")

    def lifted() -> bool:
        return [shop.broker_config(pod, "max.connections") for pod in shop.broker_pods()] == [UNLIMITED] * BROKERS

    wait_for("the limits of all connections are lifted", lifted)


def test_enforcement_is_told_by_an_event_and_a_metric(shop: Shop) -> None:
    shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=61))
    shop.await_enforced("shop-external-rate")

    def told() -> bool:
        events = shop.plane.get("events", "--field-selector=involvedObject.name=shop-external-rate")["items"]
        return any("3/3" in event["message"] for event in events)

    wait_for("an event that says 3/3", told)


def test_ready_is_a_condition_of_the_newest_generation(shop: Shop) -> None:
    quota = shop.quota("shop-external-rate")
    assert quota["status"]["observedGeneration"] == quota["metadata"]["generation"]
    ready = condition_of(quota, "Ready")
    assert ready["status"] == "True"
    assert ready["message"]
