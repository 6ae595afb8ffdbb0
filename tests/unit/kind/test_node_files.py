"""Files laid over a node's root match their readers."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.kind.config import DNS_ADDRESS, POD_SUBNET, SERVICE_SUBNET, kind_config
from e2e.kind.node_root import UNITS
from e2e.kind.places import NODE_FILES
from e2e.kind.tools import RUNC_WITHOUT

SCRIPTS = sorted(path for path in NODE_FILES.rglob("*") if path.is_file() and path.read_bytes().startswith(b"#!"))


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_that_is_started_is_there_with_its_program(unit: str) -> None:
    text = (NODE_FILES / f"etc/systemd/system/{unit}.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    assert program.startswith("/usr/bin/") or os.access(NODE_FILES / program.lstrip("/"), os.X_OK)


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.name for path in SCRIPTS])
def test_scripts_can_be_read_and_run(script: Path) -> None:
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_claims_of_the_default_class_wait_for_the_node_that_makes_their_volume() -> None:
    documents = list(yaml.safe_load_all((NODE_FILES / "kind/manifests/default-storage.yaml").read_text()))
    (storage,) = (document for document in documents if document["kind"] == "StorageClass")
    assert storage["volumeBindingMode"] == "WaitForFirstConsumer"
    assert f"class={storage['metadata']['name']}" in (NODE_FILES / "kind/bin/volumes").read_text()


def test_pods_networks_are_those_that_the_nodes_route() -> None:
    assert f"${{POD_SUBNET:-{POD_SUBNET}}}" in (NODE_FILES / "kind/bin/podnet").read_text()
    assert DNS_ADDRESS.rpartition(".")[0] == SERVICE_SUBNET.rpartition(".")[0]


def test_the_first_node_is_the_control_plane_and_each_is_a_zone() -> None:
    nodes = kind_config(3)["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker"]
    assert len({str(node["labels"]) for node in nodes}) == 3


@pytest.mark.parametrize("order", [["CAP_SYS_RESOURCE", "CAP_KILL"], ["CAP_KILL", "CAP_SYS_RESOURCE"]])
def test_runc_is_handed_no_capability_that_the_machine_cannot_give(tmp_path: Path, order: list[str]) -> None:
    (tmp_path / "runc").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "runc").chmod(0o755)
    (tmp_path / "wrapper").write_text(RUNC_WITHOUT)
    settings = tmp_path / "config.json"
    settings.write_text(json.dumps({"bounding": order}, separators=(",", ":")))
    subprocess.run(
        ["sh", tmp_path / "wrapper", "--log", "x", "create", "--bundle", tmp_path, "name"],
        env={"PATH": f"{tmp_path}:{os.defpath}"},
        check=True,
    )
    assert json.loads(settings.read_text()) == {"bounding": ["CAP_KILL"]}
