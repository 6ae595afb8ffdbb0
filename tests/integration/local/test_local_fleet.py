"""`sluicegate up` with real broker processes: its output for users, and its reaction to processes that die."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes.local_fleet import (
    COMMAND,
    ENVIRONMENT,
    LocalUp,
    copy_quickstart,
    edit,
    run_command,
    wait_until_dead,
)
from tests.support.processes.ports import free_port

LISTENER = "listener EXTERNAL"
CHANGED = "after the change, without restarts"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[LocalUp]:
    with LocalUp(copy_quickstart(tmp_path, brokers=2), tmp_path / "data") as running:
        yield running


def limits(up: LocalUp, target: str) -> list[float | None]:
    """Return the limits in force on each broker, as reported by the brokers."""
    return [row["max_rate"] for row in up.status()["quotas"] if row["target"] == target]


def test_quickstart_runs_and_status_tells_all_of_it(up: LocalUp) -> None:
    cluster = up.status()

    assert [(node["role"], node["id"], node["problem"]) for node in cluster["nodes"]] == [
        ("broker", 0, None),
        ("broker", 1, None),
        ("controller", 1000, None),
    ]
    assert {(resource["kind"], resource["name"]): resource["ready"] for resource in cluster["resources"]} == {
        ("BrokerCluster", "shop"): True,
        ("BrokerListener", "shop-external"): True,
        ("ConnectionQuota", "shop-external-rate"): True,
        ("ConnectionQuota", "shop-noisy-neighbour"): True,
        ("Topic", "orders"): True,
    }
    assert limits(up, LISTENER) == [50, 50]
    assert limits(up, "ip 127.0.1.7") == [5, 5]
    table = run_command("status", "--data-dir", str(up.data_dir))
    assert table.returncode == 0
    assert up.external() in table.stdout
    assert LISTENER in run_command("quotas", "--data-dir", str(up.data_dir)).stdout


def test_a_changed_limit_is_enforced_on_every_broker_by_the_same_processes(up: LocalUp) -> None:
    before = up.pids()

    edit(up.manifests / "quotas.yaml", "maxConnectionCreationRate: 50", "maxConnectionCreationRate: 77")
    up.wait_for_line(CHANGED)

    assert "listener EXTERNAL 50/s -> 77/s" in up.output()
    assert limits(up, LISTENER) == [77, 77]
    assert up.pids() == before
    change = up.state()["last_change"]
    assert change["limits"] == ["listener EXTERNAL 50/s -> 77/s"]
    assert "enforced on 2/2 brokers" in up.output()
    assert 0 < change["enforced_after_s"] < 20


@pytest.mark.full
def test_a_deleted_quota_lifts_the_limit(up: LocalUp) -> None:
    (up.manifests / "quotas.yaml").unlink()
    up.wait_for_line(CHANGED)

    assert limits(up, LISTENER) == [None, None]
    assert limits(up, "ip 127.0.1.7") == [5, 5]


def test_an_invalid_edit_keeps_the_last_good_state(up: LocalUp) -> None:
    edit(up.manifests / "quotas.yaml", "maxConnectionCreationRate: 50", "maxConnectionCreationRate: -1")
    up.wait_for_line("the last valid manifests stay in effect")

    assert "quotas.yaml, document 1: spec.maxConnectionCreationRate: must be at least 1" in up.output()
    assert limits(up, LISTENER) == [50, 50]

    edit(up.manifests / "quotas.yaml", "maxConnectionCreationRate: -1", "maxConnectionCreationRate: 60")
    up.wait_for_line(CHANGED)
    assert limits(up, LISTENER) == [60, 60]


@pytest.mark.full
def test_a_topic_stays_while_its_file_is_empty_and_is_written_again(up: LocalUp) -> None:
    file = up.manifests / "topic.yaml"
    text = file.read_text().replace("partitions: 6", "partitions: 6\n  deletionPolicy: Delete")
    (up.manifests / "returns.yaml").write_text(text.replace("name: orders", "name: returns"))
    up.wait_for_line("Topic returns: topic returns is created with 6 partitions")

    # As a shell does for `kustomize build > returns.yaml`, which writes at its end.
    (up.manifests / "returns.yaml").write_text("")
    up.wait_for_line("returns.yaml: is empty; write its manifests into it again")
    (up.manifests / "returns.yaml").write_text(text.replace("name: orders", "name: returns").replace(": 6", ": 8"))
    up.wait_for_line("Topic returns: topic returns has 8 partitions")

    assert "were deleted" not in up.output()


@pytest.mark.full
def test_what_the_api_server_would_refuse_to_change_is_not_changed(up: LocalUp) -> None:
    edit(up.manifests / "topic.yaml", "partitions: 6", "partitions: 2")
    up.wait_for_line("the last valid manifests stay in effect")

    assert "Topic orders: spec.partitions: partitions cannot be reduced" in up.output()


@pytest.mark.full
def test_a_grown_topic_and_a_new_one_are_applied(up: LocalUp) -> None:
    topic = (up.manifests / "topic.yaml").read_text().replace("name: orders", "name: returns")
    (up.manifests / "returns.yaml").write_text(topic)
    edit(up.manifests / "topic.yaml", "partitions: 6", "partitions: 8")

    def both_ready() -> bool:
        ready = {resource["name"]: resource["ready"] for resource in up.state()["clusters"]["shop"]["resources"]}
        return bool(ready.get("returns")) and bool(ready["orders"])

    up.wait_until(both_ready, "both topics ready")


@pytest.mark.full
def test_a_killed_broker_is_started_again_and_limits_hold_there(up: LocalUp) -> None:
    victim = up.nodes("broker")[1]["pid"]

    os.kill(victim, signal.SIGKILL)
    up.wait_for_line("broker 1 of shop was ended by SIGKILL; it is restarted in 1 s")
    up.wait_until(lambda: up.status()["nodes"][1]["problem"] is None, "broker 1 ready again")

    node = up.nodes("broker")[1]
    assert node["pid"] != victim
    assert node["restarts"] == 1
    assert limits(up, LISTENER) == [50, 50]


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_no_process_and_says_so(up: LocalUp, number: signal.Signals) -> None:
    pids = up.pids()

    assert up.stop(number) == 0

    wait_until_dead(pids, timeout_s=10.0)
    assert up.output().endswith("every process has ended\n")
    nothing = run_command("status", "--data-dir", str(up.data_dir))
    assert nothing.returncode == 1
    assert "no `sluicegate up` runs in" in nothing.stderr


def test_children_end_when_their_parent_is_killed(up: LocalUp) -> None:
    pids = up.pids()
    up.kill()
    wait_until_dead(pids)


@pytest.mark.full
def test_a_second_up_on_the_same_folder_is_refused(up: LocalUp) -> None:
    second = run_command("up", "-f", str(up.manifests), "--data-dir", str(up.data_dir))

    assert second.returncode == 1
    assert f"is in use by another `sluicegate up` (pid {up.pid})" in second.stderr
    assert up.status()["nodes"][0]["problem"] is None, "the first one goes on"


@pytest.mark.full
def test_addresses_topics_and_limits_survive_a_restart(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=1)
    with LocalUp(manifests, tmp_path / "data") as first:
        addresses = [node["listeners"] for node in first.nodes()]
        assert first.external() == f"127.0.0.1:{_port(manifests)}", "the listener's own port, where it is free"
    with LocalUp(manifests, tmp_path / "data") as second:
        assert [node["listeners"] for node in second.nodes()] == addresses
        assert limits(second, LISTENER) == [50]


@pytest.mark.full
def test_a_changed_static_setting_restarts_brokers_and_says_why(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=1)
    with LocalUp(manifests, tmp_path / "data") as up:
        before = {node["id"]: node["pid"] for node in up.nodes()}
        port, partner = free_port(), free_port()
        edit(manifests / "listener.yaml", r"port: \d+", f"port: {port}")
        text = (manifests / "listener.yaml").read_text().replace(str(port), str(partner))
        text = text.replace("shop-external", "shop-partner").replace("EXTERNAL", "PARTNER")
        (manifests / "partner.yaml").write_text(text)
        up.wait_for_line("restarting broker 0 of shop: ListenersChanged")
        up.wait_until(lambda: "PARTNER" in up.nodes("broker")[0]["listeners"], "the new listener")
        up.wait_until(lambda: up.external() == f"127.0.0.1:{port}", "the new port")
        up.wait_until(lambda: all(node["problem"] is None for node in up.status()["nodes"]), "all ready")
        assert up.nodes("broker")[0]["pid"] != before[0]


def _port(manifests: Path) -> str:
    text = (manifests / "listener.yaml").read_text()
    return next(line.split()[-1] for line in text.splitlines() if line.strip().startswith("port:"))


@pytest.mark.full
def test_quotas_are_watched_until_told_to_stop(up: LocalUp) -> None:
    """The test uses a terminal, because elsewhere only the last table is printed."""
    screen, terminal = os.openpty()
    os.set_blocking(screen, False)
    shown = bytearray()

    def again_and_again() -> bool:
        with suppress(BlockingIOError):
            shown.extend(os.read(screen, 1 << 16))
        return shown.count(LISTENER.encode()) >= 3

    watching = subprocess.Popen(
        [*COMMAND, "quotas", "--watch", "--interval", "0.1", "--data-dir", str(up.data_dir)],
        env=ENVIRONMENT | {"TERM": "xterm"},
        stdout=terminal,
    )
    try:
        up.wait_until(again_and_again, "it is shown again and again")
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        up.wait_until(lambda: again_and_again() and watching.poll() is not None, "it ends")
        assert watching.returncode == 0
    finally:
        watching.kill()
        watching.wait()
        os.close(screen)
        os.close(terminal)
