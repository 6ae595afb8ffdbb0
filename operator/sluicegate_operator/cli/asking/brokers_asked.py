"""Sends a GET to every broker of a cluster: on this machine by state.json, in Kubernetes through the API server.

If a broker gives no answer, its result is a sentence; the other brokers are not delayed. In Kubernetes the API server
forwards each request to a pod (pods/proxy), so that only a kubeconfig is needed.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sluicegate_operator.cli.asking.why_report import BrokerAnswer
from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.fleet.local.local_data import read_state
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import POD
from sluicegate_operator.planning.layout.cluster_layout import HTTP_PORT, Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, ROLE_LABEL, node_set_name
from sluicegate_operator.resources.owner import has_controller, other_controller

ANSWER_TIMEOUT_S = 3.0
ASKED_AT_A_TIME = 16
"""Number of nodes that one command asks at the same time."""
NO_SUCH_ANSWER = "the broker's release does not support this request"

Json = dict[str, Any]
Get = Callable[[str], Awaitable[Json]]
"""A function that returns the document at a path with its query. It raises AskingError."""
ReadText = Callable[[str], Awaitable[str]]
"""A function that returns the text at a path, which need not be JSON. It raises AskingError."""


class AskingError(Exception):
    """Error of a request that a broker did not answer. The message is half a sentence with the reason."""


class NoSuchAnswerError(AskingError):
    """Error of a request that the broker does not know, because it has another release."""


class NobodyToAskError(Exception):
    """Error if the cluster does not exist, or cannot be searched for. The message says what to do."""


async def _no_text(target: str) -> str:
    raise NoSuchAnswerError(NO_SUCH_ANSWER)


@dataclass(frozen=True, slots=True)
class BrokerAsked:
    """One broker, and the functions that send it a GET request: for a JSON document, and for text."""

    cluster: str
    broker_id: int
    get: Get
    text: ReadText = _no_text


async def ask_brokers(brokers: Sequence[BrokerAsked], path: str, query: Mapping[str, str]) -> list[BrokerAnswer]:
    """Send an HTTP request to all brokers. Return the answers in the order of `brokers`."""
    slots = asyncio.Semaphore(ASKED_AT_A_TIME)
    target = f"{path}?{urlencode(query)}" if query else path

    async def ask(broker: BrokerAsked) -> BrokerAnswer:
        async with slots:
            try:
                return BrokerAnswer(broker.cluster, broker.broker_id, await broker.get(target))
            except AskingError as error:
                return BrokerAnswer(broker.cluster, broker.broker_id, None, str(error))

    return list(await asyncio.gather(*(ask(broker) for broker in brokers)))


def brokers_here(data_dir: Path, cluster: str | None) -> list[BrokerAsked]:
    """Return the brokers of `sluicegate up`. Raises DataDirError if none runs, and NobodyToAskError."""
    clusters = read_state(data_dir)["clusters"]
    if cluster is not None and cluster not in clusters:
        raise NobodyToAskError(f"--cluster {cluster}: `up` runs {', '.join(sorted(clusters))}")
    names = [cluster] if cluster is not None else sorted(clusters)
    if names and all("external" in clusters[name] for name in names):
        raise NobodyToAskError(
            f"{', '.join(names)}: runtime External, and Apache Kafka does not report which quotas delay or"
            " reject an address; `sluicegate status` shows the quotas, kafka-configs.sh --describe"
            " --entity-type ips the limits that are set"
        )
    return [
        broker_here(name, node) for name in names for node in clusters[name]["nodes"] if node["role"] == Role.BROKER
    ]


def broker_here(cluster: str, node: Mapping[str, Any]) -> BrokerAsked:
    """Return a broker of `sluicegate up`; `node` is its entry in state.json."""
    text = _local(node)

    async def get(target: str) -> Json:
        return _parsed(await text(target))

    return BrokerAsked(cluster, node["id"], get, text)


def _local(node: Mapping[str, Any]) -> ReadText:
    async def read(target: str) -> str:
        if node["pid"] is None:
            raise AskingError(node["failing"] or "the broker is not running")
        host, _, port = node["http"].rpartition(":")
        try:
            answer = await http_get((host, int(port)), target, timeout_s=ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise AskingError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise AskingError(str(error)) from error
        if answer.status == 404:
            raise NoSuchAnswerError(NO_SUCH_ANSWER)
        if answer.status != 200:
            raise AskingError(f"HTTP {answer.status}: {answer.body.strip()[:300]}")
        return answer.body

    return read


async def brokers_in_kubernetes(kube: KubeClient, namespace: str, cluster: str | None) -> list[BrokerAsked]:
    """Return the brokers of a namespace, or of one cluster in it. Raises KubeError and NobodyToAskError."""
    selector = f"{ROLE_LABEL}={Role.BROKER},{CLUSTER_LABEL}" + (f"={cluster}" if cluster is not None else "")
    pods = [pod for pod in await kube.list(POD, namespace, selector) if is_node(pod)]
    if not pods:
        whose = f"cluster {cluster}" if cluster is not None else "any cluster"
        raise NobodyToAskError(
            f"namespace {namespace} has no broker pods of {whose}; set the namespace with -n NAMESPACE"
        )
    found = [broker_in_pod(kube, namespace, pod) for pod in pods]
    return sorted(found, key=lambda broker: (broker.cluster, broker.broker_id))


def is_node(pod: Json) -> bool:
    """Return whether a pod with a cluster's label is a node of the cluster: any user may set labels.

    A node has the name of a node. It also has the annotation of the operator's StatefulSet templates, or a controller
    with the name of the operator's StatefulSet.
    """
    meta = pod["metadata"]
    cluster, role = (meta["labels"].get(label, "") for label in (CLUSTER_LABEL, ROLE_LABEL))
    if role not in list(Role):
        return False
    node_set = node_set_name(cluster, role)
    if not re.fullmatch(f"{re.escape(node_set)}-[0-9]+", meta["name"]) or other_controller(pod, node_set):
        return False
    return has_controller(pod) or REVISION in (meta.get("annotations") or {})


def broker_in_pod(kube: KubeClient, namespace: str, pod: Json) -> BrokerAsked:
    """Return the broker of a pod, to which the API server forwards each request."""
    text = _proxied_text(kube, namespace, pod)
    return BrokerAsked(pod["metadata"]["labels"][CLUSTER_LABEL], _index(pod), proxied(kube, namespace, pod), text)


def _index(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def proxied(kube: KubeClient, namespace: str, pod: Json) -> Get:
    """Return a function for GETs that the API server forwards to the node of a pod."""

    async def get(target: str) -> Json:
        try:
            found = await kube.read(_proxy_path(namespace, pod, target))
        except KubeError as error:
            raise AskingError(str(error)) from error
        if found is None:
            raise NoSuchAnswerError(NO_SUCH_ANSWER)
        return found

    return get


def _proxied_text(kube: KubeClient, namespace: str, pod: Json) -> ReadText:
    async def read(target: str) -> str:
        try:
            return await kube.text(_proxy_path(namespace, pod, target))
        except KubeError as error:
            raise AskingError(str(error)) from error

    return read


def _proxy_path(namespace: str, pod: Json, target: str) -> str:
    """Return the API server's path of a node's HTTP listener. Raises AskingError if the pod does not run."""
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise AskingError(f"the broker's pod is {phase or 'not started'}")
    return f"{POD.path(namespace, pod['metadata']['name'])}:{HTTP_PORT}/proxy{target}"


def _parsed(text: str) -> Json:
    try:
        document = json.loads(text)
    except ValueError:
        raise AskingError("the broker's response is not JSON") from None
    if not isinstance(document, dict):
        raise AskingError("the broker's response is not a JSON object")
    return document
