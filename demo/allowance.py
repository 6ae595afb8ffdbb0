"""How many connections a token bucket admits at most, so that measured numbers can be compared with a bound.

Pure. The quickstart's cluster has `connectionQuota.strategy: token-bucket`: a target saves up one second's worth, and
gains its rate with each second.
"""

import math
from dataclasses import dataclass

SAVED_S = 1.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """`most` connections; `sentence` says where the number comes from."""

    most: int
    sentence: str


def allowance(rate: float, seconds: float, *, acceptor_waits: bool) -> Allowance:
    """The most connections that a target admits in `seconds`.

    Over a listener's rate the acceptor waits with one connection, which is let in after its wait. Over an address's
    rate each connection is refused.
    """
    most = math.floor(rate * (SAVED_S + seconds))
    sentence = f"{rate:g}/s x {SAVED_S + seconds:g} s"
    return Allowance(most + 1, f"{sentence} + 1") if acceptor_waits else Allowance(most, sentence)
