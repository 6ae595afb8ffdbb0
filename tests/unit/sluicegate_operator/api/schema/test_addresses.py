"""Addresses and ranges as the API server's isIP() and isCIDR() accept them."""

import pytest

from sluicegate_operator.api.schema.addresses import has_no_host_bits, is_cidr, is_ip


@pytest.mark.parametrize("text", ["203.0.113.7", "0.0.0.0", "::", "2001:DB8::1", "64:ff9b::192.0.2.7"])
def test_an_address(text: str) -> None:
    assert is_ip(text)
    assert is_cidr(f"{text}/32")


@pytest.mark.parametrize(
    "text", ["", "localhost", "203.0.113", "203.0.113.07", "256.0.0.1", "fe80::1%eth0", "::ffff:192.0.2.7", "1::2::3"]
)
def test_no_address(text: str) -> None:
    assert not is_ip(text)
    assert not is_cidr(f"{text}/8")


@pytest.mark.parametrize(
    "text", ["10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/08", "10.0.0.0/255.0.0.0"]
)
def test_no_range(text: str) -> None:
    assert not is_cidr(text)


@pytest.mark.parametrize(
    ("cidr", "expected"), [("10.1.0.0/16", True), ("10.1.2.3/16", False), ("2001:db8::/32", True), ("::1/64", False)]
)
def test_host_bits(cidr: str, *, expected: bool) -> None:
    assert has_no_host_bits(cidr) is expected
