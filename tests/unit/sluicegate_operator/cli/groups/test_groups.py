"""Requests that `sluicegate groups` refuses, in one sentence with exit code 2, and clusters that do not run."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate_operator.cli.asking.bootstrap import BootstrapError, bootstrap_addresses
from sluicegate_operator.cli.groups.groups import groups
from sluicegate_operator.kafka_admin.consumer_groups import ConsumerGroups
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.groups.group_views import GroupListing, GroupView
from sluicegate_operator.kafka_admin.views import Partition

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
RESET = ("reset-offsets", "billing")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("list", "--bootstrap-server", "shop"), "--bootstrap-server shop: write HOST:PORT"),
        (("list", "--bootstrap-server", "shop:9094,"), "--bootstrap-server : write HOST:PORT"),
        (("list", "--data-dir", "/nowhere"), "no `sluicegate up` runs in /nowhere"),
        (("describe", "billing", "", *NOWHERE), "the name of a group cannot be empty"),
        (("delete", "", *NOWHERE), "the name of a group cannot be empty"),
        (("reset-offsets", "", "--all-topics", "--to-latest", *NOWHERE), "the name of a group cannot be empty"),
        (("describe", *NOWHERE), "name groups, or use --all"),
        (("describe", "billing", "--all", *NOWHERE), "name groups, or use --all"),
        ((*RESET, "--to-latest", *NOWHERE), "choose the partitions with --topic TOPIC or --all-topics"),
        ((*RESET, "--to-latest", "--all-topics", "--topic", "a", *NOWHERE), "choose the partitions"),
        ((*RESET, "--all-topics", *NOWHERE), "choose the new offset with one of --to-earliest, --to-latest"),
        ((*RESET, "--all-topics", "--to-latest", "--shift-by", "1", *NOWHERE), "choose the new offset with one of"),
        ((*RESET, "--all-topics", "--to-offset", "-1", *NOWHERE), "--to-offset -1: offsets begin at 0"),
        ((*RESET, "--all-topics", "--by-duration", "1h", *NOWHERE), "--by-duration 1h: write PnDTnHnMnS"),
        ((*RESET, "--all-topics", "--to-datetime", "noon", *NOWHERE), "--to-datetime noon: write YYYY-MM-DDThh:mm:ss"),
        ((*RESET, "--topic", "a:b", "--to-latest", *NOWHERE), "--topic a:b: write TOPIC"),
        ((*RESET, "--all-topics", "--to-latest", "--dry-run", "--execute", *NOWHERE), "not both"),
    ],
)
def test_bad_use_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = CliRunner().invoke(groups, arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert sentence in done.stderr


@pytest.mark.parametrize("arguments", [("list",), ("describe", "--all")])
def test_a_cluster_without_groups_says_so(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(asked: ConsumerGroups) -> list[GroupListing]:
        return []

    monkeypatch.setattr(ConsumerGroups, "all", nothing)
    done = CliRunner().invoke(groups, [*arguments, *NOWHERE])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "the cluster has no groups\n")


def test_a_group_that_goes_while_all_are_described_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(asked: ConsumerGroups) -> list[GroupListing]:
        return [GroupListing("going", "Empty", "classic", "consumer")]

    async def gone(asked: ConsumerGroups, group_id: str) -> GroupView:
        return GroupView(id=group_id, state="Dead", type="classic", protocol_type="", assignor="", members=())

    async def nothing(asked: ConsumerGroups, group_id: str) -> dict[Partition, int]:
        return {}

    monkeypatch.setattr(ConsumerGroups, "all", one)
    monkeypatch.setattr(ConsumerGroups, "describe", gone)
    monkeypatch.setattr(ConsumerGroups, "committed", nothing)
    done = CliRunner().invoke(groups, ["describe", "--all", *NOWHERE])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "the cluster has no groups\n")


def test_names_of_others_move_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(asked: ConsumerGroups) -> list[GroupListing]:
        return [GroupListing("red\x1b[31m\n[b]ü", "Empty", "classic", "")]

    async def refuse(asked: ConsumerGroups, group_id: str) -> None:
        raise KafkaApiError(69, None, "deleting")

    monkeypatch.setattr(ConsumerGroups, "all", one)
    monkeypatch.setattr(ConsumerGroups, "delete", refuse)
    assert r"red\x1b[31m\n[b]ü" in CliRunner().invoke(groups, ["list", *NOWHERE]).stdout
    said = CliRunner().invoke(groups, ["delete", "red\x1b[31m", *NOWHERE]).stderr
    assert said == "group red\\x1b[31m was not deleted: the group does not exist\n"


def running(folder: Path, *clusters: str) -> Path:
    """The data folder of an `up`, with this process as its owner."""
    node = {"role": "broker", "pid": 1, "listeners": {"INTERNAL": "127.0.0.1:9091", "EXTERNAL": "127.0.0.1:9094"}}
    stopped = {"role": "broker", "pid": None, "listeners": {"INTERNAL": "127.0.0.1:9092"}}
    controller = {"role": "controller", "pid": 1, "listeners": {"CONTROLLER": "127.0.0.1:9093"}}
    (folder / "lock").write_text(str(os.getpid()))
    nodes = {"nodes": [controller, node, stopped]}
    (folder / "state.json").write_text(json.dumps({"clusters": dict.fromkeys(clusters, nodes)}))
    return folder


def test_the_brokers_of_up_are_asked(tmp_path: Path) -> None:
    assert bootstrap_addresses(None, running(tmp_path, "shop"), None) == [("127.0.0.1", 9091)]
    assert bootstrap_addresses("[::1]:9, b:10", tmp_path, None) == [("::1", 9), ("b", 10)]


def test_the_cluster_must_be_named_if_there_are_several(tmp_path: Path) -> None:
    folder = running(tmp_path, "shop", "bank")
    assert bootstrap_addresses(None, folder, "bank") == [("127.0.0.1", 9091)]
    with pytest.raises(BootstrapError, match="`up` runs the clusters bank, shop; choose one with --cluster"):
        bootstrap_addresses(None, folder, None)
    with pytest.raises(BootstrapError, match="--cluster none: `up` runs bank, shop"):
        bootstrap_addresses(None, folder, "none")
