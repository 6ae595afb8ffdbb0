"""`sluicegate why` through a real API server's pod proxy, which forwards a request to a pod's own address.

The proxy dials the pod, not its kubelet, and never a loopback address. Therefore the pods here have an address of this
machine. Those that e2e's kubelet runs as processes (127.20.x.y) cannot be asked in this way.
"""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import typer

from e2e.cluster.control_plane import ControlPlane
from e2e.world.shop import install_crds
from sluicegate_operator.cli.asking import brokers_asked
from sluicegate_operator.cli.fleets.why import why
from sluicegate_operator.cli.options import Output
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, ROLE_LABEL

pytestmark = pytest.mark.full

SAID = {"enforced": [{"group": "default/office", "rate": 5.0}], "observed": []}
ADDRESS = "2001:db8::1"
QUOTA = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "ConnectionQuota",
    "metadata": {"name": "office", "namespace": "default"},
    "spec": {"clusterRef": {"name": "shop"}, "target": {"ip": ADDRESS}, "maxConnectionCreationRate": 5},
}
LOOPBACK = "127.20.255.9"


class Broker(BaseHTTPRequestHandler):
    """A broker's HTTP port with this one path."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps(SAID).encode()
        self.send_response(200 if self.path.startswith("/connection-quotas?") else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        install_crds(plane)
        plane.kubectl("apply", "-f", "-", input=json.dumps(QUOTA))
        yield plane


@pytest.fixture
def own_address() -> str:
    """An address of this machine by which other hosts would reach it, whether or not it has a route to them."""
    local: list[str] = re.findall(r"-- (\S+)\n\s+/32 host LOCAL", Path("/proc/net/fib_trie").read_text())
    return next(address for address in local if not ip_address(address).is_loopback)


@pytest.fixture
def asked(own_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Paths that reached the broker."""
    asked: list[str] = []
    server = ThreadingHTTPServer((own_address, 0), type("Noting", (Broker,), {"asked": asked}))
    monkeypatch.setattr(brokers_asked, "HTTP_PORT", server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def run_pod(plane: ControlPlane, name: str, address: str) -> None:
    labels = {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    metadata = {"name": name, "labels": labels, "annotations": {REVISION: "{}"}}
    spec = {"containers": [{"name": "broker", "image": "none"}], "nodeName": "nowhere"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    plane.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def test_brokers_are_asked_by_the_api_server_at_their_pods_own_address(
    plane: ControlPlane,
    own_address: str,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_pod(plane, "shop-brokers-0", own_address)
    why(ADDRESS, namespace="default", kubeconfig=str(plane.kubeconfig), output=Output.JSON)
    assert asked == ["/connection-quotas?address=2001%3Adb8%3A%3A1"]
    [found] = json.loads(capsys.readouterr().out)["addresses"]
    assert found["brokers"] == [{"cluster": "shop", "broker": 0, "answer": SAID}]
    assert found["quotas"] == [{"cluster": "shop", "kind": "ip", "names": ["default/office"]}]

    run_pod(plane, "shop-brokers-1", LOOPBACK)
    with pytest.raises(typer.Exit) as ended:
        why("10.0.0.1", namespace="default", kubeconfig=str(plane.kubeconfig), output=Output.JSON)
    said = capsys.readouterr()
    [found] = json.loads(said.out)["addresses"]
    assert ended.value.exit_code == 1
    assert found["brokers"][0]["answer"] == SAID
    assert "address not allowed" in found["brokers"][1]["problem"]
    assert "broker 1 of shop did not answer" in said.err
