"""The targets that limits can have, and the parts of their connections: names in tables. Pure; independent of Spark."""

from typing import Final

SHORT_S: Final = 60
"""A connection that ends within this time is short."""
PART_LEAST: Final = 5
"""Connections that an address brings to a storm at least, if it takes part: a short one may be anyone's."""
USUAL, STORM, BESIDE = "usual", "storm", "beside"
"""Parts of connections: of no storm; of an address that takes part in a storm; of another address during a storm."""
LISTENER, IP, CIDR = "listener", "ip", "cidr"
"""Kinds of targets, named like fields of ConnectionQuota.spec.target."""
PER_ADDRESS, SHARED = "PerAddress", "Shared"
"""Values of ConnectionQuota.spec.limitIs."""
EVERY: Final = {".": "0.0.0.0/0", ":": "::/0"}
"""The ranges of all addresses, by a character that each of their addresses has. There, each address has its limit."""
RESERVED: Final = ("CONTROLLER", "INTERNAL", "REPLICATION")
"""Listeners of brokers and of the operator, which no ConnectionQuota may limit."""
DAYS: Final = 7
"""Recommended limits are computed from this many days, up to the last one: most teams deploy within a week."""
