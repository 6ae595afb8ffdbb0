"""Client addresses have one spelling, and overrides are read as Kafka reads them."""

import pytest

from broker_runtime.config.declaring.addresses import (
    canonical_address,
    is_within,
    may_be_a_host_name,
    networks,
    peer_host,
    per_ip_overrides,
)
from broker_runtime.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("0:0:0:0:0:FFFF:7f00:1", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("localhost", None),
        ("1.2.3", None),
        ("", None),
    ],
)
def test_every_spelling_of_an_address_is_the_same_address(text: str, address: str | None) -> None:
    assert canonical_address(text) == address


def test_a_client_is_known_by_the_same_spelling() -> None:
    for seen in ("127.0.0.1", "::ffff:127.0.0.1", "::1", "fe80::1%eth0"):
        assert peer_host(seen) == canonical_address(seen)


def test_overrides_of_addresses_and_names() -> None:
    text = "[0:0:0:0:0:0:0:1]:2, ::ffff:10.0.0.1:3 ,Shop.example:4,fe80::1:+5,"
    assert per_ip_overrides(text) == {"::1": 2, "10.0.0.1": 3, "shop.example": 4, "fe80::1": 5}
    assert per_ip_overrides("") == per_ip_overrides(None) == {}


@pytest.mark.parametrize("text", ["h", ":5", "h:", "h:-1", "h:1_0", "h:2147483648", "a b:5", "-:x", "a..b:5"])
def test_overrides_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="must be host:count"):
        per_ip_overrides(text)


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, "a b", "é.example", ".".join(["x" * 60] * 5)])
def test_names_that_no_host_has(name: str) -> None:
    assert not may_be_a_host_name(name)


@pytest.mark.parametrize("name", ["web-0.web.ns.svc.cluster.local.", "a_b", "x"])
def test_names_that_a_host_may_have(name: str) -> None:
    assert may_be_a_host_name(name)


@pytest.mark.parametrize(
    ("network", "peer", "inside"),
    [
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "11.1.2.3", False),
        ("2001:db8::/32", "2001:db8::7", True),
        ("fe80::/64", "fe80::1%eth0", True),
        ("::/0", "10.1.2.3", False),
    ],
)
def test_a_peer_is_found_in_a_network_however_that_is_written(network: str, peer: str, inside: bool) -> None:
    assert is_within(peer_host(peer), networks([network])) is inside
