"""Connections by cipher suite: counted from the handshake to the end."""

from broker_runtime.exposition import render
from broker_runtime.node.metrics import families
from broker_runtime.node.tls.tls_metrics import tls_samples
from broker_runtime.security.tls.cipher_counts import CipherCounts

SUITE, SUITE_OF_IANA = "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


def test_connections_are_counted_by_listener_suite_and_version_until_they_end() -> None:
    counts = CipherCounts()
    first = counts.begin("A", SUITE, "TLSv1.2")
    second = counts.begin("A", SUITE, "TLSv1.2")
    other = counts.begin("B", "TLS_AES_128_GCM_SHA256", "TLSv1.3")
    old, new = ("A", SUITE_OF_IANA, "TLSv1.2"), ("B", "TLS_AES_128_GCM_SHA256", "TLSv1.3")
    assert counts.open == {old: 2, new: 1}
    first()
    assert counts.open == {old: 1, new: 1}
    second()
    assert counts.open == {new: 1}
    counts.begin("A", SUITE, "TLSv1.2")
    other()
    assert counts.open == {old: 1}


def test_the_metric_has_the_labels_of_kafka() -> None:
    counts = CipherCounts()
    counts.begin("A", SUITE, "TLSv1.2")
    text = render(families(tls_samples({}, {}, counts.open))).decode()
    labels = f'listener="A",cipher="{SUITE_OF_IANA}",protocol="TLSv1.2"'
    assert f"\nkafka_server_socket_server_connections{{{labels}}} 1" in text
