"""AuditPipelines: their children, the times of runs, and the results of runs in the status."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import AuditPipeline, BrokerCluster, parse_resource
from sluicegate_operator.planning.layout.audit_places import results_of
from sluicegate_operator.planning.layout.cluster_layout import cluster_id
from sluicegate_operator.planning.pipelines.pipeline_runs import PipelineRun, RunState, pipeline_runs
from sluicegate_operator.planning.pipelines.pipeline_status import PipelineTrouble, pipeline_status
from sluicegate_operator.planning.pipelines.pipelines import (
    PipelineOutcome,
    due,
    outlived,
    pipeline_children,
    plan_pipeline,
)
from sluicegate_operator.planning.pipelines.run_summary import Summary, read_summary
from sluicegate_operator.planning.rolls.start_failures import StartFailure
from sluicegate_operator.resources.audit.audit_run import memory_of
from tests.support.audit.pipeline_runs import (
    SUMMARY,
    job,
    job_pod,
    kubeflow_application,
    spark_pod,
    spark_run,
    waiting_pod,
)
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.manifests.pipeline_manifests import FULL, SPARK, pipeline

NOW = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)


def parsed(document: Json, **status: Any) -> AuditPipeline:
    meta = {"namespace": "retail", "uid": "u", "generation": 3, "creationTimestamp": "2026-11-20T00:00:00Z"}
    found = parse_resource({**document, "metadata": document["metadata"] | meta, "status": status})
    assert isinstance(found, AuditPipeline)
    return found


def of_cluster(**spec: Any) -> BrokerCluster:
    document = cluster(**spec)
    found = parse_resource(document | {"metadata": document["metadata"] | {"namespace": "retail"}})
    assert isinstance(found, BrokerCluster)
    return found


LANDED = of_cluster(audit={"landing": {"uri": "s3://audit/shop?region=eu-west-1", "secretName": "audit-s3"}})


def words(document: Json, made: BrokerCluster = LANDED) -> list[str]:
    found = parsed(document)
    places = plan_pipeline(found, made, NOW).places
    assert places is not None
    _, cron_job = pipeline_children(found, places)
    [container] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return arguments


def test_the_source_defaults_to_the_landing_of_the_cluster() -> None:
    assert words(pipeline(report=False)) == [
        "/etc/sluicegate-audit/main.py",
        *("build", "--source", "s3://audit/shop?region=eu-west-1"),
        *("--results", "/var/lib/sluicegate-results/daily.results", "--summary", "/dev/termination-log"),
        *("--recommend", "daily"),
    ]
    on_a_claim = of_cluster(audit={"landing": {"claimName": "audit"}})
    assert words(pipeline(), on_a_claim)[3] == "/var/lib/sluicegate-audit/shop"
    assert words(pipeline(source={"claimName": "other"}), of_cluster())[3] == "/var/lib/sluicegate-audit/shop"


def test_settings_are_passed_as_files_and_the_report_follows() -> None:
    made = words(FULL | {"spec": FULL["spec"] | {"report": True}})
    assert made[6:] == [
        *("--summary", "/dev/termination-log"),
        *("--recommend", "daily"),
        *("--prices", "/etc/sluicegate-audit/prices.json", "--objectives", "/etc/sluicegate-audit/objectives.json"),
        *("--mirrors", "/etc/sluicegate-audit/mirrors.json", "--storms", "/etc/sluicegate-audit/storms.json"),
        *(
            "--retention-days",
            "400",
            "--segment-ms",
            "5000",
            "--then",
            "report",
            "--results",
            "s3://answers/shop?region=eu-west-1",
        ),
        "--publish",
        f"--cluster-name={cluster_id(LANDED)}=retail/shop",
    ]


def test_the_report_gets_the_names_of_the_clusters_that_land_in_the_same_store() -> None:
    found = parsed(pipeline())
    documents = [
        cluster(audit={"landing": {"uri": uri, "secretName": "audit-s3"}})
        for uri in ("s3://audit/shop?region=eu-west-1", "s3://audit/other", "s3://audit/shop/")
    ]
    beside, elsewhere, respelled = (
        parse_resource(document | {"metadata": {"name": f"shop-{number}", "namespace": "eu", "uid": "x"}})
        for number, document in enumerate(documents)
    )
    assert isinstance(beside, BrokerCluster)
    assert isinstance(elsewhere, BrokerCluster)
    assert isinstance(respelled, BrokerCluster)
    places = plan_pipeline(found, LANDED, NOW, (), [elsewhere, LANDED, beside, respelled]).places
    assert places is not None
    assert places.cluster_names == [
        (cluster_id(LANDED), "retail/shop"),
        (cluster_id(beside), "eu/shop-0"),
        (cluster_id(respelled), "eu/shop-2"),
    ]


@pytest.mark.parametrize(
    ("document", "made", "outcome", "says"),
    [
        (
            pipeline(),
            None,
            PipelineOutcome.CLUSTER_MISSING,
            "bundled BrokerCluster shop does not exist in namespace retail",
        ),
        (pipeline(), of_cluster(), PipelineOutcome.SOURCE_MISSING, "set audit.landing there, or set source here"),
        (pipeline(schedule="0 0 31 2,4 *"), LANDED, PipelineOutcome.NEVER_RUNS, "never runs"),
        (pipeline(schedule="5-1 * * * *"), LANDED, PipelineOutcome.NEVER_RUNS, "ends before it begins"),
        (
            pipeline(results={"uri": "s3://audit/shop/results"}),
            LANDED,
            PipelineOutcome.RESULTS_IN_SOURCE,
            "would be read as segments",
        ),
    ],
)
def test_a_pipeline_that_cannot_run_is_stalled_with_a_message_what_to_do(
    document: Json, made: BrokerCluster | None, outcome: PipelineOutcome, says: str
) -> None:
    found = parsed(document)
    plan = plan_pipeline(found, made, NOW)
    assert (plan.outcome, plan.places) == (outcome, None)
    assert says in plan.message
    status = pipeline_status(found, plan, (), NOW)
    stalled = status.condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason, stalled.message) == ("True", outcome, plan.message)


def test_the_older_of_two_pipelines_with_one_place_gets_it() -> None:
    first, second, elsewhere = (
        parsed(pipeline(name, results={"uri": uri}))
        for name, uri in (("a", "s3://answers/x?region=b"), ("b", "s3://answers/x/"), ("c", "s3://answers/x2"))
    )
    places = results_of([first, second, elsewhere])
    outcomes = [plan_pipeline(one, LANDED, NOW, places) for one in (first, second, elsewhere)]
    assert [plan.outcome for plan in outcomes] == ["Accepted", "Conflicted", "Accepted"]
    assert "AuditPipeline a is older" in outcomes[1].message
    on_claims = [parsed(pipeline(name)) for name in ("a", "b")]
    assert plan_pipeline(on_claims[1], LANDED, NOW, results_of(on_claims)).outcome is PipelineOutcome.ACCEPTED


def test_one_bucket_and_path_at_two_object_stores_are_two_places() -> None:
    landed = of_cluster(audit={"landing": {"uri": "s3://audit/shop?endpoint_override=http://a.example:9000"}})
    first, second, third = (
        parsed(pipeline(name, results={"uri": f"{place}?endpoint_override={store}&region=r"}))
        for name, place, store in (
            ("a", "s3://audit/shop", "http%3A%2F%2Fb.example:9000"),
            ("b", "s3://answers/x", "b.example:9000"),
            ("c", "s3://answers/x", "c.example:9000"),
        )
    )
    for one in (first, second, third):
        assert plan_pipeline(one, landed, NOW, results_of([first, second, third])).outcome is PipelineOutcome.ACCEPTED
    same = parsed(pipeline("d", results={"uri": "s3://answers/x/?endpoint_override=https://B.example:9000/"}))
    assert plan_pipeline(same, landed, NOW, results_of([second, same])).outcome is PipelineOutcome.RESULTS_TAKEN
    inside = parsed(pipeline("e", results={"uri": "s3://audit/shop/x?endpoint_override=a.example:9000"}))
    assert plan_pipeline(inside, landed, NOW).outcome is PipelineOutcome.RESULTS_IN_SOURCE


def test_sparks_heap_is_a_share_of_the_memory_that_the_pod_may_use() -> None:
    assert memory_of(parsed(pipeline())).heap == 1024
    memory = memory_of(parsed(pipeline(resources={"limits": {"memory": "4Gi"}})))
    assert (memory.heap, memory.beside) == (2457, 1639)


# -- when Apache's Spark operator is given a run ---------------------------------------------------------------------


def apache(noted: str | None = None, **spec: Any) -> AuditPipeline:
    return parsed(pipeline(**SPARK, **spec), **({"lastScheduleTime": noted} if noted else {}))


def is_due(of: AuditPipeline, *runs: PipelineRun) -> str | None:
    schedule = plan_pipeline(of, LANDED, NOW).schedule
    assert schedule is not None
    time = due(of, schedule, runs, NOW)
    return time.isoformat() if time is not None else None


def test_only_the_newest_time_that_was_missed_is_made_up_for() -> None:
    assert is_due(apache("2026-11-22T12:00:00Z")) is None
    assert is_due(apache("2026-11-22T09:00:00Z")) == "2026-11-22T12:00:00+00:00"
    assert is_due(apache()) == "2026-11-22T12:00:00+00:00"
    assert is_due(apache(schedule="@yearly")) is None, "it was born after that"
    assert is_due(apache(suspend=True)) is None


def test_no_run_is_made_while_another_goes_on() -> None:
    going_on = PipelineRun("daily-1", RunState.RUNNING, "2026-11-22T11:00:00Z")
    assert is_due(apache(), going_on) is None
    assert is_due(apache(), replace(going_on, state=RunState.RETRYING)) is None
    assert is_due(apache(), replace(going_on, state=RunState.FAILED)) is not None


def test_the_last_two_applications_that_have_ended_are_kept() -> None:
    runs = pipeline_runs([spark_run(f"daily-{n}", "Succeeded", made=n) for n in range(4)], [])
    assert [old["metadata"]["name"] for old in outlived(parsed(pipeline()), runs)] == ["daily-0", "daily-1"]
    assert outlived(parsed(pipeline()), runs[:2]) == ()


def test_an_application_that_only_has_the_label_is_not_deleted() -> None:
    runs = pipeline_runs([spark_run(f"daily-{n}", "Succeeded", made=n, of="another") for n in range(4)], [])
    assert outlived(parsed(pipeline()), runs) == ()


# -- runs ------------------------------------------------------------------------------------------------------------


def states(owners: list[Json], pods: list[Json]) -> list[tuple[str, str, str]]:
    return [(run.name, run.state.value, run.why) for run in pipeline_runs(owners, pods)]


def test_a_runs_state_is_its_jobs_and_its_reason_is_its_pods() -> None:
    error = '{"error": "s3://audit/shop: access denied\\nat ...", "events": 0}'
    jobs = [job("a", "Complete"), job("b", "Failed", made=2), job("c", made=3), job("d", made=4), job("e", made=5)]
    pods = [
        job_pod("a", 0, SUMMARY),
        job_pod("b", 1, error, made=2),
        job_pod("c", 137, "", how="OOMKilled", made=3),
        job_pod("e", 1, "Traceback\n  File x\nOSError: disk full\n\n", made=5),
    ]
    assert states(jobs, pods) == [
        ("a", "Succeeded", ""),
        ("b", "Failed", "s3://audit/shop: access denied"),
        ("c", "Retrying", "OOMKilled, exit code 137: raise spec.resources.limits.memory"),
        ("d", "Pending", ""),
        ("e", "Retrying", "OSError: disk full"),
    ]


def test_a_retried_run_is_running_and_a_run_without_a_pod_has_its_jobs_state() -> None:
    pods = [job_pod("a", 1, "no"), job_pod("a", None, made=2, number=2)]
    assert states([job("a")], pods) == [("a", "Running", "no")]
    (failed,) = states([job("a", "Failed", why="DeadlineExceeded")], [])
    assert failed == ("a", "Failed", "DeadlineExceeded: it has")


@pytest.mark.parametrize(("uid", "state"), [("now", "Retrying"), ("earlier", "Pending")])
def test_a_pod_of_an_earlier_job_of_the_name_is_ignored(uid: str, state: str) -> None:
    made = job("a")
    pod = job_pod("a", 1, "old trouble")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": uid, "controller": True}
    ]
    (run,) = pipeline_runs([{**made, "metadata": {**made["metadata"], "uid": "now"}}], [pod])
    assert (run.state, run.has_pod) == (state, uid == "now")


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a"},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "b"},
    ],
)
def test_a_pod_that_another_object_controls_is_ignored(owner: Json) -> None:
    """Other clients may copy the labels of a run's pod into a template."""
    made = job("a")
    pod = job_pod("a", 1, "their trouble")
    pod["metadata"]["ownerReferences"] = [owner | {"uid": "theirs", "controller": True}]
    (run,) = pipeline_runs([{**made, "metadata": {**made["metadata"], "uid": "now"}}], [pod])
    assert (run.state, run.has_pod, run.why) == (RunState.PENDING, False, "")


FULL_NODES = "0/2 nodes are available: 2 Insufficient cpu"


@pytest.mark.parametrize(
    ("reason", "message"),
    [("Unschedulable", FULL_NODES), ("ErrImagePull", "not found"), ("CreateContainerConfigError", "no Secret")],
)
def test_a_run_is_pending_until_its_container_starts_and_has_its_pods_reason(reason: str, message: str) -> None:
    (run,) = pipeline_runs([job("a")], [waiting_pod("a", reason, message)])
    assert (run.state, run.started, run.made) == (RunState.PENDING, None, "2026-11-22T12:01:00Z")
    assert str(run.failure) == f"{reason}: {message}"
    (on_its_way,) = pipeline_runs([job("a")], [waiting_pod("a")])
    assert (on_its_way.state, on_its_way.failure) == (RunState.PENDING, None)
    (begun,) = pipeline_runs([job("a")], [job_pod("a", None, made=5)])
    assert (begun.state, begun.started) == (RunState.RUNNING, "2026-11-22T12:05:00Z")


def test_an_attempt_that_does_not_begin_after_one_that_failed_is_still_a_retry() -> None:
    pods = [job_pod("a", 1, "no"), waiting_pod("a", "Unschedulable", FULL_NODES, made=2, number=2)]
    (run,) = pipeline_runs([job("a")], pods)
    assert (run.state, run.started, run.why) == (RunState.RETRYING, "2026-11-22T12:01:00Z", "no")
    assert str(run.failure) == f"Unschedulable: {FULL_NODES}"


@pytest.mark.parametrize(
    ("application", "label"),
    [
        (kubeflow_application("k", "SUBMITTED"), "sparkoperator.k8s.io/app-name"),
        (spark_run("k", current="DriverRequested"), "sluicegate.dev/run"),
    ],
)
def test_an_application_is_pending_until_its_driver_has_begun(application: Json, label: str) -> None:
    driver = waiting_pod("k", "Unschedulable", FULL_NODES)
    driver["metadata"]["labels"] |= {label: "k"}
    del driver["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    (run,) = pipeline_runs([application], [driver])
    assert (run.state, str(run.failure)) == (RunState.PENDING, f"Unschedulable: {FULL_NODES}")
    (without_pod,) = pipeline_runs([application], [])
    assert (without_pod.state, without_pod.has_pod) == (RunState.PENDING, False)


def test_a_report_that_fails_after_good_results_says_so() -> None:
    (run,) = pipeline_runs([job("a", "Failed")], [job_pod("a", 2, SUMMARY)])
    assert run.why == "the results were written, but a later step failed: Error, exit code 2"


def test_applications_of_both_spark_operators_are_runs() -> None:
    apps = [
        spark_run("a-1", "Succeeded"),
        spark_run("a-2", "SchedulingFailure", made=2, message="quota exceeded"),
        spark_run("a-3", made=3),
        kubeflow_application("k-1", "COMPLETED", made=4),
        kubeflow_application("k-2", "FAILED", made=5, error="driver container failed"),
        kubeflow_application("k-3", "PENDING_RERUN", made=6),
        kubeflow_application("k-4", "", made=7),
    ]
    pods = [spark_pod("a-1", 0, SUMMARY), spark_pod("k-1", 0, SUMMARY, "sparkoperator.k8s.io/app-name", made=4)]
    runs = pipeline_runs(apps, pods)
    assert [(run.name, run.state.value, run.why) for run in runs] == [
        ("a-1", "Succeeded", ""),
        ("a-2", "Failed", "quota exceeded"),
        ("a-3", "Running", ""),
        ("k-1", "Succeeded", ""),
        ("k-2", "Failed", "driver container failed"),
        ("k-3", "Pending", ""),
        ("k-4", "Pending", ""),
    ]
    assert [run.summary.events if run.summary else None for run in runs] == [123, *[None] * 2, 123, *[None] * 3]


# -- what the status says --------------------------------------------------------------------------------------------


def status_of(*runs: PipelineRun, trouble: PipelineTrouble | None = None, **old: Any) -> Any:
    found = parsed(pipeline(), **old)
    plan = plan_pipeline(found, LANDED, NOW)
    return pipeline_status(found, plan, runs, NOW, trouble).manifest()


def condition(status: Json, kind: str) -> tuple[str, str]:
    found = next(one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


def a_run(state: RunState, at: str = "2026-11-22T12:00:00Z", **fields: Any) -> PipelineRun:
    finished = at if state in (RunState.SUCCEEDED, RunState.FAILED) else None
    return PipelineRun(f"daily-{at[11:13]}", state, at, at, finished=finished, **fields)


GOOD = a_run(RunState.SUCCEEDED, summary=read_summary(SUMMARY))


def test_before_the_first_run_all_is_as_it_should_be() -> None:
    status = status_of()
    assert condition(status, "Ready") == ("True", "Scheduled")
    assert condition(status, "Complete") == ("Unknown", "NotKnown")
    assert (status["observedGeneration"], status["complete"]) == (3, "Unknown")


def test_a_successful_run_reports_its_results() -> None:
    status = status_of(GOOD)
    assert condition(status, "Ready") == ("True", "RunSucceeded")
    assert condition(status, "Complete") == ("True", "NothingMissing")
    del status["conditions"]
    assert status == {
        "observedGeneration": 3,
        "lastRun": {
            "name": "daily-12",
            "state": "Succeeded",
            "started": "2026-11-22T12:00:00Z",
            "finished": "2026-11-22T12:00:00Z",
        },
        "lastSuccessTime": "2026-11-22T12:00:00Z",
        "lastWindow": {"from": "2026-11-20", "to": "2026-11-22"},
        "events": 123,
        "rows": {"rollup": 10},
        "missing": 0,
        "holes": 0,
        "quarantinedFiles": 0,
        "complete": "True",
        "reportLocation": "claim results: daily.results/report.html",
        "tookSeconds": 12.3,
    }


def test_results_of_a_run_stay_after_its_job_is_deleted_and_the_next_run_fails() -> None:
    first = status_of(GOOD)
    assert status_of(**first) == first
    failed = a_run(RunState.FAILED, "2026-11-22T13:00:00Z", why="no space", summary=Summary(events=7))
    second = status_of(GOOD, failed, **first)
    assert condition(second, "Stalled") == ("True", "RunFailed")
    assert (second["lastError"], second["events"], second["lastRun"]["state"]) == ("no space", 123, "Failed")
    again = a_run(RunState.RUNNING, "2026-11-22T14:00:00Z")
    third = status_of(GOOD, failed, again, **second)
    assert condition(third, "Reconciling") == ("True", "Retrying")
    assert third["progress"] == "running since 2026-11-22T14:00:00Z; the last successful run took 12 s"
    assert third["lastError"] == "no space"
    well = a_run(RunState.SUCCEEDED, "2026-11-22T14:00:00Z", summary=read_summary(SUMMARY))
    fourth = status_of(GOOD, failed, well, **third)
    assert condition(fourth, "Ready") == ("True", "RunSucceeded")
    assert not {"lastError", "progress"} & fourth.keys()


@pytest.mark.parametrize("state", [RunState.PENDING, RunState.RUNNING, RunState.RETRYING])
def test_a_run_whose_job_is_deleted_before_it_ended_does_not_run_for_ever(state: RunState) -> None:
    failed = {"why": "no memory"} if state is RunState.RETRYING else {}
    before = status_of(GOOD, a_run(state, "2026-11-22T13:00:00Z", **failed))
    gone = status_of(**before)
    assert gone["lastRun"] == before["lastRun"] | {"state": "Deleted"}
    assert not {"lastError", "progress"} & gone.keys()
    assert (condition(gone, "Ready"), condition(gone, "Reconciling")[0]) == (("True", "RunSucceeded"), "False")
    assert status_of(**gone) == gone


def test_a_failed_run_stays_reported_after_its_job_is_deleted() -> None:
    failed = status_of(a_run(RunState.FAILED, why="no space"))
    assert status_of(**failed) == failed


def test_the_last_known_runs_are_kept_while_they_cannot_be_listed() -> None:
    before = status_of(GOOD, a_run(RunState.RUNNING, "2026-11-22T13:00:00Z"))
    found = parsed(pipeline(), **before)
    refused = PipelineTrouble("Refused", "403 forbidden")
    status = pipeline_status(found, plan_pipeline(found, LANDED, NOW), None, NOW, refused).manifest()
    assert condition(status, "Stalled") == ("True", "Refused")
    assert {key: status[key] for key in ("lastRun", "progress", "events")} == {
        key: before[key] for key in ("lastRun", "progress", "events")
    }


def test_a_run_that_goes_on_takes_nothing_from_being_ready() -> None:
    status = status_of(GOOD, a_run(RunState.RUNNING, "2026-11-22T13:00:00Z"))
    assert condition(status, "Ready") == ("True", "RunSucceeded")
    assert condition(status, "Reconciling")[0] == "False"


def pending(made: str, failure: StartFailure | None = None) -> PipelineRun:
    return PipelineRun("daily-13", RunState.PENDING, made, failure=failure)


def test_a_run_that_has_not_begun_is_not_said_to_run() -> None:
    status = status_of(GOOD, pending("2026-11-22T12:29:50Z"))
    assert status["lastRun"] == {"name": "daily-13", "state": "Pending"}
    assert status["progress"] == "created at 2026-11-22T12:29:50Z; its pod has not started"
    assert condition(status, "Ready") == ("True", "RunSucceeded"), "it may just take its time"


@pytest.mark.parametrize(
    ("made", "reason", "stuck"),
    [
        ("2026-11-22T12:29:50Z", "ErrImagePull", False),
        ("2026-11-22T12:29:00Z", "ErrImagePull", True),
        # A scheduler retries without help.
        ("2026-11-22T12:00:00Z", "Unschedulable", False),
    ],
)
def test_why_a_run_does_not_begin_is_in_the_conditions(made: str, reason: str, stuck: bool) -> None:
    status = status_of(GOOD, pending(made, StartFailure(reason, "no room")))
    assert condition(status, "Ready") == ("False", reason)
    assert condition(status, "Reconciling")[0] == str(not stuck)
    assert condition(status, "Stalled")[0] == str(stuck)
    said = next(one["message"] for one in status["conditions"] if one["type"] == "Ready")
    assert said == f"daily-13 does not start: {reason}: no room"
    assert status["progress"].endswith(f"its pod has not started: {reason}: no room")
    assert status["events"] == 123, "what earlier runs said stays"


@pytest.mark.parametrize("state", [RunState.PENDING, RunState.RETRYING])
def test_a_long_reason_of_a_pod_that_does_not_start_is_cut_at_the_limit_of_the_crd(state: RunState) -> None:
    failure = StartFailure("Unschedulable", "0/60 nodes are available: " + "untolerated taint; " * 200)
    status = status_of(GOOD, PipelineRun("daily-13", state, "2026-11-22T12:29:50Z", failure=failure))
    assert len(status["progress"]) == 1024
    assert "does not start: Unsch" in status["progress"] or "has not started: Unsch" in status["progress"]


def test_missing_events_are_a_condition_of_a_ready_pipeline() -> None:
    summary = Summary(events=9, missing=4, holes=1, quarantined_files=0)
    status = status_of(a_run(RunState.SUCCEEDED, summary=summary))
    assert condition(status, "Complete") == ("False", "Incomplete")
    assert condition(status, "Ready") == ("True", "RunSucceeded")
    said = next(one["message"] for one in status["conditions"] if one["type"] == "Complete")
    assert said.startswith("4 events are missing, 1 more are missing without a gap event, 0 files were quarantined")


def test_an_api_servers_refusal_is_shown_beside_earlier_results() -> None:
    status = status_of(GOOD, trouble=PipelineTrouble("SparkOperatorMissing", "install it"))
    assert condition(status, "Stalled") == ("True", "SparkOperatorMissing")
    assert status["events"] == 123


def test_a_summary_is_read_as_far_as_it_is_one() -> None:
    assert read_summary("Killed") is None
    assert read_summary("[1]") is None
    odd = read_summary('{"events": true, "rows": {"a": 1, "b": -1, "c": "x"}, "window": 3, "tookSeconds": "1"}')
    assert odd == Summary(rows={"a": 1})
    assert odd.complete is None
    assert Summary(missing=0, holes=0, quarantined_files=2).complete is False
