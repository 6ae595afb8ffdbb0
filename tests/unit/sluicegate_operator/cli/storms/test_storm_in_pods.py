"""A storm from pods of Kubernetes: the pods that it makes, its report, and that it leaves nothing behind."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sluicegate_operator.cli.asking import kubernetes_asked
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.storms.storm import StormOptions, pod_storm, storm, target_here
from sluicegate_operator.cli.storms.storm_in_pods import PodStorm, PodStorms, StormPodError, report_in
from sluicegate_operator.cli.storms.storm_tables import pods_table
from sluicegate_operator.cli.storms.storm_targets import StormInputError
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.http.kinds import POD, SERVICE, Kind
from sluicegate_operator.resources.storm_pod import RUN_LABEL
from tests.support.manifests.bad_manifests import listener

pytestmark = pytest.mark.virtual_time
Json = dict[str, Any]

REPORT = {
    "target": "10.96.0.7:9094",
    "attempts": 200,
    "accepted": 60,
    "closed": 0,
    "refused": 0,
    "timed_out": 140,
    "local_error": 0,
    "latency_ms": {"p50": 1.5, "p99": 1900.0},
}
BROKER: Json = {
    "metadata": {
        "name": "shop-brokers-0",
        "labels": {"sluicegate.dev/cluster": "shop", "app.kubernetes.io/component": "broker"},
        "annotations": {"sluicegate.dev/revision": "{}"},
    },
    "spec": {
        "containers": [{"name": "mesh", "image": "mesh"}, {"name": "broker", "image": "registry/sluicegate:1"}],
        "imagePullSecrets": [{"name": "pull"}],
    },
}
PULLING = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]}
UNSCHEDULED = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"}]}


LISTENER = listener() | {"metadata": {"name": "shop-external", "uid": "of-the-listener"}}
OWN_SERVICE: Json = {"metadata": {"ownerReferences": [{"controller": True, "uid": "of-the-listener"}]}}


class Kube:
    """The part of KubeClient used here. A pod that is made ends as `state` says, with `log`."""

    def __init__(self, *brokers: Json, state: Json | None = None, log: str = json.dumps(REPORT)) -> None:
        self.brokers = brokers
        self.state = {"phase": "Succeeded", "podIP": "10.1.0.9"} if state is None else state
        self.logged = log
        self.pods: dict[str, Json] = {}
        self.made: list[Json] = []
        self.service: Json | None = OWN_SERVICE
        self.selectors: list[str] = []

    async def list(self, kind: Kind, namespace: str, selector: str = "") -> list[Json]:
        if kind is not POD:
            return [LISTENER]
        self.selectors.append(selector)
        return list(self.pods.values()) if selector.startswith(RUN_LABEL) else list(self.brokers)

    async def create(self, kind: Kind, namespace: str, manifest: Json) -> Json:
        assert (kind, namespace) == (POD, "kafka")
        self.made.append(manifest)
        name = f"{manifest['metadata']['generateName']}{len(self.made)}"
        meta = manifest["metadata"] | {"name": name, "uid": f"uid-of-{name}"}
        self.pods[name] = manifest | {"metadata": meta, "status": self.state}
        return self.pods[name]

    async def text(self, path: str) -> str:
        assert path.startswith("/api/v1/namespaces/kafka/pods/sluicegate-storm-")
        assert path.endswith("/log")
        return self.logged

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        assert (kind, namespace, name) == (SERVICE, "kafka", "shop-external")
        return self.service

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        assert uid == f"uid-of-{name}"
        del self.pods[name]

    def close(self) -> None:
        pass


def wanted(pods: int = 1, to: str = "listener/EXTERNAL", **more: Any) -> PodStorm:
    options = {"rate": 300.0, "workers": None, "sources": "", "seconds": 6.0, "timeout_s": 2.0, "max_open": 64}
    return pod_storm(StormOptions(to, owned=True, **(options | more)), "kafka", None, pods)


async def run(kube: Kube, storm_: PodStorm) -> Any:
    return await PodStorms(kube, storm_).run()  # type: ignore[arg-type]


async def test_pods_of_the_brokers_image_storm_the_service_of_the_listener() -> None:
    kube = Kube(BROKER)
    reports = await run(kube, wanted(2))
    assert reports == {f"sluicegate-storm-{n}": REPORT | {"address": "10.1.0.9"} for n in (1, 2)}
    spec = kube.made[0]["spec"]
    [container] = spec["containers"]
    assert (container["image"], spec["imagePullSecrets"]) == ("registry/sluicegate:1", [{"name": "pull"}])
    assert " ".join(container["command"]) == (
        "sluicegate storm --to shop-external.kafka.svc:9094 --rate 300 --seconds 6 --timeout 2 --max-open 64"
        " --output json --yes-i-own-this-target"
    )
    assert spec["activeDeadlineSeconds"] == 158
    assert spec["securityContext"]["runAsNonRoot"]
    assert kube.pods == {}, "nothing stays behind"


async def test_a_host_is_what_pods_can_reach_too() -> None:
    kube = Kube(BROKER)
    await run(kube, wanted(to="kafka.example.org:9092", workers=4))
    assert " ".join(kube.made[0]["spec"]["containers"][0]["command"]).startswith(
        "sluicegate storm --to kafka.example.org:9092 --workers 4 "
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [(PULLING, "ErrImagePull: no such image"), (UNSCHEDULED, "Insufficient cpu"), ({}, "the pod is Pending")],
)
async def test_a_pod_that_does_not_start_is_said_with_its_reason_and_deleted(state: Json, words: str) -> None:
    kube = Kube(BROKER, state=state)
    with pytest.raises(StormPodError, match=f"pod sluicegate-storm-1 did not start within 120 s: {words}"):
        await run(kube, wanted())
    assert kube.pods == {}


async def test_a_pod_that_another_client_deletes_ends_the_storm() -> None:
    kube = Kube(BROKER, state={"phase": "Running"})
    storming = asyncio.create_task(run(kube, wanted(2)))
    await asyncio.sleep(1.0)
    await kube.delete(POD, "kafka", "sluicegate-storm-1", uid="uid-of-sluicegate-storm-1")
    kube.pods["sluicegate-storm-2"] |= {"status": {"phase": "Succeeded"}}
    with pytest.raises(StormPodError, match="1 of 2 storm pods were deleted before they returned a report"):
        await asyncio.wait_for(storming, 600)
    assert kube.pods == {}


async def test_a_pods_error_is_shown_in_place_of_its_report() -> None:
    kube = Kube(BROKER, state={"phase": "Failed"}, log="--to x: the name cannot be resolved\n")
    with pytest.raises(StormPodError, match="pod sluicegate-storm-1 returned no report: --to x: the name"):
        await run(kube, wanted())
    assert kube.pods == {}


def test_a_report_is_found_among_other_lines() -> None:
    assert report_in(f"a warning\n{json.dumps(REPORT, indent=2)}\nno attempt reached it\n", "p") == REPORT
    for log in ("", "{", "[1]"):
        with pytest.raises(StormPodError, match="pod p returned no report"):
            report_in(log, "p")


OTHER: Json = BROKER | {
    "metadata": BROKER["metadata"]
    | {"name": "bar-brokers-0", "labels": BROKER["metadata"]["labels"] | {"sluicegate.dev/cluster": "bar"}}
}


@pytest.mark.parametrize(
    ("brokers", "to", "words"),
    [
        ([], "listener/EXTERNAL", "namespace kafka has no broker pods of any cluster"),
        ([BROKER, OTHER], "listener/EXTERNAL", "namespace kafka has bar, shop; choose one with --cluster"),
        ([BROKER], "listener/OTHER", "cluster shop has no listener OTHER; its listeners are EXTERNAL"),
    ],
)
async def test_a_missing_target_is_reported_before_a_pod_is_created(brokers: list[Json], to: str, words: str) -> None:
    kube = Kube(*brokers)
    with pytest.raises(NobodyToAskError, match=words):
        await run(kube, wanted(to=to))
    assert kube.made == []


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ({"metadata": {}}, "Service shop-external does not belong to listener EXTERNAL"),
        (
            {"metadata": {"ownerReferences": [{"controller": True, "uid": "theirs"}]}},
            "a storm would hit another target",
        ),
        (None, "listener EXTERNAL has no Service shop-external"),
    ],
)
async def test_no_storm_hits_a_strangers_service_of_the_listeners_name(service: Json | None, words: str) -> None:
    kube = Kube(BROKER)
    kube.service = service
    with pytest.raises(NobodyToAskError, match=words):
        await run(kube, wanted())
    assert kube.made == []


async def test_no_storm_runs_the_image_of_a_pod_that_is_no_broker() -> None:
    image = {"containers": [{"name": "broker", "image": "theirs"}]}
    named = BROKER | {"metadata": BROKER["metadata"] | {"name": "load-0"}, "spec": image}
    made = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "load", "controller": True}]}
    bare = {"name": "shop-brokers-1", "annotations": {}}
    others = [BROKER | {"metadata": BROKER["metadata"] | meta, "spec": image} for meta in (made, bare)]
    kube = Kube(named, *others, BROKER)
    await run(kube, wanted())
    assert kube.made[0]["spec"]["containers"][0]["image"] == "registry/sluicegate:1"


def test_each_pod_has_a_line() -> None:
    out = io.StringIO()
    reports = {"storm-b": REPORT | {"address": "10.1.0.9"}, "storm-a": REPORT | {"address": "", "latency_ms": {}}}
    Console(file=out, width=140).print(pods_table(reports))
    rows = [" ".join(line.replace("│", " ").split()) for line in out.getvalue().splitlines()]
    assert "storm-a 200 60 0 0 140 0 -" in rows
    assert "storm-b 10.1.0.9 200 60 0 0 140 0 1900" in rows


def command(*arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(storm)
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "listener/EXTERNAL"], "add --yes-i-own-this-target if the brokers are yours"),
        (["--to", "listener/EXTERNAL", "--yes-i-own-this-target", "--sources", "10.0.0.1"], "see --pods"),
        (["--to", "nowhere", "--yes-i-own-this-target"], "--to"),
    ],
)
def test_invalid_arguments_are_reported_and_exit_with_2(arguments: list[str], words: str) -> None:
    code, _, said = command("-n", "kafka", *arguments)
    assert (code, words in said) == (2, True)


def test_the_command_shows_a_table_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = Kube(BROKER)
    monkeypatch.setattr(kubernetes_asked, "KubeClient", lambda _: kube)
    arguments = ("-n", "kafka", "--to", "listener/EXTERNAL", "--yes-i-own-this-target")
    code, out, said = command(*arguments)
    assert (code, "sluicegate-storm-1" in out) == (0, True)
    assert said == "a pod storms in namespace kafka for 10 s; Ctrl-C ends it\n"
    code, out, _ = command(*arguments, "-o", "json")
    assert json.loads(out)["pods"]["sluicegate-storm-2"]["accepted"] == 60
    kube.logged = json.dumps(REPORT | {"accepted": 0, "timed_out": 0, "refused": 200})
    code, _, said = command(*arguments)
    assert (code, "no attempt reached the target" in said) == (1, True)


def test_the_reports_of_the_other_pods_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halves(Kube):
        async def text(self, path: str) -> str:
            return "killed" if "storm-1/" in path else self.logged

    kube = Halves(BROKER)
    monkeypatch.setattr(kubernetes_asked, "KubeClient", lambda _: kube)
    arguments = ("-n", "kafka", "--to", "listener/EXTERNAL", "--yes-i-own-this-target", "--pods", "2", "-o", "json")
    code, out, said = command(*arguments)
    assert (code, list(json.loads(out)["pods"])) == (1, ["sluicegate-storm-2"])
    assert "pod sluicegate-storm-1 returned no report: killed" in said
    assert kube.pods == {}


def test_a_listener_of_up_is_found_on_a_broker_that_runs(tmp_path: Path) -> None:
    nodes = [
        {"id": 0, "role": "broker", "pid": None, "listeners": {"EXTERNAL": "127.0.0.1:1"}},
        {"id": 1, "role": "broker", "pid": 7, "listeners": {"EXTERNAL": "127.0.0.1:2"}},
    ]
    with DataDir(tmp_path) as data:
        data.write_state({"pid": 1, "clusters": {"shop": {"nodes": nodes}}, "last_change": None})
        assert target_here("listener/EXTERNAL", None, tmp_path) == "127.0.0.1:2"
        assert target_here("127.0.0.1:9", None, tmp_path) == "127.0.0.1:9"
        for to, cluster in (("listener/OTHER", None), ("listener/EXTERNAL", "bar")):
            with pytest.raises(StormInputError, match="no broker of `up` has this listener open"):
                target_here(to, cluster, tmp_path)
    with pytest.raises(StormInputError, match="or name a cluster in Kubernetes with -n NAMESPACE"):
        target_here("listener/EXTERNAL", None, tmp_path / "nowhere")
