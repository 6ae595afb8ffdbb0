"""Connection limits over real sockets, set and lifted over the wire: which clients are admitted, wait, or are closed.

Counts and times are compared within tolerances. Each sequence has separate listeners and addresses, so that no window
contains another's connections. A window is a second, and two of them count (quota.window.num=2).
"""

from tests.integration.differential.comparing import Near
from tests.integration.differential.play import PATIENCE_S, Play
from tests.integration.differential.scripts.client_quotas import IP_RATE, entry
from tests.integration.differential.scripts.crowd import Crowd
from tests.integration.differential.settling import BROKER, SET, resource, settle
from tests.support.processes.clients.wire_client import Plain

DELETE = 1
RATE, PER_IP, OVERRIDES, MAX = (
    "max.connection.creation.rate",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connections",
)
LISTENERS = ("UNLIMITED", "PACED", "SUDDEN", "SHARED", "SLOTS", "BUSY", "NOISY")
WINDOWS_S = 2.2
AT_ONCE_S = 0.4
BACKLOG = 45
"""Below the kernel's backlog of a waiting listener (socket.listen.backlog.size=50)."""
KAFKAS_THREADS = 3
"""Each of Kafka's network threads may close one connection too many before it sees the work of the others."""


def limit(on: Play, *changes: tuple[str, str | None]) -> None:
    """Set limits of the whole cluster; None removes one."""
    asked = [(key, DELETE if value is None else SET, value) for key, value in changes]
    answer = on.quietly("incremental_alter_configs", 1, resources=[resource(BROKER, "", *asked)], validate_only=False)
    assert answer["responses"][0]["error_code"] == "none", answer
    settle(on)


def ip_rate(on: Play, name: str | None, rate: int | None) -> None:
    changed = entry([("ip", name)], (IP_RATE, rate))
    answer = on.quietly("alter_client_quotas", 1, entries=[changed], validate_only=False)
    assert answer["entries"][0]["error_code"] == "none", answer
    settle(on)
    # The quotas may be applied after the configurations of the same step.
    settle(on)


def listener(name: str, key: str) -> str:
    return f"listener.name.{name.lower()}.{key}"


def crowd(on: Play, name: str, source: str) -> Crowd:
    return Crowd(on.address(name), source)


def forget(visitors: Crowd) -> None:
    """Wait without new connections until the windows are empty; admitted connections may stay."""
    before = len(visitors.staying)
    visitors.watch(WINDOWS_S)
    assert len(visitors.staying) == before, "somebody was sent away who had been let in"


def at_once(on: Play, step: str, name: str, source: str, count: int, within_s: float = 6.0) -> None:
    """Open `count` connections at once, and wait until each was answered or closed."""
    with crowd(on, name, source) as visitors:
        visitors.come(count)
        visitors.decide(within_s)
        on.note(step, _summary(visitors))


def _summary(visitors: Crowd) -> Plain:
    return {
        "answered": Near(len(visitors.answered), 2),
        "closed": Near(len(visitors.closed), 2),
        "answered at once": Near(visitors.answered_within(AT_ONCE_S), 6),
        "last answer after s": Near(visitors.last_answer_s(), 0.5),
        "waiting": len(visitors.visitors) - len(visitors.answered) - len(visitors.closed),
    }


def decide_both(one: Crowd, other: Crowd) -> None:
    while not (one.decided and other.decided):
        one.watch(0.01)
        other.watch(0.01)
        assert max(one.longest_wait_s(), other.longest_wait_s()) < PATIENCE_S, "somebody waits for ever"


def unlimited(on: Play) -> None:
    for number in range(3):
        at_once(on, f"crowd {number}", "UNLIMITED", "127.0.70.1", BACKLOG)


def listener_rate(on: Play) -> None:
    """Too many simultaneous connections wait, are all served in the end, and do not affect other listeners."""
    limit(on, (listener("SUDDEN", RATE), "20"))
    at_once(on, "limited", "SUDDEN", "127.0.71.1", BACKLOG)
    at_once(on, "another listener", "UNLIMITED", "127.0.71.1", BACKLOG)
    limit(on, (listener("SUDDEN", RATE), None))
    at_once(on, "lifted", "SUDDEN", "127.0.71.1", BACKLOG)


def paced(on: Play) -> None:
    """Below the rate no client waits; above it, connections are accepted at the rate."""
    limit(on, (listener("PACED", RATE), "20"))
    for step, each_s, count in (("below", 1 / 15, 30), ("above", 1 / 40, 60)):
        with crowd(on, "PACED", "127.0.72.1") as visitors:
            visitors.come(count, every_s=each_s)
            visitors.decide(6.0)
            on.note(step, _summary(visitors) | {"longest wait s": Near(visitors.longest_wait_s(), 0.5)})
            forget(visitors)
    limit(on, (listener("PACED", RATE), None))


def broker_rate(on: Play) -> None:
    """One bucket for all listeners but the brokers' own, which inherits the number as a separate limit."""
    with crowd(on, "SHARED", "127.0.73.2") as alone:
        alone.come(1)
        alone.decide(3.0)
        forget(alone)
    limit(on, (RATE, "20"))
    with crowd(on, "SHARED", "127.0.73.1") as one, crowd(on, "BUSY", "127.0.73.1") as other:
        one.come(15)
        other.come(15)
        decide_both(one, other)
        last = max(visitors.last_answer_s() for visitors in (one, other))
        first = sum(visitors.answered_within(AT_ONCE_S) for visitors in (one, other))
        on.note("two listeners", {"answered at once": Near(first, 6), "last answer after s": Near(last, 0.5)})
    at_once(on, "between brokers", "PLAINTEXT", "127.0.73.1", BACKLOG)
    limit(on, (RATE, None))
    at_once(on, "lifted", "SHARED", "127.0.73.1", BACKLOG)


def ip_rates(on: Play) -> None:
    """Connections of an address over its rate are held unread and closed.

    Other addresses, and refused connections, do not consume any rate.
    """
    ip_rate(on, "127.0.74.1", 10)
    at_once(on, "limited", "UNLIMITED", "127.0.74.1", 30)
    ip_rate(on, "127.0.74.6", 10)
    with crowd(on, "UNLIMITED", "127.0.74.6") as one, crowd(on, "BUSY", "127.0.74.6") as other:
        one.come(15)
        other.come(15)
        decide_both(one, other)
        on.note("on two listeners together", {"answered": Near(len(one.answered) + len(other.answered), 2)})
    ip_rate(on, "127.0.74.7", 10)
    at_once(on, "between brokers too", "PLAINTEXT", "127.0.74.7", 30)
    at_once(on, "another address", "UNLIMITED", "127.0.74.2", 30)
    _closed_late(on)
    ip_rate(on, None, 10)
    at_once(on, "by default", "UNLIMITED", "127.0.74.3", 30)
    ip_rate(on, "127.0.74.4", 25)
    at_once(on, "its own over the default", "UNLIMITED", "127.0.74.4", 40)
    ip_rate(on, None, None)
    at_once(on, "no default", "UNLIMITED", "127.0.74.5", 30)
    for address in ("127.0.74.4", "127.0.74.6", "127.0.74.7"):
        ip_rate(on, address, None)
    ip_rate(on, "127.0.74.1", None)
    at_once(on, "lifted", "UNLIMITED", "127.0.74.1", 30)


def _closed_late(on: Play) -> None:
    ip_rate(on, "127.0.74.9", 4)
    with crowd(on, "UNLIMITED", "127.0.74.9") as visitors:
        visitors.come(6)
        visitors.watch(0.1)
        early = len(visitors.closed)
        visitors.decide(4.0)
        refused = [v.closed_s - v.came_s for v in visitors.closed if v.closed_s is not None]
        waited = {"closed at once": early, "longest is closed after s": Near(max(refused, default=0.0), 0.7)}
        on.note("refused ones are closed later", _summary(visitors) | waited)
    ip_rate(on, "127.0.74.9", None)


def ip_rate_and_listener_rate(on: Play) -> None:
    """Connections that an address's own rate refuses do not count against the listener."""
    ip_rate(on, "127.0.75.1", 5)
    limit(on, (listener("NOISY", RATE), "20"))
    with crowd(on, "NOISY", "127.0.75.1") as noisy, crowd(on, "NOISY", "127.0.75.2") as quiet:
        noisy.come(40)
        noisy.watch(0.1)
        quiet.come(5)
        quiet.decide(4.0)
        noisy.decide(4.0)
        on.note("noisy", {"answered": Near(len(noisy.answered), 2), "closed": Near(len(noisy.closed), 2)})
        on.note("quiet", _summary(quiet))
    ip_rate(on, "127.0.75.1", None)
    limit(on, (listener("NOISY", RATE), None))


def ip_counts(on: Play) -> None:
    """An address over its count is closed at once, also after other connections have ended."""
    limit(on, (PER_IP, "8"), (OVERRIDES, "127.0.76.2:3,127.0.76.3:20"))
    for source in ("127.0.76.1", "127.0.76.2", "127.0.76.3"):
        with crowd(on, "SLOTS", source) as visitors, crowd(on, "BUSY", source) as elsewhere:
            visitors.come(12)
            visitors.decide(3.0)
            on.note(f"twelve from {source}", {"answered": len(visitors.staying), "closed": len(visitors.closed)})
            elsewhere.come(2)
            elsewhere.decide(3.0)
            on.note(f"elsewhere from {source}", {"answered": len(elsewhere.answered)})
            visitors.leave(2)
            visitors.watch(0.3)
            closed = len(visitors.closed)
            visitors.come(4)
            visitors.decide(3.0)
            on.note(f"four more from {source}", {"closed": len(visitors.closed) - closed})
    limit(on, (PER_IP, None), (OVERRIDES, None))
    at_once(on, "lifted", "SLOTS", "127.0.76.1", 30)


def slots(on: Play) -> None:
    """A listener without a free slot makes clients wait; connections that end free slots."""
    limit(on, (listener("SLOTS", MAX), "10"))
    with crowd(on, "SLOTS", "127.0.77.1") as visitors:
        visitors.come(20)
        visitors.watch(0.7)
        on.note("full", {"answered": len(visitors.answered), "closed": len(visitors.closed)})
        at_once(on, "another listener", "UNLIMITED", "127.0.77.1", 20)
        visitors.leave(4)
        visitors.watch(3.0, lambda: len(visitors.answered) == 14)
        visitors.watch(0.3)
        on.note("after four left", {"answered": len(visitors.answered)})
        limit(on, (listener("SLOTS", MAX), "12"))
        visitors.watch(3.0, lambda: len(visitors.answered) == 16)
        visitors.watch(0.3)
        on.note("with two slots more", {"answered": len(visitors.answered)})
        limit(on, (listener("SLOTS", MAX), None))
        visitors.decide(3.0)
        on.note("lifted", {"answered": len(visitors.staying), "closed": len(visitors.closed) - 4})


def evictions(on: Play) -> None:
    """Brokers' connections above the limit, and a lowered limit, close the longest unused other connections."""
    limit(on, (MAX, "15"))
    with crowd(on, "SLOTS", "127.0.78.1") as clients, crowd(on, "PLAINTEXT", "127.0.78.2") as brokers:
        clients.come(14)
        clients.decide(3.0)
        # One connection less if the suite left one that Kafka never answered (null records) and never closes.
        on.note("full", {"answered": Near(len(clients.answered), 1), "closed": len(clients.closed)})
        brokers.come(4)
        brokers.decide(3.0)
        clients.watch(3.0, lambda: len(clients.closed) >= 4)
        clients.watch(0.5)
        on.note(
            "brokers come", {"answered": len(brokers.staying), "evicted": Near(len(clients.closed), KAFKAS_THREADS)}
        )
        limit(on, (MAX, "10"))
        clients.watch(3.0, lambda: len(clients.closed) >= 9)
        clients.watch(0.5)
        brokers.watch(0.1)
        on.note(
            "lowered", {"evicted": Near(len(clients.closed), KAFKAS_THREADS), "of the brokers": len(brokers.closed)}
        )
    limit(on, (MAX, None))
    at_once(on, "lifted", "SLOTS", "127.0.78.1", 30)
