"""Cost of connection groups for an accepted connection: `python -m benchmarks.connection_groups`.

The quotas alone are measured, without sockets: 10,000 addresses and 1,000 ranges in groups, compared with no groups,
and the memory of 100,000 members. A connection over loopback takes the whole broker about 100 microseconds, including
the quotas.
"""

import sys
import time
import tracemalloc
from collections.abc import Sequence

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

LISTENER = "EXTERNAL"
ADDRESSES, RANGES, MANY = 10_000, 1_000, 100_000
ROUNDS = 7


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def quotas_with(addresses: int, ranges: int, *, ip_rate: bool = False) -> ConnectionQuotas:
    quotas = ConnectionQuotas(QuotaSettings(), 0)
    quotas.add_listener(LISTENER, 0)
    groups = quotas.addresses.groups
    if ip_rate:
        quotas.addresses.update_rate(None, 1_000_000, 0)
    for number in range(addresses):
        name = f"shop/quota-{number // 100}"
        if not number % 100:
            groups.set_limits(name, AddressGroupLimits(1_000_000, 1_000_000, shared=number % 200 == 0), 0)
        groups.add_member(name, address(number), 0)
    for number in range(ranges):
        name = f"shop/range-{number}"
        groups.set_limits(name, AddressGroupLimits(rate=1_000_000), 0)
        # The ranges have sixteen different prefix lengths.
        bits = 9 + number % 16
        network = (172 << 24 | number << 12) >> (32 - bits) << (32 - bits)
        groups.add_member(name, f"{network >> 24}.{network >> 16 & 255}.{network >> 8 & 255}.0/{bits}", 0)
    while groups.recount(1_000):
        pass
    return quotas


def us_per_connection(quotas: ConnectionQuotas, clients: Sequence[str]) -> float:
    """Processor time to accept and end a connection, in microseconds: the fastest of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for ip in clients:
            if quotas.on_accepted(LISTENER, ip, 1).outcome is not AcceptOutcome.ADMIT:
                raise AssertionError(f"{ip} is refused")
            quotas.on_closed(LISTENER, ip, 1)
        best = min(best, time.process_time() - began)
    return best / len(clients) * 1e6


def rows() -> list[tuple[str, float]]:
    members = [address(number) for number in range(ADDRESSES)]
    strangers = [f"192.168.{number >> 8 & 255}.{number & 255}" for number in range(ADDRESSES)]
    in_ranges = [f"172.{number % 60}.{number >> 8 & 255}.{number & 255}" for number in range(ADDRESSES)]
    bare = quotas_with(0, 0)
    full = quotas_with(ADDRESSES, RANGES)
    return [
        ("no groups", us_per_connection(bare, members)),
        ("no groups, a rate for all addresses", us_per_connection(quotas_with(0, 0, ip_rate=True), members)),
        ("one group with one address, of a member", us_per_connection(quotas_with(1, 0), members[:1] * ADDRESSES)),
        ("10,000 addresses, of a member", us_per_connection(quotas_with(ADDRESSES, 0), members)),
        ("10,000 addresses and 1,000 ranges, of a member", us_per_connection(full, members)),
        ("10,000 addresses and 1,000 ranges, of one in a range", us_per_connection(full, in_ranges)),
        ("10,000 addresses and 1,000 ranges, of nobody in any", us_per_connection(full, strangers)),
    ]


def bytes_of(members: int) -> int:
    tracemalloc.start()
    quotas = quotas_with(members, 0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del quotas
    return size


def us_per_change() -> float:
    quotas = quotas_with(ADDRESSES, RANGES)
    for number in range(ADDRESSES):
        quotas.on_accepted(LISTENER, address(number), 1)
    began = time.process_time()
    for number in range(ADDRESSES):
        quotas.addresses.groups.remove_member(f"shop/quota-{number // 100}", address(number), 1)
        quotas.addresses.groups.add_member("shop/quota-0", address(number), 1)
    return (time.process_time() - began) / (2 * ADDRESSES) * 1e6


def main() -> int:
    measured = rows()
    base = measured[0][1]
    print("| connection let in and ended | us | beside none |\n|---|---|---|")
    for name, us in measured:
        print(f"| {name} | {us:.2f} | {us / base:.2f} |")
    print(f"\na member that comes or goes, with an open connection: {us_per_change():.1f} us")
    print(f"memory of {MANY:,} members: {bytes_of(MANY) / MANY:.0f} bytes each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
