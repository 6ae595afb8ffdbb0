"""Delays with which a kubelet and cluster DNS report changes, as on a real node; shorter than tests can wait. Pure.

The same pods started in the same order have the same delays.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays in seconds.

    `address_s_max`: a kubelet checks its containers once a second. It reports address and state of a pod's first
    container up to so long after that container runs. `name_s_max`: additional delay until cluster DNS has the address.
    `denied_s`: how long cluster DNS continues to deny a name that was asked for too early (CoreDNS: 30). `file_s_max`:
    maximum age of the files of a mounted ConfigMap or Secret (a kubelet: more than a minute).
    """

    seed: int = 0
    address_s_max: float = 1.0
    name_s_max: float = 0.5
    denied_s: float = 2.0
    file_s_max: float = 3.0

    def of_pod(self, name: str, nth: int) -> "PodDelays":
        """Delays of a pod; `nth` is the number of earlier pods of that name."""
        chance = random.Random(f"{self.seed}/{name}/{nth}")
        return PodDelays(
            address_s=chance.uniform(0, self.address_s_max),
            name_s=chance.uniform(0, self.name_s_max),
            file_s=chance.uniform(0, self.file_s_max),
        )


@dataclass(frozen=True, slots=True)
class PodDelays:
    """Delays of one pod, in seconds."""

    address_s: float
    name_s: float
    file_s: float


PUNCTUAL = Delays(address_s_max=0, name_s_max=0, denied_s=0, file_s_max=0)
