"""Random limits of a broker and random clients, for logs that a replay has to reproduce."""

from random import Random

from audit_pipeline.what_if.limits import LimitsToTry
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings, Strategy
from tests.support.audit.acceptors import AcceptorBench

CLIENTS, PROXIED, INTERNAL = "CLIENTS", "OTHERS", "INTERNAL"
LISTENERS = ((CLIENTS,), (CLIENTS, PROXIED), (CLIENTS, INTERNAL), (CLIENTS, PROXIED, INTERNAL))
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "192.0.2.7", "2001:db8::1", "2001:db8::2")
MEMBERS = ("10.0.0.0/24", "10.0.0.0/16", "10.0.0.1", "10.1.0.1", "2001:db8::/32", "0.0.0.0/0")


def limits_of(random: Random, listeners: tuple[str, ...]) -> LimitsToTry:
    """Return random limits, each kind in some of them."""

    def maybe(low: int, high: int, share: float = 0.3) -> int:
        return random.randint(low, high) if random.random() < share else UNLIMITED

    overrides = {random.choice(ADDRESSES): random.randint(0, 5)} if random.random() < 0.3 else {}
    rates: dict[str | None, int] = {}
    if random.random() < 0.3:
        rates[random.choice((None, *ADDRESSES))] = random.randint(0, 10)

    settings = QuotaSettings(
        max_connections=maybe(3, 30),
        max_connection_creation_rate=maybe(1, 40),
        max_connections_per_ip=maybe(1, 8),
        max_connections_per_ip_overrides=overrides,
        inter_broker_listener=INTERNAL if INTERNAL in listeners else "",
        quota_window_num=random.choice((2, 3, 11)),
        strategy=random.choice(tuple(Strategy)),
        ip_action=random.choice(tuple(IpAction)),
        count_abandoned=random.random() < 0.2,
    )
    own = {
        name.lower(): (random.choice((None, random.randint(2, 12))), random.choice((None, random.randint(1, 30))))
        for name in listeners
        if random.random() < 0.4
    }
    groups: dict[str, AddressGroupLimits] = {}
    members: dict[str, list[str]] = {}
    for number in range(random.choice((0, 0, 1, 3))):
        name = f"default/group-{number}"
        groups[name] = AddressGroupLimits(
            maybe(1, 10, 0.8), maybe(1, 6, 0.4), shared=random.random() < 0.5, observe=random.random() < 0.2
        )
        members[name] = random.sample(MEMBERS, random.randint(1, 3))
    return LimitsToTry(settings, own, rates, groups, members)


def random_clients(random: Random, bench: AcceptorBench, listeners: tuple[str, ...], span_s: float) -> float:
    """Plan clients over `span_s`, half of them in a burst, and perhaps a pause; return when the burst begins."""
    burst_s = random.random() * 4
    for _ in range(random.randint(20, 120)):
        at_s = burst_s + random.random() ** 3 * 0.3 if random.random() < 0.5 else random.random() * span_s
        patience_s = random.random() * 2 if random.random() < 0.4 else None
        stays_s = random.choice((None, 0.0, random.random(), random.random() * 10))
        bench.client(random.choice(listeners), random.choice(ADDRESSES), at_s, patience_s, stays_s)
    if random.random() < 0.2:
        bench.pause(random.choice(listeners), burst_s + random.random())
    return burst_s
