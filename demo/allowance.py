"""How many connections Kafka's arithmetic admits at most, so that measured numbers have something to be held against.

Pure. Kafka divides the sum of the living samples by at least `quota.window.num - 1` whole windows; a fresh target
therefore admits ten seconds' worth at once, by default (KIP-612 as shipped). A sample lives for `quota.window.num`
windows after its last event, so the divisor is less than `quota.window.num + 1` windows.
"""

import math
from dataclasses import dataclass

WINDOW_NUM = 11
WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """`most` connections; `sentence` says where the number comes from."""

    most: int
    sentence: str


def allowance(rate: float, seconds: float, *, acceptor_waits: bool) -> Allowance:
    """The most that any `seconds` can see. Over a listener's rate the acceptor waits, but never for more than a window:
    one connection a window is admitted then, however high the rate is. Over an address's rate every one is refused.
    """
    if seconds > (WINDOW_NUM - 1) * WINDOW_S:
        raise ValueError(f"the bound holds for up to {(WINDOW_NUM - 1) * WINDOW_S:g} s, not for {seconds:g} s")
    # No sample of so short a time has died when it is over, so all of it is in the sum.
    most = math.floor(rate * (WINDOW_NUM + 1) * WINDOW_S)
    sentence = f"{rate:g}/s x {(WINDOW_NUM + 1) * WINDOW_S:g} s"
    if acceptor_waits:
        forced = math.floor(seconds / WINDOW_S) + 1
        return Allowance(most + forced, f"{sentence} + {forced}")
    return Allowance(most, sentence)
