"""The last page of the demo: measured figures only. Pure, except for printing."""

from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from demo.audited import Audited
from demo.checks import Held
from demo.reported import Reported
from demo.takeover import Takeover, sentences
from demo.tried import Tried


@dataclass(frozen=True, slots=True)
class ClientPhase:
    """Produce latencies of the well-behaved client in one phase."""

    name: str
    messages: int
    p50_ms: float
    p99_ms: float
    worst_ms: float


@dataclass(frozen=True, slots=True)
class Enforced:
    """Time until limits were in force, in seconds.

    `by_up_s` is measured by `sluicegate up` from its read-back of the brokers, `seen_s` by the demo.
    """

    what: str
    by_up_s: float | None
    seen_s: float


@dataclass(slots=True)
class Summary:
    unlimited: tuple[int, int] = (0, 0)
    held: list[Held] = field(default_factory=list)
    client: list[ClientPhase] = field(default_factory=list)
    enforced: list[Enforced] = field(default_factory=list)
    messages: tuple[int, int] = (0, 0)
    pids: tuple[list[int], list[int]] = ([], [])
    takeover: Takeover | None = None
    audited: Audited | None = None
    reported: Reported | None = None
    adapted: tuple[int, float | None, int, int] | None = None
    """Maximum of the adaptive rate, the rate after its storm, and accepted connections and attempts of the storm."""
    tried: Tried | None = None


def print_summary(console: Console, summary: Summary, elapsed_s: float) -> None:
    console.rule(f"measured in {elapsed_s:.0f} s")
    console.print(_limits(summary))
    console.print(_client(summary))
    if summary.adapted is not None:
        most, rate, accepted, attempts = summary.adapted
        console.print(
            f"the adaptive limit, at most {most}/s, admitted {accepted} of {attempts} connections of the storm; "
            + ("its rate after the storm is not known" if rate is None else f"the broker had set it to {rate:g}/s"),
            highlight=False,
        )
    for change in summary.enforced:
        by_up = "not measured" if change.by_up_s is None else f"{change.by_up_s:.3f} s"
        console.print(
            f"{change.what}: {by_up} from the changed file until all brokers enforced it (observed from outside "
            f"after {change.seen_s:.3f} s)",
            highlight=False,
        )
    acknowledged, consumed = summary.messages
    console.print(f"{acknowledged} messages acknowledged, {consumed} consumed", highlight=False)
    before, after = (" ".join(map(str, pids)) for pids in summary.pids)
    console.print(f"broker processes before {before}, after {after}", highlight=False)
    if summary.takeover is not None:
        for sentence in sentences(summary.takeover):
            console.print(sentence, highlight=False, markup=False)
    if summary.audited is not None:
        counted = summary.audited.counted
        console.print(
            f"the audit log has {counted.produced} produced messages, {counted.connections} admitted connections "
            f"and {counted.limited} delayed ones; `sluicegate audit check` prints:",
            highlight=False,
        )
        console.print(summary.audited.check_output.strip(), highlight=False, markup=False)
    if summary.tried is not None:
        for sentence in summary.tried.sentences:
            console.print(sentence, highlight=False, markup=False)
    if summary.reported is not None:
        for answer in summary.reported.answers:
            console.print(answer, highlight=False, markup=False)
        # The path is on one unbroken line, so that terminals can open it.
        console.print(f"the report: {summary.reported.page}", highlight=False, markup=False, soft_wrap=True)


def _limits(summary: Summary) -> Table:
    table = Table(title="Connections admitted during each storm, on the broker that it hit", caption=BUCKET_NOTE)
    for heading in ("storm", "target"):
        table.add_column(heading)
    for heading in ("limit", "attempts", "accepted", "allowed", "from"):
        table.add_column(heading, justify="right")
    accepted, attempts = summary.unlimited
    table.add_row("without a limit", "all", "none", str(attempts), str(accepted), "-", "")
    for held in summary.held:
        mark = "green" if held.is_held else "red"
        table.add_row(
            held.phase,
            held.target,
            f"{held.limit:g}/s",
            str(held.attempts),
            f"[{mark}]{held.accepted}[/]",
            str(held.allowed.most),
            held.allowed.sentence,
        )
    return table


BUCKET_NOTE = (
    "The cluster has the strategy token-bucket: a target without recent connections admits those of one second at "
    "once, then its rate. A listener delays further clients; further connections of an address are closed."
)


def _client(summary: Summary) -> Table:
    table = Table(title="Produce latency of another client on the broker under the storm (200 messages/s, acks=all)")
    table.add_column("phase")
    for heading in ("messages", "p50 ms", "p99 ms", "worst ms"):
        table.add_column(heading, justify="right")
    for phase in summary.client:
        figures = (phase.p50_ms, phase.p99_ms, phase.worst_ms)
        table.add_row(phase.name, str(phase.messages), *(f"{figure:.2f}" for figure in figures))
    return table
