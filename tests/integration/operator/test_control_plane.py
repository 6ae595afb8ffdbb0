"""The control plane and the process kubelet themselves, on which the end-to-end suite is based."""

import contextlib
import json
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.control_plane import ControlPlane, KubectlError
from e2e.cluster.waiting import wait_for
from tests.support.processes.process_kubelet.api import Access
from tests.support.processes.process_kubelet.delays import Delays
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet

pytestmark = pytest.mark.full

SERVER = """
import http.server, os, pathlib, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: (print("stopping in order", flush=True), sys.exit(0)))
count = pathlib.Path(sys.argv[1], "starts")
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            peer = socket.getaddrinfo("web-0.web.default.svc.cluster.local", 80)[0][4][0]
        except OSError:
            peer = "unknown"
        text = "|".join([count.read_text(), os.environ["WHO"], open(sys.argv[2]).read(), peer])
        self.send_response(200); self.end_headers(); self.wfile.write(text.encode())
    def log_message(self, *_): pass
http.server.HTTPServer((os.environ["POD_IP"], 8080), Handler).serve_forever()
"""


ASKS_FOR_ITS_NAME = """
import os, signal, socket, time
name, until = "late.web.default.svc", time.time() + 60
def asked():
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except OSError as error:
        return str(error)
asked()
while time.time() < until and name not in open(os.environ["PROCESS_KUBELET_HOSTS"]).read():
    time.sleep(0.05)
print("asked again:", "denied" if "not known" in asked() else "found", flush=True)
signal.pause()
"""


def web_manifests() -> str:
    container = {
        "name": "web",
        "image": "none",
        "command": ["python", "-c", SERVER, "/var/lib/web", "$(SETTINGS)/who.txt"],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {
                "name": "INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
            },
            {"name": "WHO", "value": "web-$(INDEX)"},
            {"name": "SETTINGS", "value": "/etc/web"},
        ],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {
            "preStop": {"exec": {"command": ["python", "-c", "import os; print('leaving', os.environ['POD_IP'])"]}}
        },
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/web"}, {"name": "settings", "mountPath": "/etc/web"}],
    }
    labels = {"app": "web"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    pod = {
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [{"name": "settings", "configMap": {"name": "web"}}],
    }
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "web"},
            "data": {"who.txt": "data in /var/lib/web"},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 8080}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web"},
            "spec": {
                "serviceName": "web",
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
            },
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module")
def kubelet(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessKubelet]:
    access = Access(plane.url, str(plane.certificate), plane.token)
    # With this seed, the address of the pod `late` is reported almost as late as possible.
    delays = Delays(seed=4, address_s_max=3.0, denied_s=8.0)
    with ProcessKubelet(access, tmp_path_factory.mktemp("kubelet"), delays) as kubelet:
        plane.kubectl("apply", "-f", "-", input=web_manifests())
        yield kubelet


def running(kubelet: ProcessKubelet, name: str) -> bool:
    with contextlib.suppress(LookupError):
        return bool(kubelet.pids("default", name))
    return False


def page(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}:8080/", timeout=15) as answer:
        text: str = answer.read().decode()
    return text.split("|")


def ready_pod(plane: ControlPlane, *, restarts: int | None = None, other_than: str = "") -> Any:
    def look() -> Any:
        found = json.loads(plane.kubectl("get", "pod", "web-0", "-o", "json"))
        [status] = found["status"].get("containerStatuses") or [{"ready": False}]
        as_wanted = restarts in (None, status.get("restartCount")) and found["metadata"]["uid"] != other_than
        return found if status["ready"] and as_wanted else None

    return wait_for("web-0 ready", look)


def test_a_refused_request_carries_the_api_servers_sentence(plane: ControlPlane) -> None:
    with pytest.raises(KubectlError) as refused:
        plane.kubectl("create", "namespace", "Not_A_Name")
    assert "lowercase RFC 1123 label" in refused.value.stderr


def test_a_statefulsets_pod_runs_as_a_process_with_what_its_manifest_gives_it(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    address = ready_pod(plane)["status"]["podIP"]
    wait_for("its name is known", lambda: page(address)[3] == address)
    starts, who, file, _ = page(address)
    assert who == "web-0"
    assert "/var/lib" not in file
    assert "claims" in file, "paths inside a ConfigMap follow the mounts"
    assert plane.get("statefulset", "web")["status"]["readyReplicas"] == 1
    assert int(starts) >= 1


def test_a_process_starts_before_its_address_is_reported_and_its_name_resolves_later(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    command = ["python", "-c", ASKS_FOR_ITS_NAME]
    container = {"name": "main", "image": "none", "command": command}
    spec = {"subdomain": "web", "terminationGracePeriodSeconds": 1, "containers": [container]}
    metadata = {"name": "late", "labels": {"app": "web"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    wait_for("its process runs", lambda: running(kubelet, "late"), interval_s=0.02)
    assert "podIP" not in plane.get("pod", "late")["status"]
    found = wait_for("its address is reported", lambda: plane.get("pod", "late")["status"].get("podIP"))
    assert found == kubelet.address("default", "late")
    wait_for("it has asked", lambda: "asked" in kubelet.logs("default", "late"))
    assert "denied" in kubelet.logs("default", "late"), "it asked too early, and that answer is kept"
    plane.kubectl("delete", "pod", "late")


def test_files_of_a_config_map_change_under_a_running_process(plane: ControlPlane, kubelet: ProcessKubelet) -> None:
    before = ready_pod(plane)
    address = before["status"]["podIP"]
    plane.kubectl("patch", "configmap", "web", "-p", json.dumps({"data": {"who.txt": "changed in /var/lib/web"}}))
    wait_for("the file has changed", lambda: page(address)[2].startswith("changed in"))
    assert "/var/lib/web" not in page(address)[2], "paths inside it follow the mounts as before"
    after = ready_pod(plane)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (
        after["status"]["containerStatuses"][0]["restartCount"]
        == (before["status"]["containerStatuses"][0]["restartCount"])
    )


def test_a_crashed_container_starts_again_and_its_volume_is_as_it_was(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    before = ready_pod(plane)
    restarts = before["status"]["containerStatuses"][0]["restartCount"]
    starts = int(page(before["status"]["podIP"])[0])
    [pid] = kubelet.pids("default", "web-0")
    kubelet.kill_container("default", "web-0", signal.SIGKILL)
    after = ready_pod(plane, restarts=restarts + 1)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert kubelet.pids("default", "web-0") != [pid]
    assert int(page(after["status"]["podIP"])[0]) == starts + 1
    [status] = after["status"]["containerStatuses"]
    ended = status["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("Error", 137)
    assert ended["startedAt"] <= ended["finishedAt"] <= status["state"]["running"]["startedAt"]


def test_a_container_that_ends_again_and_again_is_started_later_and_later(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    command = ["python", "-c", "import sys; print('no such key'); sys.exit(3)"]
    container = {
        "name": "main",
        "image": "none",
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crashes"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))

    def status() -> Any:
        found = plane.get("pod", "crashes")["status"]
        [container] = found.get("containerStatuses") or [{"restartCount": 0, "state": {}}]
        return {**container, "phase": found["phase"]}

    def backs_off() -> Any:
        found = status()
        return found if found["restartCount"] >= 2 and "waiting" in found["state"] else None

    found = wait_for("it waits for its back-off", backs_off)
    plane.kubectl("delete", "pod", "crashes")
    assert (found["state"]["waiting"]["reason"], found["phase"]) == ("CrashLoopBackOff", "Running")
    assert (found["lastState"]["terminated"]["exitCode"], found["ready"]) == (3, False)
    assert found["lastState"]["terminated"]["message"] == "no such key\n"


def test_a_held_pod_stays_down_until_released(plane: ControlPlane, kubelet: ProcessKubelet) -> None:
    ready_pod(plane)
    kubelet.hold_pod("default", "web-0")
    wait_for("no pod is ready", lambda: plane.get("statefulset", "web")["status"].get("readyReplicas", 0) == 0)
    assert kubelet.pids("default", "web-0") == []
    kubelet.release_pod("default", "web-0")
    ready_pod(plane)


def test_a_deleted_pod_ends_in_order_and_its_successor_has_the_same_volume(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    before = ready_pod(plane)
    starts = int(page(before["status"]["podIP"])[0])
    plane.kubectl("delete", "pod", "web-0")
    told, _, stopped = kubelet.logs("default", "web-0").partition("stopping in order")
    assert f"preStop done: leaving {before['status']['podIP']}" in told, (
        "before SIGTERM, with the container's own names"
    )
    assert "leaving" not in stopped
    ready_pod(plane, other_than=before["metadata"]["uid"])
    address = kubelet.address("default", "web-0")
    assert address != before["status"]["podIP"]
    assert int(page(address)[0]) == starts + 1


def test_claims_stay_when_their_statefulset_is_deleted_and_made_again(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    before = ready_pod(plane)
    starts = int(page(before["status"]["podIP"])[0])
    plane.kubectl("delete", "statefulset", "web", "--cascade=foreground")
    assert plane.get("persistentvolumeclaim", "data-web-0")["metadata"]["name"] == "data-web-0"
    plane.kubectl("apply", "-f", "-", input=web_manifests())
    after = ready_pod(plane, other_than=before["metadata"]["uid"])
    assert int(page(after["status"]["podIP"])[0]) == starts + 1


def test_a_gated_pod_is_ready_when_somebody_opens_its_gate(plane: ControlPlane, kubelet: ProcessKubelet) -> None:
    gate = "example.org/open"
    container = {"name": "main", "image": "none", "command": ["python", "-c", "import signal; signal.pause()"]}
    spec = {"readinessGates": [{"conditionType": gate}], "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))

    def conditions() -> dict[str, str]:
        found = plane.get("pod", "gated")["status"].get("conditions", [])
        return {condition["type"]: condition["status"] for condition in found}

    wait_for("its container runs", lambda: conditions().get("ContainersReady") == "True")
    assert conditions()["Ready"] == "False"
    opened = {"status": {"conditions": [{"type": gate, "status": "True"}]}}
    plane.kubectl("patch", "pod", "gated", "--subresource=status", "-p", json.dumps(opened))
    wait_for("ready", lambda: conditions()["Ready"] == "True")
    plane.kubectl("delete", "pod", "gated")


def test_a_lost_node_takes_its_pods_along_until_it_is_back(plane: ControlPlane, kubelet: ProcessKubelet) -> None:
    before = ready_pod(plane)
    restarts = before["status"]["containerStatuses"][0]["restartCount"]
    node = kubelet.node_of("default", "web-0")
    assert node == before["spec"]["nodeName"]
    kubelet.lose_node(node)
    conditions = {c["type"]: c["status"] for c in plane.get("node", node)["status"]["conditions"]}
    assert conditions["Ready"] == "Unknown"
    wait_for("the node controller has seen it", lambda: plane.get("node", node)["spec"].get("taints"))
    assert kubelet.pids("default", "web-0") == [], "nobody starts it again"
    kubelet.restore_node(node)
    ready_pod(plane, restarts=restarts + 1)


def test_pods_keep_running_during_an_outage_of_the_api_server_which_keeps_its_data(
    plane: ControlPlane, kubelet: ProcessKubelet
) -> None:
    before = ready_pod(plane)
    plane.pause_api_server()
    try:
        with pytest.raises(KubectlError):
            plane.kubectl("get", "pods", "--request-timeout=2s")
        assert page(before["status"]["podIP"])[1] == "web-0"
    finally:
        plane.resume_api_server()
    after = ready_pod(plane)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
