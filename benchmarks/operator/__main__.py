"""`python -m benchmarks.operator --clusters 100 --brokers 3 --quotas 10000 --topics 1000`: see benchmarks/README.md."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.brokers.rows import processors
from benchmarks.operator.report import summarized, table
from benchmarks.operator.world import Size, one_round
from e2e.cluster.binaries import binaries_folder
from e2e.cluster.process import end_on_sigterm

RESULTS = Path(__file__).parents[1] / "results"
PHASES = ("idle", "quiet", "busy", "sick", "roll", "wide", "flood")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    binaries_folder()
    end_on_sigterm()
    wide = 0 if "wide" not in options.phases else options.wide
    size = Size(
        clusters=options.clusters,
        brokers=options.brokers,
        quotas=options.quotas,
        topics=options.topics,
        changes=options.changes,
        others=min(options.others, options.quotas // 2),
        idle_s=options.idle_s,
        deadline_s=options.deadline_s,
        wide=wide,
        wide_quotas=options.wide_quotas if wide else 0,
        flood=options.flood if "flood" in options.phases else 0,
    )
    rounds = []
    requests: dict[str, Mapping[str, float]] = {}
    for _ in range(options.rounds):
        found, asked = asyncio.run(one_round(size, options.phases))
        for clusters in options.idle_at:
            part = clusters / size.clusters
            fewer = replace(
                size,
                clusters=clusters,
                quotas=round(size.quotas * part),
                topics=round(size.topics * part),
                wide=0,
                wide_quotas=0,
                flood=0,
            )
            others, asked_then = asyncio.run(one_round(fewer, ["idle"]))
            found |= {f"{clusters} clusters: {row}": value for row, value in others.items() if row.startswith("idle:")}
            requests[f"{clusters} clusters, idle, a minute"] = asked_then["idle, a minute"]
        rounds.append(found)
        requests |= {f"{size.clusters} clusters, {when}": counts for when, counts in asked.items()}
    figures = {
        "machine": processors(),
        "rounds": options.rounds,
        "size": asdict(size),
        "rows": summarized(rounds),
        "requests": requests,
    }
    text = table(figures)
    if options.write:
        (RESULTS / f"{options.write}.json").write_text(json.dumps(figures, indent=1) + "\n")
        (RESULTS / f"{options.write}.md").write_text(text)
    print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.operator", description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--quotas", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100, help="of quotas, that are timed in each phase")
    parser.add_argument("--others", type=int, default=2000, help="quotas that change beside them")
    parser.add_argument("--wide", type=int, default=100, metavar="BROKERS", help="brokers of the one wide cluster")
    parser.add_argument("--wide-quotas", type=int, default=1000)
    parser.add_argument("--flood", type=int, default=1000, help="quotas of one cluster that change at once")
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument(
        "--idle-at", type=int, nargs="*", default=[], metavar="CLUSTERS", help="measure idling here, too"
    )
    parser.add_argument("--deadline-s", type=float, default=900.0, help="for all to be Ready")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--phases", nargs="*", choices=PHASES, default=PHASES, help="after the start; default all")
    parser.add_argument("--write", metavar="NAME", help="results/NAME.json and .md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
