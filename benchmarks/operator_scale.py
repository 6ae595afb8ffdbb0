"""`python -m benchmarks.operator_scale`: many clusters and quotas under one operator process and a real API server.

Brokers are played by this process (tests/support/served_clusters.py), so what is measured is the operator: how long
until every quota's status says that all brokers enforce it, how long one urgent change takes meanwhile, whether the
Lease was lost, and what it costs in memory, processor time and requests.
"""

import argparse
import asyncio
import json
import os
import re
import ssl
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from e2e.cluster.binaries import binaries_folder
from e2e.cluster.control_plane import ControlPlane
from e2e.operator_process import OPERATOR_NAMESPACE, OperatorProcess
from e2e.shop import condition_of, install_crds
from tests.support.process_kubelet.api import Access, Json, KubeApi
from tests.support.served_clusters import ServedClusters

NAMESPACE = "default"
ROOT = "/apis/sluicegate.dev/v1alpha1/namespaces/default"
MERGE = "application/merge-patch+json"
WRITERS = 4
LOOK_EVERY_S = 0.5
DEADLINE_S = 240.0
RESYNC_S = 60
"""A cluster's own default."""
IDLE_S = 20.0
OURS = ("brokerclusters", "connectionquotas", "brokerregistrations", "pods", "leases", "statefulsets", "services")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.operator_scale")
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--quotas", type=int, default=500)
    options = parser.parse_args(arguments)
    binaries_folder()
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-scale-"))
    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", OPERATOR_NAMESPACE)
        install_crds(plane)
        figures = asyncio.run(_measure(plane, folder, options))
    print(json.dumps(figures, indent=1))
    return 0


async def _measure(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    access = Access(plane.url, str(plane.certificate), plane.token)
    names = [f"c{number}" for number in range(options.clusters)]
    operator = OperatorProcess(plane.kubeconfig, folder / "operator.log", "measured", RESYNC_S)
    async with ServedClusters(KubeApi(access), NAMESPACE, names, options.brokers) as served:
        with operator:
            world = _World(KubeApi(access), access, operator)
            started_s = time.monotonic()
            await asyncio.to_thread(world.create, "brokerclusters", [_cluster(n, options.brokers) for n in names])
            await world.until_ready("brokerclusters", len(names))
            clusters_s = time.monotonic() - started_s
            cpu_s, started_s = world.cpu_s(), time.monotonic()
            quotas = [_quota(number, names) for number in range(options.quotas)]
            await asyncio.to_thread(world.create, "connectionquotas", quotas)
            created_s = time.monotonic() - started_s
            urgent = asyncio.create_task(_urgent(world, served, quotas[0]))
            await world.until_ready("connectionquotas", len(quotas))
            ready_s, cpu_s = time.monotonic() - started_s, world.cpu_s() - cpu_s
            urgent_s = await urgent
            idle = await world.idle()
            return {
                "clusters": len(names),
                "brokers": options.brokers,
                "quotas": len(quotas),
                "clusters_ready_s": round(clusters_s, 1),
                "quotas_created_s": round(created_s, 1),
                "quotas_ready_s": round(ready_s, 1),
                "quotas_ready_cpu_s": round(cpu_s, 1),
                "urgent_enforced_s": round(urgent_s, 2),
                "leases_lost": operator.output().count("has lost the Lease"),
                "peak_rss_mb": world.peak_mb(),
                **idle,
            }


async def _urgent(world: "_World", served: ServedClusters, quota: Json) -> float:
    """From the changed quota to the broker's own answer, while the statuses of the others are written."""
    address = quota["spec"]["target"]["ip"]
    path = f"{ROOT}/connectionquotas/{quota['metadata']['name']}"
    started_s = time.monotonic()
    await asyncio.to_thread(world.patch, path, {"spec": {"maxConnectionCreationRate": 77}})
    rates = served.clusters[quota["spec"]["clusterRef"]["name"]]
    async with asyncio.timeout(DEADLINE_S):
        await rates.until(lambda: rates.ip_rates.get(address) == 77.0)
    return time.monotonic() - started_s


class _World:
    def __init__(self, api: KubeApi, access: Access, operator: OperatorProcess) -> None:
        self._api = api
        self._access = access
        self._operator = operator

    def create(self, plural: str, documents: list[Json]) -> None:
        def some(first: int) -> None:
            api = KubeApi(self._access)
            for document in documents[first::WRITERS]:
                api.create(f"{ROOT}/{plural}", document)
            api.close()

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(some, range(WRITERS)))

    def patch(self, path: str, change: Json) -> None:
        api = KubeApi(self._access)
        api.patch(path, change, MERGE)
        api.close()

    async def until_ready(self, plural: str, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self._operator.must_run()
                found = (await asyncio.to_thread(self._api.get, f"{ROOT}/{plural}"))["items"]
                ready = sum(_is_ready(item) for item in found)
                if ready >= count:
                    return
                print(f"{plural}: {ready} of {count} ready, {self.peak_mb()} MB", file=sys.stderr, flush=True)
                await asyncio.sleep(LOOK_EVERY_S)

    async def idle(self) -> dict[str, object]:
        """What nothing costs, in a minute."""
        await asyncio.sleep(IDLE_S / 2)
        cpu_s, before = self.cpu_s(), await asyncio.to_thread(self._requests)
        await asyncio.sleep(IDLE_S)
        cpu_s, after = self.cpu_s() - cpu_s, await asyncio.to_thread(self._requests)
        made = {key: round((after[key] - before.get(key, 0)) * 60 / IDLE_S) for key in sorted(after)}
        return {
            "idle_cpu_percent": round(100 * cpu_s / IDLE_S, 1),
            "idle_requests_a_minute": {k: n for k, n in made.items() if n},
        }

    def _requests(self) -> dict[str, float]:
        """By verb and resource, of everybody: a list of pods every 300 ms is the benchmark's own."""
        request = urllib.request.Request(
            f"{self._access.url}/metrics", headers={"Authorization": f"Bearer {self._access.token}"}
        )
        context = ssl.create_default_context(cafile=self._access.certificate)
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for labels, value in re.findall(r"^apiserver_request_total\{(.*?)\} (\S+)$", text, re.MULTILINE):
            named = dict(re.findall(r'(\w+)="(.*?)"', labels))
            if named["resource"] in OURS and named["verb"] != "WATCH":
                key = f"{named['verb']} {named['resource']}{'/' if named['subresource'] else ''}{named['subresource']}"
                found[key] = found.get(key, 0.0) + float(value)
        return found

    def peak_mb(self) -> int:
        status = Path(f"/proc/{self._operator.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) // 1024 if found else -1

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._operator.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_ready(document: dict[str, Any]) -> bool:
    ready = condition_of(document, "Ready")
    return ready.get("status") == "True" and ready.get("observedGeneration") == document["metadata"]["generation"]


def _document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _cluster(name: str, brokers: int) -> Json:
    return _document("BrokerCluster", name, {"brokers": {"replicas": brokers, "storage": {"size": "1Gi"}}})


def _quota(number: int, clusters: list[str]) -> Json:
    spec = {
        "clusterRef": {"name": clusters[number % len(clusters)]},
        "target": {"ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"},
        "maxConnectionCreationRate": 5,
    }
    return _document("ConnectionQuota", f"q{number}", spec)


if __name__ == "__main__":
    sys.exit(main())
