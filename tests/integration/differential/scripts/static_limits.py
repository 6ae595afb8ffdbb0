"""Limits in server.properties: their effect, their description, and changes over the wire."""

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.configs import describe
from tests.integration.differential.scripts.connections import (
    BACKLOG,
    MAX,
    PER_IP,
    RATE,
    at_once,
    crowd,
    limit,
    listener,
)
from tests.integration.differential.settling import BROKER

LISTENERS = ("INHERITS", "OWN", "ZERO", "FEW")
PROPERTIES = {
    "quota.window.num": "2",
    RATE: "30",
    listener("OWN", RATE): "10",
    listener("ZERO", RATE): "0",
    PER_IP: "25",
    listener("FEW", MAX): "5",
}
NODE = "1"


def described(on: Play) -> None:
    names = [RATE, PER_IP, MAX, *(listener(name, RATE) for name in LISTENERS), listener("FEW", MAX)]
    describe(on, "the file's limits", BROKER, NODE, names)


def held(on: Play) -> None:
    at_once(on, "a listener's own rate", "OWN", "127.0.80.1", 20)
    at_once(on, "a rate of zero lets one in for each window", "ZERO", "127.0.80.2", 3)
    at_once(on, "the address's count", "INHERITS", "127.0.80.3", BACKLOG)
    with crowd(on, "FEW", "127.0.80.4") as visitors:
        visitors.come(8)
        visitors.watch(1.5)
        on.note("a listener's own slots", {"answered": len(visitors.answered), "closed": len(visitors.closed)})


def changed(on: Play) -> None:
    """A value set over the wire overrides the file; without it the file's value is in force again."""
    limit(on, (RATE, "2000"), (PER_IP, "100"), (listener("OWN", RATE), "3000"))
    at_once(on, "raised", "INHERITS", "127.0.81.1", BACKLOG)
    at_once(on, "raised, a listener's own", "OWN", "127.0.81.1", BACKLOG)
    limit(on, (RATE, None), (PER_IP, None), (listener("OWN", RATE), None))
    at_once(on, "the file's again", "OWN", "127.0.81.2", 15)
    described(on)
