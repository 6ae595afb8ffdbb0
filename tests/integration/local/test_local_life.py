"""The life of a cluster under `sluicegate up`: brokers die, settings are rolled out, brokers are added and removed."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, Partitions, create_topic
from tests.support.processes.local_fleet import LocalUp, copy_quickstart, edit, run_command, wait_until_dead

TOPIC = "payments"
PARTITIONS = 6
SESSION_TIMEOUT_S = 9.0
BEFORE_SESSION_S = SESSION_TIMEOUT_S - 2.0 - 0.5
"""A session that times out ends later: its last heartbeat is at most broker.heartbeat.interval.ms old."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalUp]:
    """Three brokers, and one topic with three replicas and min.insync.replicas=2."""
    folder = tmp_path_factory.mktemp("life")
    with LocalUp(copy_quickstart(folder, brokers=3), folder / "data") as up:
        create_topic(up.bootstrap(), TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        up.wait_until(lambda: up.all_online(3), "every broker in sync")
        yield up


def new_topic(up: LocalUp, name: str) -> str:
    create_topic(up.bootstrap(), name, PARTITIONS, 3, min_insync_replicas="2")
    up.wait_until(lambda: Partitions(up.bootstrap(), name).all_in_sync(3), f"{name} in sync")
    return name


def set_config(up: LocalUp, key: str, value: str) -> None:
    edit(up.manifests / "cluster.yaml", r"  config:\n", f'  config:\n    {key}: "{value}"\n')


def test_status_shows_what_the_controller_thinks_of_each_broker(three: LocalUp) -> None:
    shown = three.status()["brokers"]

    seen = three.brokers()
    for row in shown:
        node = three.nodes("broker")[row["id"]]
        assert (row["state"], row["epoch"]) == ("Online", seen[row["id"]]["epoch"])
        assert (row["pid"], row["address"]) == (node["pid"], node["listeners"]["EXTERNAL"])
        assert row["heartbeat_age_s"] < SESSION_TIMEOUT_S
    assert [row["id"] for row in shown] == [0, 1, 2]
    assert {row["id"]: row["leaders"] for row in shown} == {number: view["leaders"] for number, view in seen.items()}
    assert all(row["leaders"] > 0 for row in shown), "each leads a part of the quickstart's topic"
    table = run_command("status", "--data-dir", str(three.data_dir)).stdout
    assert "Brokers of shop" in table
    assert re.search(rf"1 +│ Online +│ +{seen[1]['epoch']} │", table), table


@pytest.mark.full
def test_a_killed_broker_is_fenced_at_once_and_comes_back(three: LocalUp) -> None:
    before = three.brokers()[1]
    topic = new_topic(three, "killed")
    with AcknowledgedWorkload(three.bootstrap(), topic, PARTITIONS) as workload:
        three.wait_until(lambda: workload.count > 100, "a producer that runs")
        killed_s = time.monotonic()
        os.kill(three.nodes("broker")[1]["pid"], signal.SIGKILL)
        three.wait_until(lambda: three.brokers()[1]["state"] == "Offline", "the session ended on the fleet's word")
        fenced_after_s = time.monotonic() - killed_s
        assert three.brokers()[1]["leaders"] == 0
        three.wait_until(lambda: three.all_online(3), "broker 1 back and in sync")

    assert fenced_after_s < BEFORE_SESSION_S
    assert three.brokers()[1]["epoch"] > before["epoch"]
    assert "broker 1 of shop is fenced: its process ended" in three.output()
    workload.check()


def test_a_dynamic_setting_is_changed_and_taken_back_without_a_restart(three: LocalUp) -> None:
    pids = three.pids()

    set_config(three, "log.retention.ms", "7200000")
    three.wait_for_line("without a restart: all brokers: log.retention.ms=7200000")
    edit(three.manifests / "cluster.yaml", r'    log.retention.ms: "7200000"\n', "")
    three.wait_for_line("without a restart: all brokers: log.retention.ms removed")
    tags = "    tags:\n      team: payments\n"
    edit(three.manifests / "cluster.yaml", r"  brokers:\n", f"  brokers:\n{tags}")
    three.wait_for_line("without a restart: all brokers: tag.team=payments")
    told = run_command("brokers", "--tags", "-o", "json", "--bootstrap-server", three.bootstrap()).stdout
    assert [broker["tags"]["team"] for broker in json.loads(told)["brokers"]] == ["payments"] * 3
    edit(three.manifests / "cluster.yaml", tags, "")
    three.wait_for_line("without a restart: all brokers: tag.team removed")

    assert three.pids() == pids
    assert three.status()["progress"]["roll"]["phase"] == ""


@pytest.mark.full
def test_the_replicas_of_a_topic_change_under_a_producer(three: LocalUp) -> None:
    file = three.manifests / "counted.yaml"
    document = {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "counted"},
        "spec": {"clusterRef": {"name": "shop"}, "partitions": PARTITIONS, "replicas": 1},
    }
    file.write_text(json.dumps(document))
    seen = Partitions(three.bootstrap(), "counted")
    three.wait_until(partial(says, three, "counted", "6 partitions, 1 replicas"), "the topic")
    with AcknowledgedWorkload(three.bootstrap(), "counted", PARTITIONS, pause_s=0.005) as workload:
        for replicas in (3, 2):
            count, applied = workload.count, f"6 partitions, {replicas} replicas"
            three.wait_until(partial(written, workload, count + 100), "a producer that runs")
            edit(file, r'"replicas": \d', f'"replicas": {replicas}')
            three.wait_until(partial(says, three, "counted", applied), applied)
            assert seen.all_in_sync(replicas)
        edit(file, r'"replicas": \d', '"replicas": 4')
        try:
            three.wait_for_line("spec.replicas: is 4, and BrokerCluster shop has 3 brokers")
        finally:
            file.unlink()
    workload.check()


def says(up: LocalUp, name: str, words: str) -> bool:
    """Return whether the message of that object begins with these words."""
    rows = up.state()["clusters"]["shop"]["resources"]
    return any(row["name"] == name and row["message"].startswith(words) for row in rows)


def written(workload: AcknowledgedWorkload, count: int) -> bool:
    return workload.count > count


@pytest.mark.full
def test_a_static_setting_rolls_every_node_and_loses_nothing(three: LocalUp) -> None:
    before = {node["id"]: node["pid"] for node in three.nodes()}
    topic = new_topic(three, "rolled")
    with AcknowledgedWorkload(three.bootstrap(), topic, PARTITIONS) as workload:
        three.wait_until(lambda: workload.count > 100, "a producer that runs")
        set_config(three, "connections.max.idle.ms", "590000")
        three.wait_for_line("restarting broker 0 of shop")

        def rolling() -> bool:
            progress = three.state()["clusters"]["shop"]["progress"]["roll"]
            return progress["phase"] == "Rolling" and "controller 1000 of shop" in progress["waiting"]

        three.wait_until(rolling, "what waits in the state")
        edit(three.manifests / "quotas.yaml", "maxConnectionCreationRate: 50", "maxConnectionCreationRate: 77")
        three.wait_for_line("listener EXTERNAL 50/s -> 77/s")
        three.wait_for_line("shop: the roll is complete")
        three.wait_until(lambda: three.all_online(3), "every broker in sync")

    restarts = re.findall(r"restarting (\w+ \d+) of shop: ConfigChanged \(connections.max.idle.ms\)", three.output())
    assert restarts == ["broker 0", "broker 1", "broker 2", "controller 1000"]
    assert all(node["pid"] != before[node["id"]] for node in three.nodes())
    quota_at = three.output().index("50/s -> 77/s")
    assert quota_at < three.output().index("restarting controller 1000"), "limits do not wait for the roll"
    assert workload.longest_gap_s < SESSION_TIMEOUT_S / 2
    workload.check()
    assert "killed" not in three.output(), "each stopped by itself"


@pytest.mark.full
def test_a_crash_loop_is_shown_with_its_last_words_and_blocks_a_roll(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=2)
    with LocalUp(manifests, tmp_path / "data", "--restart-after", "0.1") as up:
        identity = tmp_path / "data" / "shop" / "node-0" / "data" / "meta.properties"
        good = identity.read_text()
        identity.write_text(re.sub("cluster.id=.*", "cluster.id=someone-elses", good))
        pids = {node["id"]: node["pid"] for node in up.nodes()}
        os.kill(pids[0], signal.SIGKILL)
        up.wait_for_line("broker 0 of shop is in a crash loop")

        up.wait_until(lambda: up.nodes("broker")[0]["failing"] != "", "the loop in the state")
        assert "someone-elses" in up.nodes("broker")[0]["failing"]
        status = up.status()
        assert next(node["problem"] for node in status["nodes"] if node["id"] == 0) is not None
        assert [broker["state"] for broker in status["brokers"]] == ["Offline", "Online"]

        set_config(up, "connections.max.idle.ms", "590000")
        up.wait_for_line("the roll is blocked: broker 0 of shop does not start: crash loop")
        assert up.status()["progress"]["roll"]["phase"] == "Blocked"
        assert up.nodes("broker")[1]["pid"] == pids[1], "the other one is left alone"

        identity.write_text(good)
        up.wait_for_line("shop: the roll is complete")
        assert all(node["pid"] != pids[node["id"]] for node in up.nodes())


@pytest.mark.full
def test_brokers_are_added_and_leave_when_they_hold_nothing(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=2)
    cluster = manifests / "cluster.yaml"
    with LocalUp(manifests, tmp_path / "data") as up:
        edit(cluster, "replicas: 2", "replicas: 3")
        up.wait_until(lambda: up.all_online(3), "the third broker")
        up.wait_for_line("all limits are enforced on 3/3 brokers")
        create_topic(up.bootstrap(), TOPIC, PARTITIONS, 2)
        with AcknowledgedWorkload(up.bootstrap(), TOPIC, PARTITIONS) as workload:
            up.wait_until(lambda: workload.count > 100, "a producer that runs")
            edit(cluster, "replicas: 3", "replicas: 2")
            up.wait_for_line("replicas remain on broker 2, for example of ")
            assert len(up.nodes("broker")) == 3
            assert "brokers.drain: true" in up.status()["progress"]["scale"]["message"]

            edit(cluster, "replicas: 2", "replicas: 2\n    drain: true")
            up.wait_for_line("unregistering broker 2 without replicas")
        up.wait_until(lambda: up.all_online(2), "two brokers in sync")
        assert len(up.nodes("broker")) == 2
        up.wait_until(lambda: Partitions(up.bootstrap(), TOPIC).all_in_sync(2), "both replicas of each partition")
        workload.check()


@pytest.mark.full
def test_ctrl_c_leaves_the_cluster_in_order(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=2)
    with LocalUp(manifests, tmp_path / "data") as up:
        assert up.stop(signal.SIGINT) == 0
        assert "killed" not in up.output()
    with LocalUp(manifests, tmp_path / "data") as again:
        again.wait_until(lambda: again.all_online(2), "both brokers back")
        assert "is fenced" not in again.output()
    for broker in (0, 1):
        log = (tmp_path / "data" / "shop" / f"node-{broker}" / "broker.log").read_text()
        assert "duplicate" not in log.lower(), "its id was free at once"


@pytest.mark.full
def test_after_a_kill_of_everything_no_broker_waits_for_the_session_of_the_one_before(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path, brokers=2)
    with LocalUp(manifests, tmp_path / "data") as up:
        pids = up.pids()
        up.kill()
        wait_until_dead(pids)
    with LocalUp(manifests, tmp_path / "data") as again:
        assert "earlier processes of brokers 0, 1, which were not stopped in order, are fenced" in again.output()
        again.wait_until(lambda: again.all_online(2), "both brokers back")
    for broker in (0, 1):
        log = (tmp_path / "data" / "shop" / f"node-{broker}" / "broker.log").read_text()
        assert (
            last_time(log, "is registered with epoch") - last_time(log, "metrics and health on") < SESSION_TIMEOUT_S / 3
        )


def last_time(log: str, words: str) -> float:
    """Return when the last line with these words was written."""
    line = [line for line in log.splitlines() if words in line][-1]
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").timestamp()  # noqa: DTZ007 - two of one log
