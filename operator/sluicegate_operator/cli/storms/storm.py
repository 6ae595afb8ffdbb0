"""`sluicegate storm`: a load that users can test their own connection limits with.

It runs on this machine, or in pods of a Kubernetes cluster.
"""

import asyncio
import json
import resource
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sluicegate_operator.cli.asking.asking import REFUSED, bad_use, print_json, say
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.asking.kubernetes_asked import Place, place_asked
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    Output,
)
from sluicegate_operator.cli.storms.storm_in_pods import PodStorm, StormPodError, in_pods
from sluicegate_operator.cli.storms.storm_load import Storm, StormPlan
from sluicegate_operator.cli.storms.storm_report import AttemptOutcome, StormReport
from sluicegate_operator.cli.storms.storm_tables import pods_table, storm_summary, storm_table
from sluicegate_operator.cli.storms.storm_targets import (
    StormInputError,
    check_target_allowed,
    listener_in,
    parse_sources,
    parse_target,
)
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.layout.cluster_layout import Role

PODS_MAX = 20
OTHER_FILES = 64
"""Number of file descriptors that are reserved for other uses than the sockets of a storm."""


@dataclass(frozen=True, slots=True)
class StormOptions:
    """The options of `sluicegate storm`, as the user has written them."""

    to: str
    rate: float
    workers: int | None
    sources: str
    seconds: float
    timeout_s: float
    max_open: int
    owned: bool


def plan_storm(options: StormOptions) -> StormPlan:
    """Return the plan of the storm that the options describe. Raises StormInputError with what to write instead."""
    host, port = parse_target(options.to)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise StormInputError(f"--to {host}: the name cannot be resolved: {error.strerror}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    check_target_allowed(addresses, host, owned=options.owned)
    return StormPlan(
        address=addresses[0],
        port=port,
        seconds=options.seconds,
        rate=None if options.workers else options.rate,
        workers=options.workers,
        sources=parse_sources(options.sources),
        timeout_s=options.timeout_s,
        max_open=max(1, min(options.max_open, _descriptors_allowed() - OTHER_FILES)),
    )


def target_here(to: str, cluster: str | None, data_dir: Path) -> str:
    """Return HOST:PORT of a listener of `sluicegate up`, on the first running broker.

    Other targets are returned unchanged. Raises StormInputError.
    """
    listener = listener_in(to)
    if listener is None:
        return to
    try:
        clusters = read_state(data_dir)["clusters"]
    except DataDirError as error:
        raise StormInputError(f"--to {to}: {error}; or name a cluster in Kubernetes with -n NAMESPACE") from None
    for name in sorted(clusters) if cluster is None else [cluster]:
        for node in clusters.get(name, {"nodes": ()})["nodes"]:
            if node["role"] == Role.BROKER and node["pid"] is not None and listener in node["listeners"]:
                return str(node["listeners"][listener])
    raise StormInputError(f"--to {to}: no broker of `up` has this listener open; see `sluicegate status`")


def pod_storm(options: StormOptions, namespace: str, cluster: str | None, pods: int) -> PodStorm:
    """Return the storm that the options describe, for pods to run. Raises StormInputError."""
    if not options.owned:
        raise StormInputError(
            f"--to {options.to}: a storm can take a broker away from its users; add --yes-i-own-this-target if the"
            " brokers are yours"
        )
    if options.sources:
        raise StormInputError(
            "--sources is only for a storm from this machine, because each pod has its own address; see --pods"
        )
    listener = listener_in(options.to)
    if listener is None:
        parse_target(options.to)
    load = ["--rate", f"{options.rate:g}"] if options.workers is None else ["--workers", str(options.workers)]
    further = ["--seconds", f"{options.seconds:g}", "--timeout", f"{options.timeout_s:g}"]
    return PodStorm(
        namespace=namespace,
        cluster=cluster,
        listener=listener or "",
        to="" if listener else options.to,
        seconds=options.seconds,
        timeout_s=options.timeout_s,
        options=[*load, *further, "--max-open", str(options.max_open), "--output", "json", "--yes-i-own-this-target"],
        pods=pods,
    )


def show_pods(reports: Mapping[str, Mapping[str, Any]], output: Output) -> None:
    """Print the reports of pods that have run a test storm.

    Exit code 1 if no pod has a report, or if no attempt reached the target.
    """
    if output is Output.JSON:
        print_json({"pods": dict(reports)})
    elif reports:
        Console().print(pods_table(reports))
    lost = (AttemptOutcome.LOCAL_ERROR.value, AttemptOutcome.REFUSED.value)
    if all(report["attempts"] == sum(report[outcome] for outcome in lost) for report in reports.values()):
        say("no attempt reached the target; `sluicegate status -n NAMESPACE` shows whether its brokers are ready")
        raise typer.Exit(REFUSED)


def _descriptors_allowed() -> int:
    """Return the maximum number of descriptors, after raising the soft limit to the hard one, as any process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def storm(
    to: Annotated[
        str, typer.Option(help="Target: HOST:PORT, or listener/NAME of a cluster of `up` or, with -n, in Kubernetes.")
    ],
    rate: Annotated[
        float,
        typer.Option(min=0.1, max=1_000_000, help="Attempts per second, independent of the responses (open loop)."),
    ] = 100.0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Number of workers, instead of a rate; each tries again after a response."),
    ] = None,
    sources: Annotated[str, typer.Option(help="Source addresses, used in turn, such as 127.0.1.1-127.0.1.8.")] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration in seconds.")] = 10.0,
    timeout: Annotated[float, typer.Option(min=0.05, help="Seconds to wait for each response.")] = 2.0,
    max_open: Annotated[int, typer.Option(min=1, help="Maximum number of open sockets.")] = 4096,
    pods: Annotated[
        int, typer.Option(min=1, max=PODS_MAX, help="In Kubernetes: number of pods, each with the full rate.")
    ] = 1,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Run the storm from pods in this namespace of Kubernetes.")
    ] = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
    yes_i_own_this_target: Annotated[
        bool, typer.Option("--yes-i-own-this-target", help="Required for a target that is not a loopback address.")
    ] = False,
) -> None:
    """Open many connections to a listener.

    A storm can make a broker unavailable to its users. Therefore it goes to loopback addresses, or to a target that the
    user claims to own. With -n it comes out of pods, which are created for it and deleted afterwards.
    """
    options = StormOptions(to, rate, workers, sources, seconds, timeout, max_open, yes_i_own_this_target)
    place = place_asked(namespace, context, kubeconfig)
    try:
        if place is not None:
            reports = asyncio.run(_from_pods(place, pod_storm(options, place.namespace, cluster, pods)))
            show_pods(reports, output)
            return
        plan = plan_storm(replace(options, to=target_here(to, cluster, data_dir)))
    except (StormInputError, NobodyToAskError) as error:
        raise bad_use(str(error)) from None
    except (StormPodError, KubeError) as error:
        say(str(error))
        if isinstance(error, StormPodError) and error.reports:
            show_pods(error.reports, output)
        raise typer.Exit(REFUSED) from None
    _show(_run(plan, quiet=output is Output.JSON), output)


def _show(report: StormReport, output: Output) -> None:
    if output is Output.JSON:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        Console().print(storm_table(report))
        Console().print(storm_summary(report), highlight=False)
    total = report.total
    if total.attempts == total[AttemptOutcome.LOCAL_ERROR] + total[AttemptOutcome.REFUSED]:
        say(f"no attempt reached {report.target}; check that a broker listens there")
        raise typer.Exit(REFUSED)


async def _from_pods(place: Place, wanted: PodStorm) -> Mapping[str, Mapping[str, Any]]:
    with place.client() as kube:
        who = "a pod storms" if wanted.pods == 1 else f"{wanted.pods} pods storm"
        say(f"{who} in namespace {wanted.namespace} for {wanted.seconds:g} s; Ctrl-C ends it")
        return await in_pods(kube, wanted)


def _run(plan: StormPlan, *, quiet: bool) -> StormReport:
    load = Storm(plan)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        load.stop.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if quiet or not sys.stderr.isatty():
        return load.run()
    # An IPv6 address in brackets would be read as markup.
    target = escape(plan.target)
    runner = threading.Thread(target=load.run, name="storm")
    runner.start()
    with Console(stderr=True).status(f"storm on {target}") as line:
        while runner.is_alive():
            runner.join(0.2)
            total = load.report.total
            line.update(f"storm on {target}: {total.attempts} attempts, {total[AttemptOutcome.ACCEPTED]} accepted")
    return load.report
