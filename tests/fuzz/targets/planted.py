"""A target with a fault, which shows that a campaign finds faults."""

from tests.fuzz.target import Target

_FAULTY = b"\xf0Kq\x01"


def _planted(data: bytes) -> None:
    for at, byte in enumerate(_FAULTY):
        if len(data) <= at or data[at] != byte:
            return
    raise RuntimeError("the planted fault")


TARGETS = (Target("planted-fault", _planted, lambda: (b"ordinary",), 64),)
