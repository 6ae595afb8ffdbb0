"""How late a kubelet and cluster DNS tell what is so, as on a real node; shorter where tests could not wait. Pure.

The same pods started in the same order are late by the same times.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds. `address_s_max`: a kubelet looks at its containers once a second, so it reports address and state of a
    pod's first container up to so much after that runs. `name_s_max`: how much later cluster DNS has the address.
    `denied_s`: how long cluster DNS goes on denying a name that was asked for too early (CoreDNS: 30). `file_s_max`:
    how old files of a mounted ConfigMap may be (a kubelet: more than a minute)."""

    seed: int = 0
    address_s_max: float = 1.0
    name_s_max: float = 0.5
    denied_s: float = 2.0
    file_s_max: float = 3.0

    def of_pod(self, name: str, nth: int) -> "PodDelays":
        """`nth`: how many pods of that name there were before."""
        chance = random.Random(f"{self.seed}/{name}/{nth}")
        return PodDelays(
            address_s=chance.uniform(0, self.address_s_max),
            name_s=chance.uniform(0, self.name_s_max),
            file_s=chance.uniform(0, self.file_s_max),
        )


@dataclass(frozen=True, slots=True)
class PodDelays:
    address_s: float
    name_s: float
    file_s: float


PUNCTUAL = Delays(address_s_max=0, name_s_max=0, denied_s=0, file_s_max=0)
