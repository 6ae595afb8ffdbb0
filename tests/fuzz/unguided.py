"""Runs one target with random changes of its inputs, where atheris is not installed.

    python -m tests.fuzz.unguided TARGET SECONDS FOLDER

FOLDER gets the input of a fault. Exits with 0 if there was no fault.
"""

import random
import sys
import time
import traceback
from hashlib import sha256
from itertools import chain
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.table import target as target_of
from tests.fuzz.target import inputs_of


def main(name: str, seconds: float, folder: Path) -> int:
    """Fuzz until the time is over or a fault is found. Return the exit code."""
    target = target_of(name)
    inputs = inputs_of(target)
    seed = random.randrange(2**32)
    executed, ends_s = 0, time.monotonic() + seconds
    with target.opened() as run:
        for data in chain(inputs, mutated(inputs, random.Random(seed), target.bytes_max)):
            if executed >= len(inputs) and time.monotonic() > ends_s:
                break
            try:
                run(data)
            except Exception:  # noqa: BLE001 - each exception is what this program looks for
                file = folder / f"fault-{sha256(data).hexdigest()[:16]}"
                file.write_bytes(data)
                print(traceback.format_exc(), f"the input is in {file}; the seed was {seed}", sep="\n")
                return 1
            executed += 1
    print(f"stat::number_of_executed_units: {executed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])))
