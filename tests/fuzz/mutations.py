"""Changes inputs without a view of the code that reads them: for `make test`, and where atheris has no wheel."""

import random
from collections.abc import Iterator, Sequence

_ODD = (0, 1, 0x7F, 0x80, 0xFF)
_CHANGES_MAX = 4


def mutated(inputs: Sequence[bytes], rng: random.Random, bytes_max: int) -> Iterator[bytes]:
    """Yield changed inputs without end."""
    while True:
        data = bytearray(rng.choice(inputs) if inputs else b"")
        for _ in range(rng.randint(1, _CHANGES_MAX)):
            _change(data, inputs, rng)
        yield bytes(data[:bytes_max])


def _change(data: bytearray, inputs: Sequence[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0 if data:
            data[at % len(data)] = rng.choice((*_ODD, rng.randrange(256)))
        case 1 if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        case 2:
            del data[at : at + rng.randint(1, 16)]
        case 3:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        case 4 if inputs:
            other = rng.choice(inputs)
            begin = rng.randrange(len(other) + 1)
            data[at:] = other[begin:]
        case _:
            data[at:at] = data[at : at + rng.randint(1, 64)] * rng.randint(1, 3)
