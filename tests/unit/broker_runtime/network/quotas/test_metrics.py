"""Kafka's figures in Prometheus' form: names, labels, grouping, bounds."""

from itertools import groupby

from broker_runtime.network.quotas.metrics import (
    MAX_GROUP_SERIES,
    MAX_IP_SERIES,
    AcceptorMetrics,
    NetworkMetrics,
    Sample,
    collect,
)
from broker_runtime.network.quotas.refusals import RefusalLog
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

NOW = 1_000_000


ACCEPTOR = AcceptorMetrics(
    listener="EXTERNAL",
    delayed_count=3,
    accept_errors_total=1,
    abandoned_total=4,
    waiting_count=2,
    is_for_proxies=False,
    awaited_headers=0,
    header_outcomes={},
)


def samples(quotas: ConnectionQuotas, refusals: RefusalLog | None = None) -> list[Sample]:
    return list(collect(quotas, NetworkMetrics(), refusals or RefusalLog(1_000), [ACCEPTOR], NOW))


def value(found: list[Sample], name: str, **labels: str) -> float:
    (sample,) = [s for s in found if s.name == name and s.labels == labels]
    return sample.value


def quotas_with_traffic() -> ConnectionQuotas:
    quotas = ConnectionQuotas(QuotaSettings(inter_broker_listener="REPLICATION"), NOW)
    for name in ("EXTERNAL", "REPLICATION"):
        quotas.add_listener(name, NOW)
    quotas.addresses.update_rate("10.0.0.1", 5, NOW)
    for _ in range(60):
        quotas.on_accepted("EXTERNAL", "10.0.0.1", NOW)
    quotas.on_accepted("REPLICATION", "10.0.0.2", NOW)
    return quotas


def test_the_names_that_kafkas_users_know() -> None:
    found = samples(quotas_with_traffic())
    assert value(found, "kafka_server_socket_server_broker_connection_accept_rate") == 5
    assert value(found, "kafka_server_socket_server_connection_accept_rate", listener="REPLICATION") == 0.1
    assert value(found, "kafka_server_socket_server_ip_connection_accept_rate", ip="10.0.0.1") == 5
    assert value(found, "kafka_server_socket_server_ip_connection_accept_throttle_time_ms", listener="EXTERNAL") == 200
    assert value(found, "kafka_server_socket_server_connection_accept_throttle_time_ms", listener="EXTERNAL") == 0
    assert value(found, "kafka_network_acceptor_blocked_percent", listener="EXTERNAL") == 0
    assert value(found, "kafka_server_socket_server_connection_count", listener="EXTERNAL") == 50
    rejected = "kafka_server_socket_server_connections_rejected_total"
    assert value(found, rejected, listener="EXTERNAL", reason="delayed") == 10
    assert value(found, "kafka_server_socket_server_connections_delayed", listener="EXTERNAL") == 3
    assert value(found, "kafka_network_acceptor_accept_errors_total", listener="EXTERNAL") == 1
    assert value(found, "kafka_network_acceptor_abandoned_total", listener="EXTERNAL") == 4
    assert value(found, "kafka_network_acceptor_connections_waiting", listener="EXTERNAL") == 2


def test_refusals_are_counted_by_kind() -> None:
    refusals = RefusalLog(1_000)
    refusals.note("frame-too-large", "text", NOW)
    assert (
        value(
            samples(quotas_with_traffic(), refusals), "kafka_server_socket_server_refused_total", kind="frame-too-large"
        )
        == 1
    )


def test_samples_of_a_metric_come_together_agree_and_never_repeat_labels() -> None:
    found = samples(quotas_with_traffic())
    names = [name for name, _ in groupby(found, key=lambda sample: sample.name)]
    assert len(names) == len(set(names))
    for _, group in groupby(found, key=lambda sample: sample.name):
        members = list(group)
        assert len({(sample.kind, sample.help) for sample in members}) == 1
        assert len({tuple(sorted(sample.labels.items())) for sample in members}) == len(members)
    assert all(sample.name.endswith("_total") == (sample.kind == "counter") for sample in found)


def test_a_flood_of_addresses_does_not_flood_the_scrape() -> None:
    quotas = quotas_with_traffic()
    quotas.addresses.update_rate(None, 5, NOW)
    for number in range(500):
        quotas.on_accepted("EXTERNAL", f"10.1.{number // 250}.{number % 250}", NOW)
    shown = [s.labels["ip"] for s in samples(quotas) if s.name.endswith("ip_connection_accept_rate")]
    assert len(shown) == MAX_IP_SERIES
    assert shown[0] == "10.1.1.249"


def test_a_group_is_shown_by_name_and_there_may_be_more_than_are_shown() -> None:
    quotas = quotas_with_traffic()
    for n in range(MAX_GROUP_SERIES + 2):
        quotas.addresses.groups.set_limits(f"{n:05}", AddressGroupLimits(max_connections=1, observe=n == 1), NOW)
    for n in range(2):
        quotas.addresses.groups.add_member(f"{n:05}", f"10.0.1.{n}", NOW)
        for _ in range(3):
            quotas.on_accepted("EXTERNAL", f"10.0.1.{n}", NOW)
    found = samples(quotas)
    prefix = "sluicegate_connection_group"
    assert value(found, f"{prefix}_connections", group="00000") == 1
    assert value(found, f"{prefix}_connections", group="00001") == 3
    assert value(found, f"{prefix}_held_total", group="00000", reason="too_many") == 2
    assert value(found, f"{prefix}_would_hold_total", group="00001", reason="too_many") == 2
    assert value(found, f"{prefix}s_left_out") == 2
    assert len([s for s in found if s.name == f"{prefix}_connections"]) == MAX_GROUP_SERIES
    assert not [s for s in samples(quotas_with_traffic()) if s.name.startswith(prefix)]
