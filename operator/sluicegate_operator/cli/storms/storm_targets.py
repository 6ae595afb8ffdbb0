"""Which targets and sources a storm may use: parsing and the safety rule. Pure.

A storm is a denial of service, so only loopback targets are allowed unless the user states that the target is theirs.
"""

import ipaddress

from sluicegate_operator.cli.asking.addresses import AddressError, parse_address

MAX_SOURCES = 4096
OF_A_LISTENER = "listener/"


class StormInputError(ValueError):
    """Error for a target or source that a storm cannot use. The message says what to write instead."""


def parse_target(text: str) -> tuple[str, int]:
    try:
        return parse_address(text, "--to")
    except AddressError as error:
        raise StormInputError(str(error)) from None


def listener_in(text: str) -> str | None:
    """Return Kafka's name of the listener in `listener/NAME`; None for another target."""
    return text.removeprefix(OF_A_LISTENER) if text.startswith(OF_A_LISTENER) else None


def check_target_allowed(addresses: list[str], host: str, *, owned: bool) -> None:
    """Raise StormInputError unless the target is `owned` or all `addresses`, to which `host` resolved, are loopback."""
    outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if outside and not owned:
        raise StormInputError(
            f"--to {host}: {', '.join(outside)} is not a loopback address. A storm can take a broker away from its "
            "users; add --yes-i-own-this-target if the broker is yours"
        )


def parse_sources(text: str) -> tuple[str, ...]:
    """Parse `A-B,C`: every address from A to B, and C. An empty text leaves the source to the system."""
    sources: list[str] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        first_text, dash, last_text = part.partition("-")
        first, last = _address(first_text), _address(last_text if dash else first_text)
        if first.version != last.version or int(last) < int(first):
            raise StormInputError(f"--sources {part}: the range ends before it begins")
        if int(last) - int(first) >= MAX_SOURCES:
            raise StormInputError(f"--sources {part}: more than {MAX_SOURCES} addresses; give a smaller range")
        sources += [str(type(first)(number)) for number in range(int(first), int(last) + 1)]
    if len(sources) > MAX_SOURCES:
        raise StormInputError(f"--sources: more than {MAX_SOURCES} addresses; give fewer")
    return tuple(dict.fromkeys(sources))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        raise StormInputError(
            f"--sources {text.strip()!r}: write addresses, or ranges such as 127.0.1.1-127.0.1.8"
        ) from None
