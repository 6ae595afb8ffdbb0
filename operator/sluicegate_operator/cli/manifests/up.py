"""`sluicegate up`: clusters from manifests as processes on this machine, until Ctrl-C."""

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.api import Manifests, ObserverPlugin, load_manifests
from sluicegate_operator.cli.extras import is_missing, require, sentence
from sluicegate_operator.cli.manifests.manifest_watch import POLL_INTERVAL_S, ManifestWatch, modified_at
from sluicegate_operator.cli.options import DATA_DIR, DataDirOption, FilesOption
from sluicegate_operator.fleet.local.local_data import DataDir, DataDirError
from sluicegate_operator.fleet.local.local_process import BackOff
from sluicegate_operator.local.refusals import broken_transitions, not_for_a_laptop
from sluicegate_operator.local.run import LocalRun
from sluicegate_operator.planning.observers.observers import AUDIT_LOG

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def up(
    files: FilesOption,
    data_dir: DataDirOption = DATA_DIR,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Apply the manifests again when they change.")] = False,
    restart_after: Annotated[
        float,
        typer.Option(min=0.01, max=30, help="Seconds before an ended process is restarted; doubles up to 30."),
    ] = 1.0,
) -> None:
    """Run the clusters of the manifests on this machine.

    The exit code is 1 when the manifests or the data folder cannot be used.
    """
    try:
        with DataDir(data_dir) as data:
            data.remove_state()
            code = asyncio.run(_serve(data, files, watch=watch, back_off=BackOff(first_s=restart_after)))
    except DataDirError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    raise typer.Exit(code)


def _no_lander(manifests: Manifests) -> list[str]:
    """Return a sentence for each audit log, if what lands it is not installed."""
    if not is_missing("landing"):
        return []
    return [
        f"ObserverPlugin {plugin.name}: {sentence('landing', 'an audit log')}, or set enabled to false"
        for plugin in manifests.of_kind(ObserverPlugin)
        if plugin.spec.built_in == AUDIT_LOG and plugin.spec.enabled
    ]


def say(line: str) -> None:
    print(line, flush=True)


async def _serve(data: DataDir, files: Sequence[Path], *, watch: bool, back_off: BackOff) -> int:
    watcher = ManifestWatch(files)
    manifests = load_manifests(files)
    refusals = [str(error) for error in manifests.errors] or [*not_for_a_laptop(manifests), *_no_lander(manifests)]
    for refusal in refusals:
        print(refusal, file=sys.stderr)
    if refusals:
        return 1
    if not manifests.clusters:
        print(f"no BrokerCluster in {', '.join(map(str, files))}", file=sys.stderr)
        return 1
    if any(cluster.spec.brokers is not None for cluster in manifests.clusters):
        require("broker", "sluicegate up")
    run = LocalRun(data, say, back_off)
    task = asyncio.create_task(_keep(run, manifests, files, watcher if watch else None), name="up")
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, _stop_once, task)
    try:
        await task
    except asyncio.CancelledError:
        say("stopping")
    finally:
        await run.aclose()
    say("every process has ended")
    return 0


def _stop_once(task: asyncio.Task[None]) -> None:
    """Stop at the first signal. Further signals change nothing: stopping has its own deadline."""
    if not task.cancelling():
        task.cancel()


async def _keep(run: LocalRun, manifests: Manifests, files: Sequence[Path], watcher: ManifestWatch | None) -> None:
    await run.apply(manifests)
    say("ready; Ctrl-C stops everything" + (", a changed manifest is applied at once" if watcher else ""))
    unchanged_s = time.time()
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        checked_s = time.time()
        changed = watcher.changed() if watcher else None
        if changed:
            ago_s = checked_s - modified_at(changed, checked_s, unchanged_s)
            manifests = await _apply_again(run, manifests, files, ago_s)
        if watcher is None or not watcher.is_changing:
            unchanged_s = checked_s
        run.check()


async def _apply_again(run: LocalRun, current: Manifests, files: Sequence[Path], changed_ago_s: float) -> Manifests:
    """Apply changed manifests. Returns them, or the current ones if they cannot be used."""
    manifests = load_manifests(files)
    sentences = [str(error) for error in manifests.errors] or [
        *not_for_a_laptop(manifests),
        *_no_lander(manifests),
        *broken_transitions(current, manifests),
    ]
    if sentences:
        for sentence in sentences:
            say(f"not applied: {sentence}")
        say("the last valid manifests stay in effect")
        return current
    await run.apply(manifests, changed_ago_s=changed_ago_s)
    return manifests
