"""AuditPipelines on a real API server: the created objects, which runtimes accept them, and the pod of a run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import CLUSTER, NAMESPACE, READY_TIMEOUT_S, Json, Shop
from tests.support.audit.audit_weeks.week import Week, write_week
from tests.support.audit.pipeline_runs import SUMMARY
from tests.support.manifests.pipeline_manifests import SPARK, pipeline
from tests.support.obtain.crds.spark_operator_crds import apache_crd, kubeflow_crds
from tests.support.processes.process_kubelet.api import Access, KubeApi

NAME = "answers"
RUN_TIMEOUT_S = 480.0
"""Spark starts slowly, on a loaded machine even more so."""
KUBEFLOW_RUNS, APACHE_RUNS = "sparkapplications.sparkoperator.k8s.io", "sparkapplications.spark.apache.org"
SCHEDULED = "scheduledsparkapplications.sparkoperator.k8s.io"
WEEK = Week(days=2, events=2_000, clusters=1, topics=4, principals=4, storm=0, spoils=("torn", "hole", "gap"))
NEVER_SOON = "0 0 1 1 *"
STRICT = "fieldValidation=Strict&dryRun=All"


def document(**spec: object) -> Json:
    claims = {"source": {"claimName": "segments"}, "results": {"claimName": "results"}}
    return pipeline(NAME, **{"clusterRef": {"name": CLUSTER}, "schedule": NEVER_SOON, **claims, **spec})


def claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def audited(shop: Shop) -> Iterator[Shop]:
    shop.apply(claim("segments"), claim("results"))
    yield shop
    shop.delete("auditpipeline", NAME)
    shop.plane.kubectl("delete", "job", "-l", f"sluicegate.dev/pipeline={NAME}")
    shop.delete("pvc", "segments", "--wait=false")
    shop.delete("pvc", "results", "--wait=false")


@pytest.fixture(scope="session")
def spark_operators(standing_shop: Shop) -> Iterator[KubeApi]:
    """The CRDs of the Spark operators; created objects are not run."""
    plane = standing_shop.plane
    files = [argument for path in (*kubeflow_crds(), apache_crd()) for argument in ("-f", str(path))]
    plane.kubectl("apply", "--server-side", *files)
    crds = (KUBEFLOW_RUNS, APACHE_RUNS, SCHEDULED)
    wait_for(
        "their storage", lambda: plane.kubectl("get", ",".join(crds), "-A", "-o", "json"), timeout_s=READY_TIMEOUT_S
    )
    api = KubeApi(Access(plane.url, str(plane.certificate), plane.token))
    yield api
    api.close()


def status(shop: Shop) -> Json:
    found: Json = shop.plane.get("auditpipeline", NAME).get("status", {})
    return found


def made(shop: Shop, kind: str) -> list[Json]:
    found: list[Json] = shop.plane.get(kind, "-l", f"sluicegate.dev/pipeline={NAME}")["items"]
    return found


def test_a_run_that_fails_is_tried_again_and_its_error_is_in_the_status(audited: Shop) -> None:
    audited.apply(document(prices={"currency": "EUR"}))
    scheduled = audited.await_condition("auditpipeline", NAME, "Ready", "True")
    assert scheduled["reason"] == "Scheduled"
    # Neither the claim nor the cluster's folder on it has any segment.
    audited.plane.kubectl("create", "job", f"--from=cronjob/{NAME}", f"{NAME}-by-hand")
    stalled = audited.await_condition("auditpipeline", NAME, "Stalled", "True", timeout_s=RUN_TIMEOUT_S)
    assert stalled["reason"] == "RunFailed"
    found = status(audited)
    assert (found["lastRun"]["name"], found["lastRun"]["state"]) == (f"{NAME}-by-hand", "Failed")
    assert found["lastError"] in stalled["message"]
    assert "progress" not in found
    assert len(made(audited, "pods")) == 2
    assert [event["type"] for event in audited.events(NAME) if event["reason"] == "RunFailed"] == ["Warning"]


def test_a_run_ends_in_a_status_with_numbers_and_a_page_that_outlives_the_pipeline(audited: Shop) -> None:
    truth = write_week(WEEK, folder_of(audited, "segments") / CLUSTER)
    audited.apply(document(prices={"currency": "EUR", "ingressPerGib": 0.02}, storms={"held": 5}))
    audited.await_condition("auditpipeline", NAME, "Ready", "True")
    audited.plane.kubectl("create", "job", f"--from=cronjob/{NAME}", f"{NAME}-now")
    wait_for("it runs", lambda: "running since" in status(audited).get("progress", ""), timeout_s=READY_TIMEOUT_S)

    def ended() -> Json:
        found = status(audited)
        assert found["lastRun"]["state"] not in ("Running", "Retrying"), f"status {found}"
        return found

    found = wait_for("the run's end", ended, timeout_s=RUN_TIMEOUT_S)
    assert (found["lastRun"]["state"], found.get("lastError")) == ("Succeeded", None)
    assert found["events"] > 1000
    assert found["rows"]["usage"] > 100
    assert (found["missing"], found["holes"]) == (sum(truth.missing.values()), sum(truth.holes.values()))
    assert found["complete"] == "False"
    assert audited.await_condition("auditpipeline", NAME, "Ready", "True")["reason"] == "RunSucceeded"
    assert found["reportLocation"] == f"claim results: {NAME}.results/report.html"
    page = folder_of(audited, "results") / f"{NAME}.results" / "report.html"
    audited.delete("auditpipeline", NAME)
    wait_for("its jobs go with it", lambda: not made(audited, "jobs"))
    assert "<html" in page.read_text()


def folder_of(shop: Shop, name: str) -> Path:
    uid = shop.plane.get("persistentvolumeclaim", name)["metadata"]["uid"]
    return shop.kubelet.claim_folder(NAMESPACE, name, uid)


def strictly(api: KubeApi, item: Json, path: str) -> None:
    """Create the item as kubectl would: an unknown field is refused, not dropped."""
    api.create(f"{path}?{STRICT}", {**item, "metadata": {"name": "strictly"}})


def check_template(api: KubeApi, template: Json) -> None:
    """Check a pod template as a PodTemplate, because the Spark operators' schemas leave it open."""
    spec = template["spec"]
    # Spark's configuration names the image.
    with_image = [{**container, "image": "spark"} for container in spec["containers"]]
    full = {**template, "spec": {**spec, "containers": with_image}}
    wanted = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "strictly"}, "template": full}
    api.create(f"/api/v1/namespaces/{NAMESPACE}/podtemplates?{STRICT}", wanted)


def test_kubeflows_spark_operator_is_given_what_its_schema_takes(audited: Shop, spark_operators: KubeApi) -> None:
    spark = {
        **SPARK,
        "sparkOperator": "kubeflow",
        "executors": 3,
        "resources": {"limits": {"cpu": "2", "memory": "2Gi"}},
    }
    audited.apply(document())
    wait_for("a CronJob that runs it", lambda: made(audited, "cronjob"))
    audited.apply(document(**spark))
    wait_for("the operator of Spark runs it, and the CronJob no more", lambda: not made(audited, "cronjob"))
    audited.await_condition("auditpipeline", NAME, "Ready", "True")
    (found,) = made(audited, SCHEDULED)
    spec = found["spec"]
    assert (spec["schedule"], spec["template"]["executor"]["instances"]) == (NEVER_SOON, 3)
    kubeflow = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{NAMESPACE}"
    strictly(
        spark_operators,
        {key: found[key] for key in ("apiVersion", "kind", "spec")},
        f"{kubeflow}/scheduledsparkapplications",
    )
    for role in ("driver", "executor"):
        check_template(spark_operators, spec["template"][role]["template"])

    # Play the run that the Spark operator creates, with its labels and the driver's pod.
    labels = found["metadata"]["labels"]
    run = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "spec": spec["template"]}
    audited.apply({**run, "metadata": {"name": f"{NAME}-1", "labels": labels}})
    set_status(audited, KUBEFLOW_RUNS, f"{NAME}-1", KUBEFLOW_FAILED)
    wait_for("its failure in the status", lambda: status(audited).get("lastError") == "driver container failed")
    audited.delete("auditpipeline", NAME)
    wait_for("what ran it goes with it", lambda: not made(audited, SCHEDULED))
    audited.delete(KUBEFLOW_RUNS, f"{NAME}-1")


KUBEFLOW_FAILED: Json = {
    "applicationState": {"state": "FAILED", "errorMessage": "driver container failed"},
    "driverInfo": {},
    "terminationTime": "2026-11-22T12:00:00Z",
}


def set_status(shop: Shop, kind: str, name: str, found: Json) -> None:
    """Set the status as the Spark operator would."""
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": found}))
    shop.plane.kubectl("patch", kind, name, *patch)


def test_apaches_spark_operator_is_given_one_application_at_a_time(audited: Shop, spark_operators: KubeApi) -> None:
    audited.apply(document(**SPARK, schedule="* * * * *"))
    (found,) = wait_for("the first minute's run", lambda: made(audited, APACHE_RUNS), timeout_s=120.0)
    apache = f"/apis/spark.apache.org/v1/namespaces/{NAMESPACE}/sparkapplications"
    strictly(spark_operators, {key: found[key] for key in ("apiVersion", "kind", "spec")}, apache)
    for role in ("driverSpec", "executorSpec"):
        check_template(spark_operators, found["spec"][role]["podTemplateSpec"])
    name = found["metadata"]["name"]
    noted = wait_for("its time is noted", lambda: status(audited).get("lastScheduleTime"))
    assert name == f"{NAME}-" + re.sub("[^0-9]", "", str(noted))[:12]

    driver_pod(audited, found)
    history = {"0": {"currentStateSummary": "Succeeded", "lastTransitionTime": "2026-11-22T12:00:00Z"}}
    end = {"currentStateSummary": "TerminatedWithoutReleaseResources"}
    set_status(audited, APACHE_RUNS, name, {"currentState": end, "stateTransitionHistory": history | {"1": end}})
    wait_for("what its pod said", lambda: status(audited).get("events") == 123)
    assert status(audited)["lastWindow"] == {"from": "2026-11-20", "to": "2026-11-22"}
    audited.apply(document(**SPARK, schedule="* * * * *", suspend=True))
    audited.delete("pod", f"{name}-driver", "--grace-period=0", "--force")


def driver_pod(shop: Shop, application: Json) -> None:
    """Run a driver on a node of this machine that writes the pipeline's termination message."""
    template = application["spec"]["driverSpec"]["podTemplateSpec"]
    program = f"open('/dev/termination-log', 'w').write({SUMMARY!r})"
    pod = {"containers": [{"name": "spark", "image": "spark", "command": ["python", "-c", program], **RESTRICTED}]}
    security = {"runAsNonRoot": True, "runAsUser": 185, "seccompProfile": {"type": "RuntimeDefault"}}
    meta = {"name": f"{application['metadata']['name']}-driver", "labels": template["metadata"]["labels"]}
    spec = {**pod, "restartPolicy": "Never", "securityContext": security}
    shop.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    wait_for("the driver's end", lambda: shop.plane.get("pod", meta["name"])["status"].get("phase") == "Succeeded")


RESTRICTED: Json = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
