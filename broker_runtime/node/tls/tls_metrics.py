"""Figures of the keys and certificates of listeners. Pure."""

from collections.abc import Iterator, Mapping

from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.security.tls.cipher_counts import Cipher


def tls_samples(
    reloads: Mapping[tuple[str, str], int], ends_s: Mapping[str, float], connections: Mapping[Cipher, int]
) -> Iterator[Sample]:
    """Yield the samples of TLS metrics.

    They are replacements of keys by listener and outcome, the end of each listener's certificate, and connections by
    cipher.
    """
    for (listener, cipher, protocol), count in sorted(connections.items()):
        yield Sample(
            "kafka_server_socket_server_connections",
            count,
            "gauge",
            "Open connections with TLS, by listener, cipher suite and version of TLS",
            {"listener": listener, "cipher": cipher, "protocol": protocol},
        )
    for (listener, outcome), count in sorted(reloads.items()):
        yield Sample(
            "sluicegate_tls_reloads_total",
            count,
            "counter",
            "Changes of keys and certificates of a listener with TLS: done, or failed while the old ones stay in force",
            {"listener": listener, "outcome": outcome},
        )
    for listener, end_s in sorted(ends_s.items()):
        yield Sample(
            "sluicegate_tls_certificate_end_seconds",
            end_s,
            "gauge",
            "Time at which the certificate of a listener with TLS ends, in seconds since 1970",
            {"listener": listener},
        )
