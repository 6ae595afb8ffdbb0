"""PROXY protocol headers as load balancers send them, for tests."""

from ipaddress import ip_address

from broker_runtime.network.sockets.proxy_header import SIGNATURE

LOCAL_COMMAND, PROXY_COMMAND = 0x20, 0x21


def header(
    client: tuple[str, int] = ("203.0.113.7", 50_000),
    *,
    command: int = PROXY_COMMAND,
    family: int | None = None,
    more: bytes = b"",
) -> bytes:
    """A header of version 2; `more` are the TLVs."""
    address = ip_address(client[0])
    family = (0x11 if address.version == 4 else 0x21) if family is None else family
    ours = ip_address("127.0.0.1" if address.version == 4 else "::1").packed
    ports = client[1].to_bytes(2, "big") + (9094).to_bytes(2, "big")
    content = address.packed + ours + ports + more
    return SIGNATURE + bytes((command, family)) + len(content).to_bytes(2, "big") + content


def local_header() -> bytes:
    """The header of a balancer's health check: no address."""
    return SIGNATURE + bytes((LOCAL_COMMAND, 0, 0, 0))


def tlv(kind: int, value: bytes) -> bytes:
    return bytes((kind,)) + len(value).to_bytes(2, "big") + value
