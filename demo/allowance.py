"""Maximum number of connections that a token bucket admits, as a bound for measured numbers. Pure.

The quickstart's cluster has `connectionQuota.strategy: token-bucket`: a target saves at most one second's worth, and
gains its rate with each second.
"""

import math
from dataclasses import dataclass

SAVED_S = 1.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """Maximum number of connections in a storm. `sentence` explains how the number was computed."""

    most: int
    sentence: str


def allowance(rate: float, seconds: float, *, acceptor_waits: bool) -> Allowance:
    """Return the maximum number of connections that a target admits in `seconds`.

    Over a listener's rate the acceptor delays one connection, which is accepted after its wait. Over an address's rate
    each connection is refused.
    """
    most = math.floor(rate * (SAVED_S + seconds))
    sentence = f"{rate:g}/s x {SAVED_S + seconds:g} s"
    return Allowance(most + 1, f"{sentence} + 1") if acceptor_waits else Allowance(most, sentence)
