"""Client quotas (KIP-546, KIP-612): which can be set for whom, which are refused, and which a filter finds."""

from collections.abc import Sequence

from tests.integration.differential.play import Play
from tests.integration.differential.settling import settle
from tests.support.processes.clients.wire_client import Plain

IP_RATE = "connection_creation_rate"
Entity = Sequence[tuple[str, str | None]]
EXACT, DEFAULT, ANY = 0, 1, 2


def entry(entity: Entity, *operations: tuple[str, float | None]) -> Plain:
    """Return an entry. A value of None removes the key."""
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
            for key, value in operations
        ],
    }


def alter(on: Play, step: str, *entries: Plain, validate_only: bool = False, version: int = 1) -> None:
    on.ask(step, "alter_client_quotas", version, entries=list(entries), validate_only=validate_only)


def describe(
    on: Play, step: str, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> None:
    filters = [{"entity_type": kind, "match_type": match, "match": value} for kind, match, value in components]
    settle(on)
    on.ask(step, "describe_client_quotas", version, components=filters, strict=strict)


IP = [("ip", "127.0.9.1")]
USER = [("user", "ann")]
CLIENT = [("client-id", "app")]

WRONG: dict[str, Plain] = {
    "no entity": entry([], (IP_RATE, 5)),
    "unknown type": entry([("host", "a")], (IP_RATE, 5)),
    "empty type": entry([("", "a")], (IP_RATE, 5)),
    "type in capitals": entry([("IP", "127.0.9.1")], (IP_RATE, 5)),
    "type twice": entry([("user", "a"), ("user", "b")], ("producer_byte_rate", 5)),
    "empty name of an ip": entry([("ip", "")], (IP_RATE, 5)),
    "empty name of a user": entry([("user", "")], ("producer_byte_rate", 5)),
    "ip and user": entry([("ip", "127.0.9.1"), ("user", "a")], (IP_RATE, 5)),
    "ip and client": entry([("ip", "127.0.9.1"), ("client-id", "a")], (IP_RATE, 5)),
    "user and client with an ip's key": entry([*USER, *CLIENT], (IP_RATE, 5)),
    "name that is no address": entry([("ip", "no such host!")], (IP_RATE, 5)),
    "address with a part too many": entry([("ip", "127.0.0.1.9")], (IP_RATE, 5)),
    "address with a number too large": entry([("ip", "127.0.0.999")], (IP_RATE, 5)),
    "address range": entry([("ip", "127.0.0.0/8")], (IP_RATE, 5)),
    "user's key for an ip": entry(IP, ("producer_byte_rate", 5)),
    "ip's key for a user": entry(USER, (IP_RATE, 5)),
    "unknown key": entry(IP, ("no_such_rate", 5)),
    "empty key": entry(IP, ("", 5)),
    "zero": entry(IP, (IP_RATE, 0)),
    "negative": entry(IP, (IP_RATE, -1)),
    "fraction": entry(IP, (IP_RATE, 1.5)),
    "nearly whole": entry(IP, (IP_RATE, 5.0000001)),
    "above 32 bits": entry(IP, (IP_RATE, 2**31)),
    "largest": entry(IP, (IP_RATE, 2**31 - 1)),
    "key twice": entry(IP, (IP_RATE, 5), (IP_RATE, 6)),
    "set and removed at once": entry(IP, (IP_RATE, 5), (IP_RATE, None)),
    "removed and set at once": entry(IP, (IP_RATE, None), (IP_RATE, 5)),
    "one good, one bad key": entry(IP, (IP_RATE, 5), ("no_such_rate", 5)),
    "unknown key removed": entry(IP, ("no_such_rate", None)),
    "no operations": entry(IP),
    "fraction of bytes": entry(USER, ("producer_byte_rate", 10.5)),
    "fraction of a share": entry(USER, ("request_percentage", 10.5)),
    "share of zero": entry(USER, ("request_percentage", 0)),
    "nearly nothing": entry(IP, (IP_RATE, 5e-324)),
    "nearly no bytes": entry(USER, ("producer_byte_rate", 1e-9)),
    "nearly no share": entry(USER, ("request_percentage", 5e-324)),
    "rate of changes": entry(USER, ("controller_mutation_rate", 2.5)),
    "bytes above 64 bits": entry(USER, ("producer_byte_rate", 1e30)),
}


def alterations(on: Play) -> None:
    """Each alteration alone, validated and in force. Quotas in force are described and removed again."""
    for step, one in WRONG.items():
        alter(on, f"validated: {step}", one, validate_only=True)
        alter(on, step, one)
        describe(on, f"found after {step}")
        _remove_all(on)
    for version in (0, 1):
        alter(on, f"an ip, version {version}", entry(IP, (IP_RATE, 50 + version)), version=version)
        describe(on, f"an ip, found in version {version}", ("ip", EXACT, "127.0.9.1"), version=version)
    alter(on, "removed", entry(IP, (IP_RATE, None)))
    alter(on, "removed again", entry(IP, (IP_RATE, None)))
    alter(on, "the default ip", entry([("ip", None)], (IP_RATE, 900)))
    alter(on, "the same again", entry([("ip", None)], (IP_RATE, 900)))
    alter(on, "good and bad entries", entry(IP, (IP_RATE, 7)), entry([("ip", "127.0.9.2")], (IP_RATE, -7)))
    alter(on, "an entry twice", entry(IP, (IP_RATE, 8)), entry(IP, (IP_RATE, 9)))
    alter(on, "no entries")
    describe(on, "after all")
    _remove_all(on)


def filters(on: Play) -> None:
    made = [
        entry([("ip", None)], (IP_RATE, 900)),
        entry(IP, (IP_RATE, 901)),
        entry([("ip", "127.0.9.2")], (IP_RATE, 902)),
        entry(USER, ("producer_byte_rate", 903), ("consumer_byte_rate", 904.5)),
        entry([("user", None)], ("request_percentage", 90.5)),
        entry(CLIENT, ("consumer_byte_rate", 905)),
        entry([*USER, *CLIENT], ("producer_byte_rate", 906)),
        entry([*USER, ("client-id", None)], ("producer_byte_rate", 907)),
        entry([("user", None), ("client-id", None)], ("controller_mutation_rate", 908)),
    ]
    alter(on, "made", *made)
    good: dict[str, Sequence[tuple[str, int, str | None]]] = {
        "everything": [],
        "an ip": [("ip", EXACT, "127.0.9.1")],
        "an ip without its own": [("ip", EXACT, "127.0.9.77")],
        "the default ip": [("ip", DEFAULT, None)],
        "any ip": [("ip", ANY, None)],
        "a user": [("user", EXACT, "ann")],
        "any user": [("user", ANY, None)],
        "the default user": [("user", DEFAULT, None)],
        "any client": [("client-id", ANY, None)],
        "user and client": [("user", EXACT, "ann"), ("client-id", EXACT, "app")],
        "user and any client": [("user", EXACT, "ann"), ("client-id", ANY, None)],
        "default user and default client": [("user", DEFAULT, None), ("client-id", DEFAULT, None)],
    }
    for step, components in good.items():
        for strict in (False, True):
            describe(on, f"{step}{', strict' if strict else ''}", *components, strict=strict)
    bad: dict[str, Sequence[tuple[str, int, str | None]]] = {
        "empty type": [("", ANY, None)],
        "unknown type": [("host", ANY, None)],
        "type twice": [("user", ANY, None), ("user", EXACT, "ann")],
        "exactly nothing": [("user", EXACT, None)],
        "default with a name": [("user", DEFAULT, "ann")],
        "any with a name": [("user", ANY, "ann")],
        "unknown match": [("user", 3, None)],
        "negative match": [("user", -1, "ann")],
        "ip and user": [("ip", ANY, None), ("user", ANY, None)],
        "user and ip": [("user", ANY, None), ("ip", ANY, None)],
        "exactly the empty name": [("user", EXACT, "")],
    }
    for step, components in bad.items():
        for version in (0, 1):
            describe(on, f"bad: {step}, version {version}", *components, version=version)
    _remove_all(on)
    describe(on, "nothing left")


def _remove_all(on: Play) -> None:
    settle(on)
    found = on.quietly("describe_client_quotas", 1, components=[], strict=False)["entries"]
    entries = [
        {
            "entity": one["entity"],
            "ops": [{"key": value["key"], "value": 0.0, "remove": True} for value in one["values"]],
        }
        for one in found
    ]
    if entries:
        on.quietly("alter_client_quotas", 1, entries=entries, validate_only=False)
