"""The story: quiet, a storm without a limit, the limit arrives, the same storm, the limit changes, the same storm.

Then an adaptive limit takes its place, for which nobody chose a number. An audit log records all of it. The demo checks
the log at the end, replays it, and makes a report of it, which has to name the source of the storms. Then, with other
brokers, the consumers of a push group lose their coordinator.

Exit code 0 if every expectation was met, 1 if one was missed, which is then printed. The demo takes a little over two
minutes, leaves no process behind, and writes only the report outside a temporary folder.
"""

import asyncio
import contextlib
import json
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live

from demo.allowance import allowance
from demo.audited import COUNTED, Audited, Counted, expect_complete
from demo.checks import Expectations, Held, accepted_of
from demo.lost_coordinator import lose_coordinator
from demo.reported import LISTENER_KEY, Caused, expect_named, reported
from demo.stage import (
    EXAMPLES,
    LISTENER,
    QUICKSTART,
    DemoError,
    Stage,
    bootstrap_of,
    is_ready,
    open_stage,
    publish,
)
from demo.summary import ClientPhase, Enforced, Summary, print_summary
from demo.tried import expect_adapted, expect_tried, tried
from sluicegate_operator.cli.fleets.fleet_tables import quotas_table
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.storms.storm_load import CLIENT_ID
from sluicegate_operator.cli.storms.storm_report import percentile

FOLDERS = (QUICKSTART, EXAMPLES / "laptop")
AUDIT_LOG = EXAMPLES / "observers" / "audit-log.yaml"
ADAPTIVE = EXAMPLES / "quotas" / "adaptive.yaml"
ADAPTIVE_OBJECTIVE = "5ms"
ADAPTIVE_STORM = "storm with the adaptive limit"
REPORT = Path("reports") / "demo.html"
NEIGHBOUR, TOPIC = "127.0.1.7", "orders"
LISTENER_TARGET, NEIGHBOUR_TARGET = f"listener {LISTENER}", f"ip {NEIGHBOUR}"
BROKER_TARGET = "broker"
SOURCES = "127.0.1.1-127.0.1.8"
ADAPTIVE_KEY = "connection.quota.adaptive.p99.ms"
STORM_RATE = 8000
STORM_S = 7.0
DRAIN_S = 1.0
"""Wait after a storm, because connections accepted after its last attempt still count."""
QUIET_S = 5.0
LISTENER_FACTOR = 4
"""The change multiplies both limits by this factor, which is large enough to show in the storm."""
FORGET_TIMEOUT_S = 60.0
"""Longest wait for brokers to forget the rate of the first storm, which they measure over 11 s.

Clients of that storm that were still waiting when the limit came are accepted at the limit's rate.
"""
ENFORCE_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Story:
    console: Console
    stage: Stage
    expectations: Expectations = field(default_factory=Expectations)
    summary: Summary = field(default_factory=Summary)
    phases: list[tuple[str, float, float]] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        self.console.print(f"[bold]==[/] {sentence}", highlight=False)

    @contextlib.contextmanager
    def phase(self, name: str) -> Any:
        began_s = time.time()
        yield
        self.phases.append((name, began_s, time.time()))

    async def play(self) -> None:
        quotas = take_quotas_away(self.stage.manifests)
        shutil.copyfile(AUDIT_LOG, self.stage.manifests / AUDIT_LOG.name)
        self.say("three brokers from examples/quickstart with an audit log, without quotas for now")
        await self.stage.start_up()
        cluster = await self.stage.wait_until("three brokers ready", is_ready, 45)
        pids = broker_pids(cluster)
        bootstrap = bootstrap_of(cluster)
        target = next(node for node in cluster.nodes if node.role == "broker")
        self.say(f"brokers {', '.join(map(str, pids))} listen on {bootstrap}; a producer and a consumer start")
        result = self.stage.folder / "client.json"
        client = await self.stage.start_client(bootstrap, TOPIC, target.id, result)
        await asyncio.sleep(1.5)  # the quiet measurement excludes its connections and first requests
        with self.phase("before"):
            await asyncio.sleep(QUIET_S)

        self.say(
            f"a storm of {STORM_RATE} connections a second from {SOURCES} hits broker {target.id}, without a limit"
        )
        unlimited = await self.storm("storm without a limit", target.listeners[LISTENER])
        limits = {quota_target(quota): float(quota["spec"]["maxConnectionCreationRate"]) for _, quota in quotas}
        await self.limits_arrive(quotas, limits)
        await self.storm_is_over(target.id)

        self.say("the same storm")
        limited = await self.storm("storm with the limit", target.listeners[LISTENER])
        self.check_storm("with the limit", limited, limits)
        free = accepted_of(unlimited)[0]
        bound = allowance(limits[LISTENER_TARGET], STORM_S + DRAIN_S, acceptor_waits=True).most
        self.expectations.expect(
            free > bound,
            f"only {free} connections were accepted without a limit, but the limit already allows {bound}: this "
            "machine is too slow for the demo",
        )

        raised = {name: limit * LISTENER_FACTOR for name, limit in limits.items()}
        await self.limits_change(quotas, raised)
        self.say("the same storm")
        again = await self.storm("storm with the raised limit", target.listeners[LISTENER])
        self.check_storm("with the raised limit", again, raised)
        through = accepted_of(again)[0]
        self.expectations.expect(
            through > bound,
            f"{through} connections were accepted after the change, not more than the old limit allows ({bound}): "
            "the change did not take effect",
        )
        adapted = await self.adaptive_storm(target.id, target.listeners[LISTENER])
        after = await self.stage.wait_until("the brokers after the storms", is_ready, 10)
        self.expectations.expect(
            broker_pids(after) == pids, f"broker processes changed from {pids} to {broker_pids(after)}: a restart"
        )
        self.summary.pids = (pids, broker_pids(after))
        await self.stage.stop_process(client)
        self.read_client(result, unlimited)
        segments = await self.read_audit_log(cluster.name)
        storms = (unlimited, limited, again, adapted)
        sources = frozenset(source for storm in storms for source in storm["sources"])
        keys = [
            None,
            *((LISTENER_KEY.format(LISTENER.lower()), int(rates[LISTENER_TARGET])) for rates in (limits, raised)),
        ]
        accepted = [accepted_of(storm)[0] for storm in storms]
        caused = tuple(zip([*keys, adaptive_limit()], accepted, strict=True))
        quotas_tried = await self.try_limits(segments, quotas, sum(accepted))
        await self.report(segments, quotas_tried, Caused(LISTENER, CLIENT_ID, sources, caused))

    async def adaptive_storm(self, broker_id: int, address: str) -> dict[str, Any]:
        """Replace the limits by the adaptive one, cause the storm again, and return its report."""
        quota = adaptive_quota()
        low, high, p99 = adaptive_bounds(quota)
        self.say(
            f"instead of these limits an adaptive one: from {low} to {high} connections a second, so that 99 % of the "
            f"requests of connected clients wait at most {p99}"
        )
        manifests = self.stage.folder / "adaptive.yaml"
        manifests.write_text(yaml.safe_dump(quota))
        publish(manifests, self.stage.manifests / "quotas.yaml")
        await self.stage.wait_until("adaptive limit set", lambda cluster: adapts(cluster, low, high), ENFORCE_TIMEOUT_S)
        self.say("the same storm")
        report = await self.storm(ADAPTIVE_STORM, address)
        cluster = await self.stage.cluster()
        if cluster is not None:
            self.summary.adapted = (high, rate_now(cluster, broker_id), *accepted_of(report))
        return report

    async def try_limits(self, segments: str, quotas: list[tuple[Path, dict[str, Any]]], admitted: int) -> Path:
        """Try the limits of the examples on the storm without one, and replay the log; return the limits as JSON."""
        self.say(
            "what if: the log is replayed, first as it was, then with the limits of examples/ during the first storm"
        )
        manifests = self.stage.folder / "tried.yaml"
        manifests.write_text(yaml.safe_dump_all([quota for _, quota in quotas]))
        _, began_s, ended_s = next(phase for phase in self.phases if phase[0] == "storm without a limit")
        within = ("--from", utc(began_s), "--to", utc(ended_s + DRAIN_S))
        of_storm = await self.what_if("-f", str(manifests), "--audit", segments, *within, "-o", "json")
        in_force = await self.what_if("--in-force", "--audit", segments, "-o", "json")
        found = tried(json.loads(of_storm), json.loads(in_force))
        expect_tried(found, admitted, self.expectations)
        p99_ms = next((each.p99_ms for each in self.summary.client if each.name == ADAPTIVE_STORM), math.inf)
        expect_adapted(found, p99_ms, adaptive_limit()[1], self.expectations)
        self.summary.tried = found
        limits = self.stage.folder / "limits.json"
        limits.write_text(await self.what_if("-f", str(manifests), "--print-limits"))
        return limits

    async def what_if(self, *arguments: str) -> str:
        code, output = await self.stage.what_if(*arguments)
        if code not in (0, 4):
            raise DemoError(f"`sluicegate what-if {' '.join(arguments)}` ended with exit code {code}: {output}")
        return output

    async def storm(self, name: str, address: str) -> dict[str, Any]:
        with self.phase(name):
            async with self.live_table():
                return await self.stage.storm(address, STORM_RATE, SOURCES, STORM_S)

    @contextlib.asynccontextmanager
    async def live_table(self) -> AsyncIterator[None]:
        """Show the table of quotas during a storm: live on a terminal, elsewhere once after the storm."""
        done = asyncio.Event()

        async def show() -> None:
            with Live(console=self.console, auto_refresh=False, transient=True) as live:
                while not done.is_set():
                    cluster = await self.stage.cluster()
                    if cluster is not None:
                        live.update(quotas_table([cluster]), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(done.wait(), 0.5)

        showing = asyncio.create_task(show()) if self.console.is_terminal else None
        try:
            yield
        finally:
            done.set()
            if showing is not None:
                await showing
        cluster = await self.stage.cluster()
        if cluster is not None:
            self.console.print(quotas_table([cluster]))

    async def limits_arrive(self, quotas: list[tuple[Path, dict[str, Any]]], limits: dict[str, float]) -> None:
        shown = ", ".join(f"{name} {limit:g}/s" for name, limit in limits.items())
        self.say(f"adding the quotas of examples/ to the manifests: {shown}")
        await self.enforce("limits set", quotas, limits)

    async def limits_change(self, quotas: list[tuple[Path, dict[str, Any]]], limits: dict[str, float]) -> None:
        shown = ", ".join(f"{name} {limit:g}/s" for name, limit in limits.items())
        self.say(f"changing the manifests: {shown}")
        await self.enforce("limits changed", quotas, limits)

    async def enforce(self, what: str, quotas: list[tuple[Path, dict[str, Any]]], limits: dict[str, float]) -> None:
        """Write the quotas with these limits, and wait until every broker reports that they are in force."""
        documents = []
        for _, quota in quotas:
            limit = limits[quota_target(quota)]
            spec = quota["spec"] | {"maxConnectionCreationRate": int(limit)}
            documents.append(quota | {"spec": spec})
        draft = self.stage.folder / "quotas.yaml"
        draft.write_text(yaml.safe_dump_all(documents))
        changed_s = publish(draft, self.stage.manifests / "quotas.yaml")
        await self.stage.wait_until(what, lambda cluster: enforces(cluster, limits), ENFORCE_TIMEOUT_S)
        seen_s = time.time() - changed_s
        by_up_s = await self.stage.enforced_after_s(len(self.summary.enforced) + 1)
        self.summary.enforced.append(Enforced(what, by_up_s, seen_s))
        self.say(f"every broker enforces the limits {seen_s:.3f} s after the file changed")

    async def storm_is_over(self, broker_id: int) -> None:
        self.say(
            "waiting until the remaining clients of the first storm are accepted and its rate has decreased (11 s)"
        )
        await self.stage.wait_until(
            "a low connection rate after the first storm",
            lambda cluster: rate_of(cluster, broker_id, LISTENER_TARGET) < 1.0,
            FORGET_TIMEOUT_S,
        )

    def check_storm(self, phase: str, report: dict[str, Any], limits: dict[str, float]) -> None:
        for name, source, waits in ((LISTENER_TARGET, None, True), (NEIGHBOUR_TARGET, NEIGHBOUR, False)):
            accepted, attempts = accepted_of(report, source)
            allowed = allowance(limits[name], STORM_S + DRAIN_S, acceptor_waits=waits)
            held = Held(phase, name, limits[name], accepted, attempts, allowed)
            self.expectations.expect_held(held)
            self.summary.held.append(held)

    def read_client(self, result: Path, unlimited: dict[str, Any]) -> None:
        measured = json.loads(result.read_text())
        for name, began_s, ended_s in self.phases:
            latencies = sorted(ms for at_s, ms in measured["samples"] if began_s <= at_s < ended_s)
            if latencies:
                figures = (percentile(latencies, 50), percentile(latencies, 99), latencies[-1])
                self.summary.client.append(ClientPhase(name, len(latencies), *figures))
            self.expectations.expect(bool(latencies), f"{name}: no message of the client was acknowledged")
        self.summary.unlimited = accepted_of(unlimited)
        self.summary.messages = (measured["acknowledged"], measured["consumed"])
        self.expectations.expect(
            measured["missing"] == 0, f"{measured['missing']} acknowledged messages were not consumed"
        )
        self.expectations.expect(not measured["failures"], f"the client failed: {measured['failures'][:3]}")

    async def read_audit_log(self, cluster: str) -> str:
        """Stop the brokers, check and query their landed audit log, and return its folder."""
        self.say("the brokers stop, and the rest of their audit logs is landed")
        await self.stage.stop_up()
        folder = str(self.stage.folder / "data" / cluster / "audit")
        code, output = await self.stage.audit("check", folder)
        _, row = await self.stage.audit("query", COUNTED.format(topic=TOPIC), "--target", folder, "--json")
        audited = Audited(code, output, Counted(**json.loads(row)))
        expect_complete(audited, self.summary.messages[0], self.expectations)
        self.summary.audited = audited
        return folder

    async def report(self, segments: str, limits: Path, caused: Caused) -> None:
        self.say("Spark computes the usage of each client and the causes of the storms, and a report is written")
        results = str(self.stage.folder / "results")
        REPORT.parent.mkdir(exist_ok=True)
        for arguments in (
            ("build", "--source", segments, "--results", results, "--what-if", str(limits)),
            ("report", "--results", results, "--out", str(REPORT)),
        ):
            code, output = await self.stage.audit(*arguments)
            if code != 0:
                raise DemoError(f"`sluicegate audit {' '.join(arguments)}` ended with exit code {code}: {output}")
        found = reported(REPORT.resolve(), json.loads(REPORT.with_suffix(".json").read_text()))
        expect_named(found, caused, self.expectations)
        self.summary.reported = found


def take_quotas_away(manifests: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Copy the examples without their quotas to `manifests`, and return the quotas."""
    quotas = []
    for source in sorted(path for folder in FOLDERS for path in folder.glob("*.yaml")):
        documents = [document for document in yaml.safe_load_all(source.read_text()) if document]
        found = [document for document in documents if document["kind"] == "ConnectionQuota"]
        quotas += [(source, document) for document in found]
        if not found:
            shutil.copyfile(source, manifests / source.name)
        elif rest := [document for document in documents if document not in found]:
            (manifests / source.name).write_text(yaml.safe_dump_all(rest))
    return quotas


def quota_target(quota: dict[str, Any]) -> str:
    kind, name = next(iter(quota["spec"]["target"].items()))
    return f"{kind} {name}"


def broker_pids(cluster: ShownCluster) -> list[int]:
    return [node.pid or 0 for node in cluster.nodes if node.role == "broker"]


def enforces(cluster: ShownCluster, limits: dict[str, float]) -> bool:
    brokers = sum(node.role == "broker" for node in cluster.nodes)
    in_force = [(row.target, row.max_rate) for row in cluster.quotas]
    return all(in_force.count((name, limit)) == brokers for name, limit in limits.items())


def adaptive_quota() -> dict[str, Any]:
    """Return the adaptive quota of the examples with another objective and maximum.

    The objective is the least one that brokers allow, and the maximum admits the whole storm: a storm on a fast machine
    misses it, too.
    """
    quota: dict[str, Any] = yaml.safe_load(ADAPTIVE.read_text())
    quota["spec"]["adaptive"] |= {"maxRate": STORM_RATE, "objective": {"requestP99": ADAPTIVE_OBJECTIVE}}
    return quota


def adaptive_bounds(quota: dict[str, Any]) -> tuple[int, int, str]:
    """Return the minimum, the maximum and the objective of an adaptive quota."""
    adaptive = quota["spec"]["adaptive"]
    return adaptive["minRate"], adaptive["maxRate"], adaptive["objective"]["requestP99"]


def adaptive_limit() -> tuple[str, int]:
    """Return the key and the value by which the audit log names the adaptive limit."""
    return ADAPTIVE_KEY, int(ADAPTIVE_OBJECTIVE.removesuffix("ms"))


def adapts(cluster: ShownCluster, low: int, high: int) -> bool:
    """Whether the rate of every broker adapts within these bounds, and no other rate is in force.

    Listeners without a rate of their own have the broker's maximum.
    """
    brokers = sum(node.role == "broker" for node in cluster.nodes)
    others = [row for row in cluster.quotas if row.target in (LISTENER_TARGET, NEIGHBOUR_TARGET)]
    adapting = [row for row in cluster.quotas if (row.target, row.bounds) == (BROKER_TARGET, f"{low} to {high}")]
    return all(row.max_rate in (None, high) for row in others) and len(adapting) == brokers


def rate_now(cluster: ShownCluster, broker_id: int) -> float | None:
    return next(
        (row.max_rate for row in cluster.quotas if (row.broker_id, row.target) == (broker_id, BROKER_TARGET)), None
    )


def utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def rate_of(cluster: ShownCluster, broker_id: int, target: str) -> float:
    rates = [row.accept_rate for row in cluster.quotas if row.broker_id == broker_id and row.target == target]
    return rates[0] if rates and rates[0] is not None else float("inf")


async def main() -> int:
    began_s = time.monotonic()
    console = Console()
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: task.cancel() if task else None)
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder:
        try:
            async with open_stage(Path(folder) / "storms") as stage:
                story = Story(console, stage)
                await story.play()
            async with open_stage(Path(folder) / "parcels") as stage:
                story.summary.takeover = await lose_coordinator(stage, story.expectations, story.say)
        except DemoError as error:
            console.print(f"[red]the demo failed:[/] {error}", highlight=False)
            return 1
        except asyncio.CancelledError:
            console.print("stopped; every process has ended")
            return 130
    print_summary(console, story.summary, time.monotonic() - began_s)
    for sentence in story.expectations.missed:
        console.print(f"[red]missed:[/] {sentence}", highlight=False)
    if not story.expectations.missed:
        console.print(
            "[green]every limit was enforced, the change took effect without a restart, and consumers continued "
            "after the loss of their coordinator[/]"
        )
    return 1 if story.expectations.missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
