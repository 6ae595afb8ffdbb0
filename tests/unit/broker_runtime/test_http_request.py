"""A controlled shutdown may be requested only from the same host."""

import pytest

from broker_runtime.http_listener import HttpRequest


@pytest.mark.parametrize(
    ("peer", "local", "same"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.1.7", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.4", "10.1.2.3", False),
        ("fe80::2", "fe80::1", False),
    ],
)
def test_the_same_host_is_loopback_or_the_address_that_was_asked(peer: str, local: str, same: bool) -> None:
    assert HttpRequest("POST", "/controlled-shutdown", peer, local).same_host is same
