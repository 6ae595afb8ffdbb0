"""The rows of the table, in their order: their units, and what is wanted of them."""

from collections.abc import Mapping

from benchmarks.round_table import Wanted
from benchmarks.security.phases import CONNECTIONS, LARGE, LIMITED, ONE, SMALL, UNLIMITED, VERSIONS

NOT_SLOWER = 0.97


def _handshakes() -> Mapping[str, Wanted]:
    rows = {}
    for version in VERSIONS.values():
        rows[f"handshakes, {version}, full"] = Wanted("/s", True, 1.2, work="handshake")
        resumed = f"handshakes, {version}, resumed"
        rows |= {
            resumed: Wanted("/s", True, 1.2, work="handshake"),
            f"{resumed}: share that was resumed": Wanted("%", True),
        }
    return rows


BESIDE_KAFKA: Mapping[str, Wanted] = {
    f"TLS produce, {LARGE}": Wanted("MB/s", True, 1.0, work="MB"),
    f"TLS produce, {SMALL}": Wanted("MB/s", True, 1.0, work="MB"),
    f"TLS produce, {ONE}": Wanted("messages/s", True, 1.5, work="message"),
    f"TLS consume, {LARGE}": Wanted("MB/s", True, 1.0, work="MB"),
    f"TLS consume, {SMALL}": Wanted("MB/s", True, 1.0, work="MB"),
    **_handshakes(),
    "TLS produce p99 without a storm": Wanted("ms"),
    UNLIMITED: Wanted("ms", ratio=0.7),
    LIMITED: Wanted("ms", ratio=0.7),
    "p99 of a client alone": Wanted("ms"),
    "p99 of a client beside a greedy client": Wanted("ms"),
    "p99 of a client beside a greedy client with a quota": Wanted("ms"),
    "p99 beside a greedy client, times alone": Wanted("x"),
    "p99 beside a greedy client with a quota, times alone": Wanted("x", own=1.5),
    "resident memory, idle with a TLS listener": Wanted("MB", own=40.0),
    f"resident memory, {CONNECTIONS:,} idle TLS connections": Wanted("MB", own=150.0),
}
BESIDE_BEFORE: Mapping[str, Wanted] = {
    f"produce, {LARGE}": Wanted("MB/s", True, NOT_SLOWER, work="MB"),
    f"produce, {SMALL}": Wanted("MB/s", True, NOT_SLOWER, work="MB"),
    f"produce, {ONE}": Wanted("messages/s", True, NOT_SLOWER, work="message"),
    f"consume, {LARGE}": Wanted("MB/s", True, NOT_SLOWER, work="MB"),
    f"consume, {SMALL}": Wanted("MB/s", True, NOT_SLOWER, work="MB"),
    "connect, ApiVersions, close": Wanted("/s", True, NOT_SLOWER, work="connection"),
}
ALONE: Mapping[str, Wanted] = {
    "first check of a name with 10,000 ACLs": Wanted("us", own=2.0),
    "later check of it": Wanted("us"),
}
