"""Processor time of the console of `sluicegate top`, in percent of a core: `python -m benchmarks.operator.top`.

The console runs in a process of its own under a pseudo-terminal of 120 x 40, over looks that were made before: 100
brokers, and 10,000 limits on addresses. From look to look 500 of them differ, because a source reads one page of 500:
250 have another figure, and the 250 of the look before have their former one again.
The console shows ten looks a second. The time includes rates, histories, sorting and drawing, and not the requests to
brokers. Not part of `make bench`.
"""

import argparse
import asyncio
import fcntl
import json
import os
import pty
import resource
import select
import statistics
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BROKERS, ADDRESSES, CHANGES = 100, 10_000, 40
ROUNDS, SECONDS, WARM_UP_S = 3, 8.0, 3.0
EVERY_S = 0.1
LOOKS = 40
"""Number of looks that are made before the measurement, and shown in turn."""
ROWS, COLUMNS = 40, 120
MOST_PERCENT = 15.0
TABLES = ("brokers", "limits", "storms")


@dataclass(frozen=True)
class Result:
    """The result of one round: percent of a core, looks shown a second, and bytes a second for the terminal."""

    percent: float
    looks_s: float
    bytes_s: float


def measure(table: str) -> Result:
    """Run the console with this table under a pseudo-terminal, and read what it draws."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.operator.top", "--console", table])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    drawn = bytearray()
    while _readable(terminal):
        try:
            drawn += os.read(terminal, 1 << 16)
        except OSError:
            break
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    report = drawn.rpartition(b"REPORT")[2].partition(b"\n")[0]
    if status or not report:
        raise RuntimeError(f"the console ended with {status}: {drawn[-2000:].decode(errors='replace')}")
    found = json.loads(report)
    return Result(found["percent"], found["looks_s"], len(drawn) / found["seconds"])


def _readable(terminal: int) -> bool:
    return bool(select.select([terminal], [], [], 120)[0])


def run_console(table: str) -> None:
    """Run the console in this terminal for some seconds, and print a report."""
    from sluicegate_operator.cli.top.console.app import TopConsole  # noqa: PLC0415 - only in the measured process
    from sluicegate_operator.cli.top.console.running import collect_rarely  # noqa: PLC0415
    from sluicegate_operator.cli.top.model.look import Look  # noqa: PLC0415
    from tests.support.fakes.synthetic_console import SyntheticSource  # noqa: PLC0415

    source = SyntheticSource(BROKERS, ADDRESSES, away=frozenset({7}), changes=CHANGES)
    made = [source.look_at(number) for number in range(LOOKS)]
    # As the command does. The prepared looks are no part of it either: a source has only one.
    collect_rarely()

    class Prepared(SyntheticSource):
        """The prepared looks in turn, each with the time at which it is shown."""

        async def look(self) -> Look:
            self.looks += 1
            one = made[self.looks % LOOKS]
            return Look(time.monotonic(), one.shown_at, one.clusters, one.figures, one.kafka)

    async def shown() -> dict[str, float]:
        prepared = Prepared()
        app = TopConsole(prepared, await prepared.look(), EVERY_S, table=table)
        running = asyncio.create_task(app.run_async())
        await asyncio.sleep(WARM_UP_S)
        began, looks, used = time.monotonic(), prepared.looks, _used_s()
        await asyncio.sleep(SECONDS)
        passed = time.monotonic() - began
        found = {
            "percent": (_used_s() - used) / passed * 100,
            "looks_s": (prepared.looks - looks) / passed,
            "seconds": passed + WARM_UP_S,
        }
        app.exit()
        await running
        return found

    print("REPORT" + json.dumps(asyncio.run(shown())), flush=True)


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def lines(results: Mapping[str, Sequence[Result]]) -> list[str]:
    """Return the results as a Markdown table."""
    found = [
        f"{BROKERS} brokers, {ADDRESSES} limits, {1 / EVERY_S:.0f} looks a second, terminal {COLUMNS}x{ROWS},"
        f" {ROUNDS} rounds of {SECONDS:.0f} s.",
        "",
        "| table | % of a core, median | range | looks/s | kB/s to the terminal |",
        "|---|---|---|---|---|",
    ]
    for table, rounds in results.items():
        shares = [one.percent for one in rounds]
        found.append(
            f"| {table} | {statistics.median(shares):.1f} | {min(shares):.1f} to {max(shares):.1f} |"
            f" {statistics.median(one.looks_s for one in rounds):.1f} |"
            f" {statistics.median(one.bytes_s for one in rounds) / 1000:.1f} |"
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.operator.top", description=__doc__)
    parser.add_argument("--console", metavar="TABLE", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table to this file")
    options = parser.parse_args()
    if options.console:
        run_console(options.console)
        return 0
    results = {table: [measure(table) for _ in range(options.rounds)] for table in TABLES}
    text = "\n".join(lines(results)) + "\n"
    print(text, end="")
    if options.write is not None:
        options.write.write_text(f"# `sluicegate top`\n\n{text}", encoding="utf-8")
    worst = max(statistics.median(one.percent for one in rounds) for rounds in results.values())
    return 0 if worst < MOST_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
