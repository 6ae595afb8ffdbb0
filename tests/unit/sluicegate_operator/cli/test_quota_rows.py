import pytest

from sluicegate_operator.cli.quota_rows import BrokerQuotas, QuotaRow, parse_metrics, quota_keys, quota_rows

METRICS = """\
# TYPE kafka_server_socket_server_broker_connection_accept_rate gauge
kafka_server_socket_server_broker_connection_accept_rate 61.5
# TYPE kafka_server_socket_server_broker_connection_count gauge
kafka_server_socket_server_broker_connection_count 7.0
# TYPE kafka_server_socket_server_connection_accept_rate gauge
kafka_server_socket_server_connection_accept_rate{listener="EXTERNAL"} 50.9
# TYPE kafka_server_socket_server_connection_count gauge
kafka_server_socket_server_connection_count{listener="EXTERNAL"} 5.0
# TYPE kafka_network_acceptor_blocked_percent gauge
kafka_network_acceptor_blocked_percent{listener="EXTERNAL"} 0.62
# TYPE kafka_server_socket_server_ip_connection_accept_rate gauge
kafka_server_socket_server_ip_connection_accept_rate{ip="127.0.1.7"} 4.9
"""


def rows(configs: dict[str, str | None], ip_rates: dict[str | None, float]) -> dict[str, QuotaRow]:
    broker = BrokerQuotas(0, ("EXTERNAL",), configs, ip_rates, parse_metrics(METRICS))
    return {row.target: row for row in quota_rows(broker)}


def test_keys_are_asked_for_each_listener() -> None:
    assert quota_keys(("EXTERNAL",))[-2:] == (
        "listener.name.external.max.connection.creation.rate",
        "listener.name.external.max.connections",
    )


def test_limits_rates_and_blocked_share_of_each_target() -> None:
    found = rows(
        {
            "max.connection.creation.rate": "2147483647",
            "max.connections": "100",
            "listener.name.external.max.connection.creation.rate": "50",
            "listener.name.external.max.connections": "10",
        },
        {"127.0.1.7": 5.0, "127.0.1.9": 6.0, None: 20.0},
    )
    assert found["broker"] == QuotaRow(0, "broker", None, 100, 61.5, 7)
    assert found["listener EXTERNAL"] == QuotaRow(0, "listener EXTERNAL", 50, 10, 50.9, 5, 0.62)
    assert found["defaultIp"].max_rate == 20
    assert (found["ip 127.0.1.7"].max_rate, found["ip 127.0.1.7"].accept_rate) == (5, 4.9)
    assert found["ip 127.0.1.9"].accept_rate is None, "it has not come yet"


def test_a_listener_without_a_value_of_its_own_inherits_the_brokers() -> None:
    found = rows({"max.connection.creation.rate": "30", "max.connections": "2147483647"}, {})
    assert found["listener EXTERNAL"].max_rate == 30
    assert found["listener EXTERNAL"].max_connections is None


def test_text_that_is_no_metrics_is_an_error() -> None:
    with pytest.raises(ValueError):
        parse_metrics("<html>not found</html>")
