"""A quota with scope Cluster, as a user of `sluicegate up` tries it: shares, commands, and a controller that stops."""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.support.processes.local_fleet import LocalUp, copy_quickstart, edit, run_command

BROKERS, RATE = 2, 60
LISTENER = "listener EXTERNAL"
WORDS = f"{LISTENER} 50/s -> {RATE}/s of all brokers together"
ADDRESS, GROUP = "127.0.1.7", "group default/shop-noisy-neighbour"
CHANGED = "after the change, without restarts"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[LocalUp]:
    with LocalUp(copy_quickstart(tmp_path, brokers=BROKERS), tmp_path / "data") as running:
        edit(
            running.manifests / "quotas.yaml",
            "maxConnectionCreationRate: 50",
            f"maxConnectionCreationRate: {RATE}\n  scope: Cluster",
        )
        running.wait_for_line(CHANGED)
        running.wait_until(lambda: states(running) == ["granted"] * BROKERS, "each broker has a share")
        yield running


def shares(up: LocalUp) -> list[Any]:
    """The field `cluster` of the listener's limit on each broker."""
    found = []
    for node in up.nodes("broker"):
        with urllib.request.urlopen(f"http://{node['http']}/connection-limits?held=true", timeout=15) as answer:
            found.append(json.load(answer)["listeners"]["EXTERNAL"]["cluster"])
    return found


def states(up: LocalUp) -> list[str]:
    return ["" if one is None else one["state"] for one in shares(up)]


@pytest.mark.full
def test_commands_show_the_share_of_each_broker_until_the_scope_is_removed(up: LocalUp) -> None:
    before = up.pids()
    assert WORDS in up.output()
    rows = [row for row in up.status()["quotas"] if row["target"] == LISTENER]
    assert [(row["max_rate"], row["share"]["state"]) for row in rows] == [(RATE, "granted")] * BROKERS
    assert sum(row["share"]["share"] for row in rows) <= RATE + 1e-6
    for command in (("quotas",), ("status",), ("why", "127.0.9.9")):
        shown = run_command(*command, "--data-dir", str(up.data_dir))
        assert shown.returncode == 0, shown.stderr
        assert f" of {RATE} (granted" in " ".join(shown.stdout.split()), command
    edit(up.manifests / "quotas.yaml", "  scope: Cluster", "  maxConnections: 900")
    up.wait_until(lambda: states(up) == [""] * BROKERS, "each broker has the whole rate")
    assert [row["max_rate"] for row in up.status()["quotas"] if row["target"] == LISTENER] == [RATE] * BROKERS
    assert up.pids() == before


def is_limited(up: LocalUp) -> bool:
    """Whether each broker limits the rate of the address by itself: by its quota or by a group."""
    found = []
    for node in up.nodes("broker"):
        with urllib.request.urlopen(f"http://{node['http']}/connection-quotas?address={ADDRESS}", timeout=15) as answer:
            holders = json.load(answer)["holders"]
        found.append(any(one["connection_creation_rate"] is not None for one in holders))
    return all(found)


@pytest.mark.full
def test_an_address_is_limited_at_each_moment_while_its_scope_changes(up: LocalUp) -> None:
    file, stop, seen = up.manifests / "noisy-neighbour.yaml", Event(), list[bool]()

    def watch() -> None:
        while not stop.is_set():
            seen.append(is_limited(up))

    def is_in(form: str) -> bool:
        return {row["target"] for row in up.status()["quotas"]} & {GROUP, f"ip {ADDRESS}"} == {form}

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        try:
            for old, new, form in (
                ("maxConnectionCreationRate: 5", "maxConnectionCreationRate: 5\n  scope: Cluster", GROUP),
                ("  scope: Cluster", "  maxConnections: 900", f"ip {ADDRESS}"),
            ):
                edit(file, old, new)
                up.wait_until(partial(is_in, form), f"brokers limit {form}")
        finally:
            stop.set()
        watching.result()
    assert len(seen) > 2
    assert all(seen)


@pytest.mark.full
def test_brokers_use_their_reserve_while_the_controller_does_not_answer(up: LocalUp) -> None:
    [controller] = [node["pid"] for node in up.nodes("controller")]
    os.kill(controller, signal.SIGSTOP)
    try:
        up.wait_until(lambda: states(up) == ["reserve"] * BROKERS, "each broker is on its reserve")
        assert sum(one["share"] for one in shares(up)) <= RATE + 1e-6
    finally:
        os.kill(controller, signal.SIGCONT)
    up.wait_until(lambda: states(up) == ["granted"] * BROKERS, "each broker has a share again")
