"""The commands that need no broker, run as by a user."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.processes.local_fleet import ENVIRONMENT, QUICKSTART, copy_quickstart, edit, run_command


def test_help_names_every_command() -> None:
    done = run_command("--help")
    assert done.returncode == 0
    for name in (
        "up",
        "status",
        "quotas",
        "validate",
        "storm",
        "crds",
        "broker",
        "audit",
        "brokers",
        "groups",
        "doctor",
    ):
        assert name in done.stdout


def test_the_quickstart_is_valid() -> None:
    done = run_command("validate", "-f", str(QUICKSTART))
    assert (done.returncode, done.stderr) == (0, "")
    assert "ConnectionQuota shop-external-rate: valid" in done.stdout


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "sentence"),
    [
        (
            "quotas.yaml",
            "listener: EXTERNAL",
            "listener: external",
            "spec.target.listener: target.listener must be at most 63 upper",
        ),
        ("quotas.yaml", "Rate: 50", "Rate: many", "spec.maxConnectionCreationRate: must be a whole number"),
        (
            "noisy-neighbour.yaml",
            "ip: 127.0.1.7",
            "ip: shop.example",
            "spec.target.ip: target.ip must be one IPv4 or IPv6",
        ),
        ("topic.yaml", "partitions: 6", "partitons: 6", "spec.partitons: is not a field of this kind"),
        (
            "cluster.yaml",
            "num.partitions:",
            "num.partitons:",
            "spec.config: config contains a key that the broker does not know: num.partitons; docs/reference/",
        ),
        (
            "listener.yaml",
            "port: [0-9]+",
            "port: 9093",
            "spec.port: ports 9091, 9093 and 9404 are reserved for the operator",
        ),
    ],
)
def test_validate_names_file_field_and_what_to_do(
    tmp_path: Path, file: str, pattern: str, replacement: str, sentence: str
) -> None:
    manifests = copy_quickstart(tmp_path)
    edit(manifests / file, pattern, replacement)

    done = run_command("validate", "-f", str(manifests))

    assert done.returncode == 1
    assert f"{manifests / file}, document 1: " in done.stderr
    assert sentence in done.stderr


def test_validate_of_a_missing_file_fails(tmp_path: Path) -> None:
    done = run_command("validate", "-f", str(tmp_path / "none.yaml"))
    assert done.returncode == 1
    assert f"{tmp_path / 'none.yaml'}: does not exist; name an existing file or folder" in done.stderr


def test_up_refuses_invalid_manifests_and_starts_nothing(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path)
    edit(manifests / "quotas.yaml", "Rate: 50", "Rate: 0")

    done = run_command("up", "-f", str(manifests), "--data-dir", str(tmp_path / "data"))

    assert done.returncode == 1
    assert "spec.maxConnectionCreationRate: must be at least 1" in done.stderr
    assert not (tmp_path / "data" / "shop").exists()


def test_up_refuses_what_only_kubernetes_can_run(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path)
    edit(manifests / "cluster.yaml", "replicas: 1", "replicas: 3")

    done = run_command("up", "-f", str(manifests), "--data-dir", str(tmp_path / "data"))

    assert done.returncode == 1
    assert "BrokerCluster shop: spec.controllers.replicas is 3, and `sluicegate up` runs one controller" in done.stderr


def test_up_without_a_cluster_says_so(tmp_path: Path) -> None:
    manifests = copy_quickstart(tmp_path)
    (manifests / "cluster.yaml").unlink()
    done = run_command("up", "-f", str(manifests), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "no BrokerCluster in" in done.stderr


@pytest.mark.parametrize("command", ["status", "quotas"])
def test_asking_where_nothing_runs_is_an_error(tmp_path: Path, command: str) -> None:
    done = run_command(command, "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "no `sluicegate up` runs in" in done.stderr


def test_crds_are_printed_and_written(tmp_path: Path) -> None:
    printed = run_command("crds")
    written = run_command("crds", "--out", str(tmp_path / "crds"))

    assert printed.returncode == written.returncode == 0
    kinds = [document["spec"]["names"]["kind"] for document in yaml.safe_load_all(printed.stdout)]
    assert sorted(kinds) == [
        "AuditPipeline",
        "BrokerCluster",
        "BrokerListener",
        "BrokerRegistration",
        "ConnectionQuota",
        "KafkaUser",
        "ObserverPlugin",
        "Topic",
    ]
    files = [yaml.safe_load(path.read_text()) for path in sorted((tmp_path / "crds").iterdir())]
    assert sorted(document["spec"]["names"]["kind"] for document in files) == sorted(kinds)


def test_broker_takes_the_arguments_of_the_runtime(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\nno.such.key=1\n")
    done = run_command("broker", "--config", str(config))
    assert done.returncode == 2
    assert "no.such.key" in done.stderr


def test_broker_imports_nothing_of_the_operator() -> None:
    """A replacement of exec reports the modules imported until then."""
    program = (
        "import os, sys; "
        "os.execv = lambda *call: sys.exit(' '.join(sorted({name.split('.')[0] for name in sys.modules}))); "
        "from sluicegate_operator.cli.main import main; main(['broker'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    imported = set(done.stderr.split())
    assert "sluicegate_operator" in imported
    assert not {"typer", "rich", "pydantic", "kio", "asyncio"} & imported


INTERRUPTED = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["sluicegate", "up", "-f", "none"]
from {program} import main
main()
"""


@pytest.mark.parametrize(
    ("program", "module"),
    [
        ("sluicegate_operator.cli.main", "sluicegate_operator.local.run"),
        ("broker_runtime.__main__", "broker_runtime.node.node"),
    ],
)
def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_word(program: str, module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(program=program, module=module)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
