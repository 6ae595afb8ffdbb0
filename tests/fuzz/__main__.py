"""The command of `make fuzz`: `python -m tests.fuzz --minutes 480 --target produced-batch`.

Without --target, all targets share the time. Inputs that reached new code stay in the folder, and the next run begins
with them. `--frames` also sends changed requests to real brokers (`tests.fuzz.sockets`).
"""

import argparse
import secrets
import sys
from pathlib import Path

from tests.fuzz.campaign import ROOT, campaign, is_guided
from tests.fuzz.sockets import storm
from tests.fuzz.table import NAMES


def main() -> int:
    """Fuzz, print what was done, and return 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="fuzz what networks and disks give")
    parser.add_argument("--minutes", type=float, default=480.0, help="for all targets together (default: a night)")
    parser.add_argument("--target", action="append", default=[], choices=[*NAMES], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--folder", type=Path, default=ROOT / ".fuzz", help="keeps found inputs between runs")
    parser.add_argument("--frames", type=int, default=0, help="changed requests to a real broker, before the targets")
    given = parser.parse_args()
    if given.frames:
        print(storm(given.frames, secrets.randbelow(2**32)).line(), flush=True)
    names = given.target or NAMES
    seconds = given.minutes * 60 * min(given.jobs, len(names)) / len(names)
    if not is_guided():
        print("atheris is not installed: inputs are changed at random")
    faults = 0
    for each in campaign(names, seconds, given.folder, given.jobs):
        print(each.line(), flush=True)
        if each.fault is not None:
            faults += 1
            print(each.fault)
    print(f"{len(names)} targets, {faults} with a fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
