"""examples/secure on nodes: its commands, its brokers and users, and clients of the tests beside its own."""

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from e2e.cluster.waiting import wait_for
from e2e.clusters.test_cluster_life import document
from e2e.disclosure.outputs import Outputs
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.own_namespace import OwnNamespace
from e2e.nodes.site.readme import run
from e2e.nodes.site.shop import install_operator
from e2e.world.operator_process import REPOSITORY
from e2e.world.shop import READY_TIMEOUT_S, ROLLED_TIMEOUT_S, Json, condition_of
from tests.support.pages.blocks import blocks, section

NAMESPACE = "secure"
HOST, PORT = f"shop-secure.{NAMESPACE}.svc", 9095
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:reporting"
FOLDER = REPOSITORY / "examples" / "secure"
HEADING = "On Kubernetes"
DATA = ".sluicegate/"
"""Folder that the page's commands write into; tests use one of their own."""
CLUSTER = "shop"
INTERNAL_PORT, OPEN_PORT = 9091, 9097
BROKERS = "app.kubernetes.io/component=broker"
BROKERS_TOKEN = "/etc/sluicegate-listeners/tokens/api-token"
ROLLED_BY = "maxSecondsWithoutReauthentication"
TOKENS = "/var/run/secrets/sluicegate"
TICKER = Path(__file__).parent / "ticker.py"


@dataclass(frozen=True, slots=True)
class SecureExample:
    """The example in its namespace. `folder` has the kubeconfig and what the page's commands write."""

    namespace: OwnNamespace
    folder: Path
    outputs: Outputs

    # -- commands of the page ----------------------------------------------------------------------------------

    @property
    def authorities(self) -> Path:
        """Folder of the authority's key and the last certificate."""
        return self.folder / "ca"

    def run(self, command: str) -> str:
        """Run a command, and return its output. Raises CalledProcessError with the output."""
        here = command.replace(DATA, f"{self.folder}/")
        said = run(here, {"KUBECONFIG": str(self.folder / "kubeconfig")})
        self.outputs.add("commands of examples/secure", f"$ {command}\n{said}")
        return said

    def follow(self, *beginnings: str) -> str:
        """Run the commands of each tested block that has a line with such a beginning; return the output."""
        page = section((FOLDER / "README.md").read_text(encoding="utf-8"), HEADING)
        chosen = [block for block in blocks(page, "sh") if any(line.startswith(beginnings) for line in block)]
        assert len(chosen) == len(beginnings), f"the page has {len(chosen)} blocks with {beginnings}"
        return "".join(self.run(command) for block in chosen for command in block)

    def refused(self) -> str:
        """Run the page's command that is refused, and return its output."""
        page = section((FOLDER / "README.md").read_text(encoding="utf-8"), HEADING)
        [command] = [line for block in blocks(page) for line in block if line.endswith(" invoices")]
        try:
            said = self.run(command)
        except subprocess.CalledProcessError as refusal:
            return str(refusal.output)
        raise AssertionError(f"{command} is not refused: {said}")

    # -- brokers -----------------------------------------------------------------------------------------------

    def broker_pods(self) -> list[Json]:
        return self.namespace.items("pods", "-l", BROKERS)

    def running(self) -> list[tuple[str, str, int]]:
        """Name, uid and restarts of each pod of brokers and controllers."""
        pods = self.namespace.items("pods", "-l", f"sluicegate.dev/cluster={CLUSTER}")
        return sorted(
            (pod["metadata"]["name"], pod["metadata"]["uid"], sum(map(_restarts, _containers(pod)))) for pod in pods
        )

    def open_listener(self) -> str:
        """Add a listener without TLS and authentication, whose clients may read only, and return its addresses."""
        reads = {"resource": {"type": "topic", "name": "orders", "patternType": "prefix"}, "operations": ["Read"]}
        listener = {"clusterRef": {"name": CLUSTER}, "name": "OPEN", "port": OPEN_PORT}
        user = {"clusterRef": {"name": CLUSTER}, "userName": "ANONYMOUS", "authorization": {"acls": [reads]}}
        self.namespace.apply(
            document("BrokerListener", "shop-open", listener), document("KafkaUser", "anonymous", user)
        )
        self.namespace.await_ready("bl,usr")
        return self._addresses(OPEN_PORT)

    def create_topic(self, name: str) -> None:
        """Create a topic of two partitions."""
        # The client ends with its last reference, also before its answer.
        admin = self._admin()
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)

    def _addresses(self, port: int) -> str:
        return ",".join(f"{pod['status']['podIP']}:{port}" for pod in self.broker_pods())

    def _admin(self) -> AdminClient:
        """Connect to the listener INTERNAL as the operator does."""
        nodes = f"{CLUSTER}-cluster-tls"
        return AdminClient(
            {
                "bootstrap.servers": self._addresses(INTERNAL_PORT),
                "security.protocol": "SSL",
                "ssl.ca.pem": self.secret(nodes, "truststore.pem"),
                "ssl.certificate.pem": self.secret(nodes, "operator.crt"),
                "ssl.key.pem": self.secret(nodes, "operator.key"),
                # Nodes have the name of their Service, which librdkafka cannot be told.
                "ssl.endpoint.identification.algorithm": "none",
                "log_level": 2,
            }
        )

    def in_force(self) -> dict[str, set[tuple[str, tuple[str, ...]]]]:
        """By node: the certificate and the authorities of INTERNAL and CONTROLLER, as it reports them."""
        found = {}
        for pod in self.namespace.items("pods", "-l", f"sluicegate.dev/cluster={CLUSTER}"):
            told = json.loads(self._http(pod["metadata"]["name"], "tls"))["listeners"]
            own = [one for one in told if one["listener"] in ("INTERNAL", "CONTROLLER")]
            found[pod["metadata"]["name"]] = {(one["certificate"], tuple(one["authorities"])) for one in own}
        return found

    def _http(self, pod: str, path: str) -> str:
        return self.namespace.kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:9404/proxy/{path}")

    def limit_sessions(self, seconds: int) -> None:
        """Limit the sessions of both listeners, and wait until the brokers were rolled for it."""
        before = self.running()
        patch = json.dumps({"spec": {"authentication": {ROLLED_BY: seconds}}})
        for listener in ("shop-secure", "shop-tokens"):
            self.namespace.kubectl("patch", "bl", listener, "--type=merge", "-p", patch)

        def look() -> bool:
            assert not set(before) & {one for one in self.running() if "brokers" in one[0]}, "not rolled yet"
            cluster = self.namespace.kube.get("bc", "shop", "-n", NAMESPACE)
            assert condition_of(cluster, "Rolling").get("status") == "False", "rolling"
            return condition_of(cluster, "Ready").get("status") == "True"

        wait_for("the brokers were rolled for sessions that end", look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.3)
        self.namespace.await_ready("bc,bl,topic,usr")

    def update_files(self, mark: str) -> None:
        """Have the kubelet update the folders of Secrets now; by itself it does so within about a minute."""
        for pod in self.namespace.items("pods", "-l", f"sluicegate.dev/cluster={CLUSTER}"):
            self.namespace.kubectl("annotate", "pod", pod["metadata"]["name"], f"e2e/updated={mark}", "--overwrite")

    def metric(self, series: str) -> float:
        """Return the sum of a metric's values over labels and brokers, as the brokers show it."""
        total = 0.0
        for pod in self.broker_pods():
            for line in self._http(pod["metadata"]["name"], "metrics").splitlines():
                if line.startswith((f"{series}{{", f"{series} ")):
                    total += float(line.rpartition(" ")[2])
        return total

    def described(self) -> str:
        """Return all that DescribeConfigs and DescribeUserScramCredentials answer."""
        admin = self._admin()
        topics = admin.list_topics(timeout=10).topics
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        asked += [ConfigResource(ResourceType.BROKER, str(index)) for index in range(len(self.broker_pods()))]
        lines = [
            f"{resource}: {entry.name}={entry.value} sensitive={entry.is_sensitive}"
            for resource in asked
            for entry in admin.describe_configs([resource])[resource].result(10).values()
        ]
        users = admin.describe_user_scram_credentials(["billing"])["billing"].result(10)
        return "\n".join([*lines, str(vars(users)) if hasattr(users, "__dict__") else str(users)])

    # -- clients -----------------------------------------------------------------------------------------------

    def secret(self, name: str, key: str) -> str:
        return base64.b64decode(self.namespace.kube.get("secret", name, "-n", NAMESPACE)["data"][key]).decode()

    def client(self, name: str, topic: str, seconds: float, environment: Mapping[str, str], **token: object) -> None:
        """Start a pod like the example's `reporting` that runs ticker.py; `token`: fields of its projected token.

        The pod has a second token beside it, `second`, of the same service account.
        """
        *_, pod = yaml.safe_load_all((FOLDER / "kubernetes" / "clients.yaml").read_text(encoding="utf-8"))
        pod["metadata"]["name"] = name
        pod["spec"]["restartPolicy"] = "Never"
        [container] = pod["spec"]["containers"]
        container["command"] = ["python", "/clients/ticker.py", "/clients/reporting.py", topic, f"{seconds:g}"]
        container["env"] = [{"name": key, "value": value} for key, value in environment.items()]
        volumes: dict[str, Any] = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        volumes["programs"]["configMap"]["name"] = TICKER.stem
        [source] = volumes["token"]["projected"]["sources"]
        own: Json = source["serviceAccountToken"]
        second = {**own, "path": "second", "expirationSeconds": 7200}
        volumes["token"]["projected"]["sources"] = [
            {"serviceAccountToken": own | token},
            {"serviceAccountToken": second},
        ]
        programs = {
            path.name: path.read_text(encoding="utf-8") for path in (TICKER, FOLDER / "kubernetes/reporting.py")
        }
        metadata = {"name": TICKER.stem}
        self.namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": programs}, pod)

    def report(self, name: str, timeout_s: float = READY_TIMEOUT_S) -> Json:
        """Wait for the end of a client, and return what it printed."""

        def look() -> bool:
            phase = self.namespace.kube.get("pod", name, "-n", NAMESPACE)["status"].get("phase")
            assert phase != "Failed", self.namespace.kubectl("logs", name)
            return bool(phase == "Succeeded")

        wait_for(f"pod {name} has ended", look, timeout_s=timeout_s, interval_s=0.3)
        found: Json = json.loads(self.namespace.kubectl("logs", name).splitlines()[-1])
        return found

    def hide_tokens(self) -> None:
        """Add the tokens of pods to what no output may show: they are in no Secret."""
        places = {"reporting": f"{TOKENS}/token"}
        places |= {pod["metadata"]["name"]: BROKERS_TOKEN for pod in self.broker_pods()}
        for pod, path in places.items():
            token = self.namespace.kubectl("exec", pod, "--", "python", "-c", f"print(open({path!r}).read())")
            self.outputs.hide_value(f"the token of pod {pod}", token)


def _containers(pod: Json) -> list[Json]:
    """Return the states of the containers; a pod that was just made has none."""
    found: list[Json] = pod["status"].get("containerStatuses") or []
    return found


def _restarts(container: Json) -> int:
    return int(container["restartCount"])


@contextmanager
def secure_example(kube: Kube, folder: Path, outputs: Outputs) -> Iterator[SecureExample]:
    """Give the operator the right to Secrets, and remove the page's namespace and the right afterwards."""
    own = folder / "kubeconfig"
    own.write_text(kube.kubectl("config", "view", "--raw", "--flatten", "--minify"), encoding="utf-8")
    example = SecureExample(OwnNamespace(kube, NAMESPACE), folder, outputs)
    example.namespace.delete()
    install_operator("rbac.secrets=true")
    try:
        yield example
    finally:
        kube.kubectl("delete", "namespace", NAMESPACE, "--wait=false", "--ignore-not-found")
        install_operator()
