"""AuditPipelines of one cluster: their children, created once, and the messages to users."""

from contextlib import suppress
from typing import Any

import pytest

from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.pipelines import PipelineReconciler
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import SPARK_APPLICATION, Kind
from sluicegate_operator.resources.audit.audit_spark import KEPT
from sluicegate_operator.settings import read_settings
from tests.support.audit.pipeline_runs import SUMMARY, job, job_pod, spark_run, time, waiting_pod
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.manifests.pipeline_manifests import SPARK, pipeline

pytestmark = pytest.mark.virtual_time

KIND = "AuditPipeline"
KUBEFLOW = SPARK | {"sparkOperator": "kubeflow"}
LANDED = cluster(audit={"landing": {"claimName": "audit"}})


class WithoutSparkOperator(MemoryKube):
    async def list(self, kind: Kind, namespace: str | None, *arguments: Any, **more: Any) -> list[Json]:
        self._must_know(kind)
        return await super().list(kind, namespace, *arguments, **more)

    async def create(self, kind: Kind, namespace: str, manifest: Any) -> Json:
        self._must_know(kind)
        return await super().create(kind, namespace, manifest)

    def _must_know(self, kind: Kind) -> None:
        if kind == SPARK_APPLICATION:
            raise KubeError("404 the server could not find the requested resource", 404)


class WithoutRightToListSparkApplications(MemoryKube):
    async def list(self, kind: Kind, namespace: str | None, *arguments: Any, **more: Any) -> list[Json]:
        if kind == SPARK_APPLICATION:
            raise KubeError("GET sparkapplications: 403 forbidden", 403)
        return await super().list(kind, namespace, *arguments, **more)


class RefusingLists(MemoryKube):
    """Refuses to list objects of one kind in a namespace, or `everywhere`, once a test names the kind."""

    refused_list = ""
    everywhere = False
    retriable = False

    async def list(self, kind: Kind, namespace: str | None, *arguments: Any, **more: Any) -> list[Json]:
        if kind.kind == self.refused_list and (namespace is not None or self.everywhere):
            raise KubeError(f"GET {kind.plural}: forbidden", 403, retriable=self.retriable)
        return await super().list(kind, namespace, *arguments, **more)


class Shop:
    def __init__(self, *objects: Json, kube: type[MemoryKube] = MemoryKube) -> None:
        self.kube = kube(*objects)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self._reconciler = PipelineReconciler(self.context)

    async def reconcile(self) -> Again:
        return await self._reconciler.reconcile(("default", "shop"))

    def status(self) -> Any:
        return self.kube.take(KIND, "daily")["status"]


async def test_a_cron_job_and_its_files_are_created_and_results_are_in_the_status() -> None:
    shop = Shop(LANDED, pipeline())
    await shop.reconcile()
    assert (shop.kube.names("CronJob"), shop.kube.names("ConfigMap")) == (["daily"], ["daily-pipeline"])
    assert shop.kube.condition(KIND, "daily")["reason"] == "Scheduled"
    shop.kube.put(job("daily-1"))
    shop.kube.put(job_pod("daily-1", 0, SUMMARY))
    assert isinstance(await shop.reconcile(), Retry), "its Job has not taken notice yet"
    shop.kube.put(job("daily-1", "Complete"))
    again = await shop.reconcile()
    assert shop.status()["events"] == 123
    figures = {sample.name: sample.value for family in shop.context.figures.collect() for sample in family.samples}
    assert figures["sluicegate_audit_pipeline_failing"] == 0
    assert figures["sluicegate_audit_pipeline_missing_events"] == shop.status()["missing"] + shop.status()["holes"]
    assert [event["type"] for event in shop.kube.events("RunSucceeded")] == ["Normal"]
    assert isinstance(again, float)
    assert 50 < again < 70, "no hot loop"


async def test_a_pipeline_without_an_image_has_that_of_the_settings() -> None:
    kube = MemoryKube(LANDED, pipeline())
    settings = read_settings({"SLUICEGATE_PIPELINE_IMAGE": "set:1"}, None, None, None)
    await PipelineReconciler(Context(kube, settings)).reconcile(("default", "shop"))  # type: ignore[arg-type]
    pod = kube.take("CronJob", "daily")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "set:1"


async def test_only_a_pipeline_whose_runs_cannot_be_listed_is_reported() -> None:
    spark = pipeline("a-spark", **SPARK, results={"uri": "s3://answers/a"})
    shop = Shop(LANDED, spark, pipeline(), kube=WithoutRightToListSparkApplications)
    for _ in range(2):
        await shop.reconcile()
    assert shop.kube.names("CronJob") == ["daily"]
    assert shop.kube.condition(KIND, "daily")["reason"] == "Scheduled"
    stalled = shop.kube.condition(KIND, "a-spark", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert stalled["message"] == "GET sparkapplications: 403 forbidden"
    assert len(shop.kube.events("Refused")) == 1


async def test_pipelines_of_two_clusters_do_not_write_to_one_place() -> None:
    other = cluster("other", audit={"landing": {"claimName": "audit"}})
    results = {"uri": "s3://answers/all"}
    second = pipeline("second", clusterRef={"name": "other"}, results=results)
    shop = Shop(LANDED, other, pipeline(results=results), second)
    for name, second_of_birth in (("daily", 1), ("second", 0)):
        shop.kube.take(KIND, name)["metadata"]["creationTimestamp"] = time(second_of_birth)
    await shop.reconcile()
    stalled = shop.kube.condition(KIND, "daily", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Conflicted")
    assert stalled["message"].startswith("AuditPipeline second is older and has the same place for results")
    assert shop.kube.names("CronJob") == []
    shop.kube.delete_as_a_person(KIND, "second")
    assert isinstance(await shop.reconcile(), float)
    assert shop.kube.names("CronJob") == ["daily"]


@pytest.mark.parametrize(("spec", "kind"), [({}, "CronJob"), (KUBEFLOW, "ScheduledSparkApplication")])
async def test_a_pipeline_whose_place_is_taken_begins_no_run_until_it_has_one(spec: Json, kind: str) -> None:
    older, younger, free = ({"uri": f"s3://answers/{name}"} for name in ("older", "younger", "free"))
    shop = Shop(LANDED, pipeline("first", results=older), pipeline(results=younger, **spec))
    for name, second in (("first", 1), ("daily", 2)):
        shop.kube.take(KIND, name)["metadata"]["creationTimestamp"] = time(second)
    await shop.reconcile()
    assert shop.kube.take(kind, "daily")["spec"]["suspend"] is False
    edited = pipeline("first", results=younger)
    shop.kube.put(edited | {"metadata": shop.kube.take(KIND, "first")["metadata"]})
    await shop.reconcile()
    assert shop.kube.condition(KIND, "daily", "Stalled")["reason"] == "Conflicted"
    assert shop.kube.take(kind, "daily")["spec"]["suspend"] is True
    assert shop.kube.take("CronJob", "first")["spec"]["suspend"] is False
    version = shop.kube.take(kind, "daily")["metadata"]["resourceVersion"]
    await shop.reconcile()
    assert shop.kube.take(kind, "daily")["metadata"]["resourceVersion"] == version
    shop.kube.put(pipeline(results=free, **spec))
    await shop.reconcile()
    assert shop.kube.take(kind, "daily")["spec"]["suspend"] is False


async def test_a_cron_job_of_another_user_is_not_suspended() -> None:
    theirs: Json = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "daily"}, "spec": {}}
    shop = Shop(pipeline(), theirs)
    await shop.reconcile()
    assert shop.kube.condition(KIND, "daily", "Stalled")["reason"] == "ClusterMissing"
    assert shop.kube.take("CronJob", "daily")["spec"] == {}


async def test_nothing_is_written_where_nothing_has_changed() -> None:
    shop = Shop(LANDED, pipeline(), job("daily-1", "Complete"), job_pod("daily-1", 0, SUMMARY))
    await shop.reconcile()
    written: list[str] = []

    async def apply_status(*_: object, **__: object) -> None:
        written.append("status")

    shop.kube.apply_status = apply_status  # type: ignore[method-assign]
    await shop.reconcile()
    assert written == []


async def test_a_run_that_fails_is_a_warning_once_and_so_is_what_is_missing() -> None:
    shop = Shop(LANDED, pipeline(), job("daily-1", "Failed"), job_pod("daily-1", 1, '{"error": "no such bucket"}'))
    for _ in range(2):
        await shop.reconcile()
    (event,) = shop.kube.events("RunFailed")
    assert (event["type"], "no such bucket" in event["message"]) == ("Warning", True)
    shop.kube.put(job("daily-2", "Complete", made=2))
    shop.kube.put(job_pod("daily-2", 0, SUMMARY.replace('"holes": 0', '"holes": 2'), made=2))
    for _ in range(2):
        await shop.reconcile()
    assert [event["type"] for event in shop.kube.events("Incomplete")] == ["Warning"]
    assert shop.status()["complete"] == "False"


async def test_a_job_that_cannot_create_pods_reports_why_and_is_checked_again() -> None:
    refusal = 'pods "daily-1" is forbidden: exceeded quota: small'
    told = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "one"},
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "daily-1"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": f"Error creating: {refusal}",
    }
    shop = Shop(LANDED, pipeline(), job("daily-1"), told)
    assert isinstance(await shop.reconcile(), Retry)
    ready = shop.kube.condition(KIND, "daily")
    assert (ready["status"], ready["reason"]) == ("False", "FailedCreate")
    assert ready["message"].endswith(refusal)
    assert shop.status()["lastRun"] == {"name": "daily-1", "state": "Pending"}
    shop.kube.put(job_pod("daily-1", None))
    await shop.reconcile()
    assert shop.kube.condition(KIND, "daily")["status"] == "True"
    assert shop.status()["lastRun"]["state"] == "Running"


async def test_a_run_without_a_node_is_checked_until_it_has_one() -> None:
    shop = Shop(LANDED, pipeline(), job("daily-1"), waiting_pod("daily-1", "Unschedulable", "Insufficient cpu"))
    assert isinstance(await shop.reconcile(), Retry)
    ready = shop.kube.condition(KIND, "daily")
    assert (ready["status"], ready["reason"]) == ("False", "Unschedulable")
    assert ready["message"] == "daily-1 does not start: Unschedulable: Insufficient cpu"
    shop.kube.put(job_pod("daily-1", None))
    assert not isinstance(await shop.reconcile(), Retry)
    assert shop.kube.condition(KIND, "daily")["status"] == "True"


async def test_a_name_that_is_taken_is_left_alone_and_said() -> None:
    theirs = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "daily"}, "spec": {"schedule": "x"}}
    shop = Shop(LANDED, pipeline(), theirs)
    await shop.reconcile()
    assert shop.kube.take("CronJob", "daily")["spec"] == {"schedule": "x"}
    assert shop.kube.condition(KIND, "daily", "Stalled")["reason"] == "NameTaken"


async def test_apaches_spark_operator_is_given_one_application_for_each_time() -> None:
    document = pipeline(**SPARK)
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    shop = Shop(LANDED, document)
    for _ in range(2):
        await shop.reconcile()
    (name,) = shop.kube.names("SparkApplication")
    assert name == "daily-" + "".join(filter(str.isdigit, shop.status()["lastScheduleTime"]))[:12]
    shop.kube.remove("SparkApplication", name)
    await shop.reconcile()
    assert shop.kube.names("SparkApplication") == [], "somebody has taken it away, and that time is past"


async def test_a_run_that_somebody_takes_over_a_moment_before_its_deletion_stays() -> None:
    ended = [spark_run(f"daily-{number}", "Succeeded", made=number) for number in range(1, KEPT + 2)]
    document = pipeline(**SPARK)
    document["metadata"] |= {"uid": "u"}
    shop = Shop(LANDED, document, *ended)
    delete = shop.kube.delete

    async def late(kind: Kind, namespace: str, name: str, **seen: str) -> None:
        found = shop.kube.take(kind.kind, name)
        [owner] = found["metadata"]["ownerReferences"]
        shop.kube.put(found | {"metadata": found["metadata"] | {"ownerReferences": [owner | {"uid": "theirs"}]}})
        await delete(kind, namespace, name, **seen)

    shop.kube.delete = late  # type: ignore[method-assign]
    with pytest.raises(KubeConflictError):
        await shop.reconcile()
    assert "daily-1" in shop.kube.names("SparkApplication")


async def test_a_run_of_an_earlier_pipeline_of_the_name_is_none_and_is_waited_for() -> None:
    document = pipeline(**SPARK)
    document["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}
    shop = Shop(LANDED, document)
    await shop.reconcile()
    (name,) = shop.kube.names("SparkApplication")
    found = shop.kube.take("SparkApplication", name)
    found["metadata"]["ownerReferences"][0]["uid"] = "of the one before"
    shop.kube.remove("AuditPipeline", "daily")
    shop.kube.put(document)
    await shop.reconcile()
    assert "lastRun" not in shop.status()
    assert "lastScheduleTime" not in shop.status(), "this time was seen to by nobody"
    shop.kube.remove("SparkApplication", name)
    await shop.reconcile()
    assert shop.kube.names("SparkApplication") == [name]


async def test_a_foreign_job_with_the_pipelines_label_is_not_a_run() -> None:
    theirs = job("load", "Failed")
    theirs["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "load", "uid": "x", "controller": True}
    ]
    shop = Shop(LANDED, pipeline(), theirs)
    await shop.reconcile()
    assert "lastRun" not in shop.status()
    copied = job("copied", "Failed")
    copied["metadata"]["labels"] = {"sluicegate.dev/pipeline": "daily"}
    shop.kube.put(copied)
    await shop.reconcile()
    assert "lastRun" not in shop.status(), "a user who starts a run copies all labels of the template"
    by_hand = job("daily-by-hand", "Complete")
    uid = shop.kube.take("CronJob", "daily")["metadata"]["uid"]
    by_hand["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "daily", "uid": uid, "controller": True}
    ]
    shop.kube.put(by_hand)
    await shop.reconcile()
    assert shop.status()["lastRun"]["name"] == "daily-by-hand"


@pytest.mark.parametrize(
    ("born", "of"), [(2, "daily"), (2, ""), (1, "daily")], ids=["older", "older and by hand", "another schedule"]
)
async def test_a_run_of_an_earlier_pipeline_of_the_name_is_not_reported(born: int, of: str) -> None:
    document = pipeline()
    document["metadata"] = {**document["metadata"], "uid": "new", "creationTimestamp": time(born)}
    old = job("daily-1", "Complete", made=1)
    if of:
        old["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "CronJob", "name": of, "uid": "earlier", "controller": True}
        ]
    shop = Shop(LANDED, document)
    await shop.reconcile()
    shop.kube.put(old)
    shop.kube.put(job_pod("daily-1", 0, SUMMARY))
    await shop.reconcile()
    assert shop.kube.condition(KIND, "daily")["reason"] == "Scheduled"
    assert "lastSuccessTime" not in shop.status()


async def test_events_of_an_earlier_job_of_the_name_are_ignored() -> None:
    told = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "one"},
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "daily-1", "uid": "of the one before"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "Error creating: exceeded quota",
    }
    shop = Shop(LANDED, pipeline(), job("daily-1"), told)
    await shop.reconcile()
    assert shop.kube.condition(KIND, "daily")["reason"] == "Scheduled"


async def test_applications_that_have_ended_are_taken_away_but_the_last() -> None:
    old = [spark_run(f"daily-{number}", "Failed", made=number) for number in range(4)]
    document = pipeline(**SPARK, suspend=True)
    shop = Shop(LANDED, document | {"metadata": document["metadata"] | {"uid": "u"}}, *old)
    await shop.reconcile()
    assert shop.kube.names("SparkApplication") == ["daily-2", "daily-3"]


async def test_a_mode_that_changes_takes_the_cron_job_away() -> None:
    shop = Shop(LANDED, pipeline())
    await shop.reconcile()
    shop.kube.put(pipeline(**SPARK | {"sparkOperator": "kubeflow"}))
    await shop.reconcile()
    assert (shop.kube.names("CronJob"), shop.kube.names("ScheduledSparkApplication")) == ([], ["daily"])
    shop.kube.put(pipeline())
    await shop.reconcile()
    assert (shop.kube.names("CronJob"), shop.kube.names("ScheduledSparkApplication")) == (["daily"], [])


async def test_a_spark_operator_that_is_not_there_is_for_a_person() -> None:
    document = pipeline(**SPARK)
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    shop = Shop(LANDED, document, kube=WithoutSparkOperator)
    await shop.reconcile()
    stalled = shop.kube.condition(KIND, "daily", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "SparkOperatorMissing")


async def test_a_pipeline_that_is_deleted_while_its_cluster_is_paused_is_not_shown_any_more() -> None:
    shop = Shop(LANDED, pipeline(), pipeline("hourly"))
    await shop.reconcile()
    shop.kube.put(cluster(audit={"landing": {"claimName": "audit"}}, paused=True))
    await shop.reconcile()
    assert _shown(shop) == {"daily", "hourly"}
    shop.kube.remove(KIND, "daily")
    await shop.reconcile()
    assert _shown(shop) == {"hourly"}


def _shown(shop: Shop) -> set[str]:
    return {sample.labels["pipeline"] for family in shop.context.figures.collect() for sample in family.samples}


async def test_a_paused_cluster_leaves_runs_unchanged_and_a_deleted_one_suspends_them() -> None:
    paused = cluster(audit={"landing": {"claimName": "audit"}}, paused=True)
    shop = Shop(paused, pipeline())
    await shop.reconcile()
    assert shop.kube.names("CronJob") == []
    shop.kube.put(LANDED)
    await shop.reconcile()
    shop.kube.remove("BrokerCluster", "shop")
    assert await shop.reconcile() is None
    assert shop.kube.take("CronJob", "daily")["spec"]["suspend"] is True
    assert shop.kube.condition(KIND, "daily", "Stalled")["reason"] == "ClusterMissing"


@pytest.mark.parametrize("retriable", [True, False])
@pytest.mark.parametrize("kind", ["Job", "Pod", "Event"])
@pytest.mark.parametrize("change", ["cluster gone", "suspend", "schedule"])
async def test_a_refused_list_keeps_no_schedule_from_being_changed(kind: str, change: str, retriable: bool) -> None:
    shop = Shop(LANDED, pipeline(), kube=RefusingLists)
    assert isinstance(shop.kube, RefusingLists)
    await shop.reconcile()
    # A run without a pod, whose Events the operator reads.
    shop.kube.put(job("daily-1"))
    shop.kube.refused_list, shop.kube.retriable = kind, retriable
    if change == "cluster gone":
        shop.kube.everywhere = True
        shop.kube.remove("BrokerCluster", "shop")
    else:
        shop.kube.put(pipeline(**{"suspend": True} if change == "suspend" else {"schedule": "7 7 * * *"}))
    for _ in range(2):
        with suppress(KubeError):
            await shop.reconcile()
    spec = shop.kube.take("CronJob", "daily")["spec"]
    assert spec["suspend"] is (change != "schedule")
    assert change != "schedule" or spec["schedule"] == "7 7 * * *"
    if kind == "Event" and change == "suspend":
        assert shop.kube.condition(KIND, "daily")["reason"] == "Suspended"
