"""`python -m tests.simulation.cluster --seeds 1000`, and `--seed K --trace` to look at one."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.cluster.cluster import Result, simulate
from tests.simulation.cluster.faults.schedule import FAULTS
from tests.simulation.cluster.shape import (
    GROUPS,
    MIXED,
    PUSH,
    ROLLED,
    ROTTEN,
    SECURED,
    TRANSACTIONS,
    TRANSACTIONS_V2,
    shape_of,
)
from tests.simulation.cluster.trace import Trace

SHAPES = {
    "groups": GROUPS,
    "mixed": MIXED,
    "push": PUSH,
    "rolled": ROLLED,
    "rotten": ROTTEN,
    "secured": SECURED,
    "transactions": TRANSACTIONS,
    "transactions-v2": TRANSACTIONS_V2,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation.cluster", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--faults", default="", help=f"these kinds only, with commas between them: {', '.join(FAULTS)}")
    parser.add_argument("--shape", choices=SHAPES, help="clusters of this shape; else the seed chooses")
    parser.add_argument("--trace", action="store_true", help="show everything that happens")
    parser.add_argument("--checksums", action="store_true", help="show what tells two different runs of a seed apart")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.faults.split(",") if args.faults else []) - set(FAULTS))
    if unknown:
        parser.error(f"there are no faults called {', '.join(unknown)}; known: {', '.join(FAULTS)}")
    seeds = range(args.first, args.first + args.seeds) if args.seed is None else [args.seed]
    failed = []
    began_s = time.perf_counter()
    for seed in seeds:
        shape = SHAPES[args.shape] if args.shape else shape_of(seed)
        if args.faults:
            shape = replace(shape, faults=tuple(args.faults.split(",")))
        result = simulate(seed, shape, trace=Trace(verbose=args.trace))
        if result.problems:
            failed.append(seed)
            print(explained(result, 0 if args.trace else 40, args.faults, args.shape or ""))
        elif args.seed is not None or args.checksums:
            print(f"seed {seed}: {result.virtual_s - 1000:.1f} s, {dict(result.figures)}, {result.checksum}")
    print(f"{len(seeds)} seeds, {len(failed)} failed {failed} in {time.perf_counter() - began_s:.1f} s")
    return 1 if failed else 0


def explained(result: Result, lines: int, faults: str = "", shape: str = "") -> str:
    found = [f"seed {result.seed} failed:", *(f"  {problem}" for problem in result.problems[:10])]
    found += ["the end of what happened:", *result.trace.tail(lines)] if lines else []
    chosen = (f" --faults {faults}" if faults else "") + (f" --shape {shape}" if shape else "")
    found.append(f"again: python -m tests.simulation.cluster --seed {result.seed}{chosen} --trace")
    return "\n".join(found)


if __name__ == "__main__":
    sys.exit(main())
