"""One spelling per client, as a limit on its address would miss another one."""

import pytest

from broker_runtime.config.declaring.addresses import peer_host


@pytest.mark.parametrize(
    ("host", "known_as"),
    [
        ("127.0.1.7", "127.0.1.7"),
        ("::ffff:127.0.1.7", "127.0.1.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_a_client_is_known_by_one_spelling(host: str, known_as: str) -> None:
    assert peer_host(host) == known_as
