"""The lines of `sluicegate up` on rolls and scale, and those of `sluicegate status`."""

from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.local.context import PrintedEvents
from sluicegate_operator.local.state import ProgressLines, progress_of
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.rolls.roll import Done, PlannedRestart, Restart, RollStep, WaitForNodes, WaitReason
from sluicegate_operator.planning.rolls.scale import ScaleReason, ScaleStep

RESTART = Restart((PlannedRestart("broker 0 of shop", Role.BROKER, 0, ()),), ("controller 1000 of shop",))
WAIT = WaitForNodes(WaitReason.OUT_OF_SYNC, "broker 0 is still missing in 2 in-sync sets", ("controller 1000 of shop",))
BLOCKED = WaitForNodes(WaitReason.NODE_FAILING, "broker 0 of shop does not start: crash loop; fix this node first")


def rolled(step: RollStep) -> ClusterProgress:
    return ClusterProgress(roll=step, rolling=not isinstance(step, Done))


def scaled(reason: ScaleReason, message: str) -> ClusterProgress:
    return ClusterProgress(roll=Done(), rolling=False, scale=ScaleStep(3, reason, message))


def test_the_end_of_a_roll_is_said_once_and_only_after_a_roll() -> None:
    lines = ProgressLines()
    said = [lines.news(rolled(step)) for step in (Done(), RESTART, WAIT, Done(), Done())]
    assert said == [[], [], [], ["the roll is complete: every node runs as its manifest says"], []]


def test_the_reason_that_delays_a_scale_down_is_printed_when_it_changes() -> None:
    lines = ProgressLines()
    remain = scaled(ScaleReason.REPLICAS_REMAIN, "replicas are left on broker 2")
    gone = scaled(ScaleReason.UNREGISTERING, "unregistering broker 2 without replicas")
    # An Event reports what is moved, and the old and new number of brokers.
    moved = scaled(ScaleReason.DRAINING, "2 partitions are being moved from broker 2")
    assert [lines.news(progress) for progress in (remain, remain, moved, gone, gone)] == [
        ["replicas are left on broker 2"],
        [],
        [],
        ["unregistering broker 2 without replicas"],
        [],
    ]


def test_status_shows_phase_sentence_and_who_waits() -> None:
    shown = [progress_of(rolled(step))["roll"] for step in (RESTART, WAIT, BLOCKED, Done())]
    assert [tuple(one.values()) for one in shown] == [
        ("Rolling", "restarting broker 0 of shop", ["controller 1000 of shop"]),
        ("Rolling", WAIT.message, ["controller 1000 of shop"]),
        ("Blocked", BLOCKED.message, []),
        ("", "", []),
    ]
    scale = progress_of(scaled(ScaleReason.REPLICAS_REMAIN, "replicas are left on broker 2"))["scale"]
    assert (scale["phase"], scale["message"]) == ("ReplicasRemain", "replicas are left on broker 2")


async def test_a_warning_that_lasts_is_one_line_until_something_happens() -> None:
    said: list[str] = []
    events, body = PrintedEvents(said.append), {"kind": "BrokerCluster", "metadata": {"name": "shop"}}
    for type_, reason, message in (
        ("Warning", "RollBlockedNodeFailing", BLOCKED.message),
        ("Warning", "ConfigRefused", "no such value"),
        ("Warning", "RollBlockedNodeFailing", BLOCKED.message),
        ("Normal", "ConfigChanged", "restarting broker 0 of shop"),
        ("Warning", "RollBlockedNodeFailing", BLOCKED.message),
    ):
        await events.record(body, type_, reason, message)  # type: ignore[arg-type]
    blocked = f"shop: the roll is blocked: {BLOCKED.message}"
    assert said == [blocked, "shop: no such value", "shop: restarting broker 0 of shop", blocked]
