"""Rolls: the order in tables, and a simulated cluster.

No sequence of failures and restarts of the operator may take two brokers down, or a partition below
min.insync.replicas.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import (
    Done,
    Fence,
    NodeView,
    PartitionState,
    Restart,
    RollStep,
    RollView,
    WaitForNodes,
    WaitReason,
    plan_roll,
)

REASON = (RestartReason(ReasonKind.CONFIG_CHANGED, "num.partitions", ("num.partitions",)),)
ONLINE, FENCED, OFFLINE = BrokerState.ONLINE, BrokerState.FENCED, BrokerState.OFFLINE


def broker(node_id: int, *, pending: bool = True, ready: bool = True) -> NodeView:
    reasons = REASON if pending else ()
    return NodeView(f"shop-brokers-{node_id}", Role.BROKER, node_id, ready=ready, reasons=reasons)


def controller(node_id: int = 1000, *, pending: bool = True, ready: bool = True) -> NodeView:
    reasons = REASON if pending else ()
    return NodeView(f"shop-controllers-{node_id - 1000}", Role.CONTROLLER, node_id, ready=ready, reasons=reasons)


def overview(*states: BrokerState, active: int = 1000) -> ClusterOverview:
    brokers = [BrokerOverview(n, n, "i", state) for n, state in enumerate(states)]
    return ClusterOverview("c", active, 1, 9, tuple(brokers))


def partition(replicas: str, isr: str | None = None, min_isr: int = 2, name: str = "orders") -> PartitionState:
    in_sync = tuple(map(int, replicas if isr is None else isr))
    return PartitionState(name, 0, in_sync[0] if in_sync else -1, tuple(map(int, replicas)), in_sync, min_isr)


HEALTHY = RollView(
    nodes=(*map(broker, range(3)), controller(pending=False)),
    overview=overview(ONLINE, ONLINE, ONLINE),
    partitions=(partition("012"), partition("120", name="carts")),
)


def with_node(node: NodeView, view: RollView = HEALTHY) -> RollView:
    return replace(view, nodes=tuple(node if n.name == node.name else n for n in view.nodes))


def restarted(step: RollStep) -> list[str]:
    assert isinstance(step, Restart), step
    return [node.name.removeprefix("shop-") for node in step.nodes]


def waits(step: RollStep) -> WaitForNodes:
    assert isinstance(step, WaitForNodes), step
    return step


def test_one_broker_restarts_and_the_others_wait() -> None:
    step = plan_roll(HEALTHY)
    assert restarted(step) == ["brokers-0"]
    assert isinstance(step, Restart)
    assert step.waiting == ("shop-brokers-1", "shop-brokers-2")
    assert step.nodes[0].sentence == "restarting shop-brokers-0: ConfigChanged (num.partitions)"


def test_nothing_changed() -> None:
    nodes = tuple(replace(node, reasons=()) for node in HEALTHY.nodes)
    assert plan_roll(replace(HEALTHY, nodes=nodes, overview=None, partitions=None)) == Done()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ready": False}, WaitReason.NODE_NOT_READY),
        ({"present": False, "ready": False}, WaitReason.NODE_RESTARTING),
        ({"deleting": True}, WaitReason.NODE_RESTARTING),
        ({"ready": False, "failing": "CrashLoopBackOff"}, WaitReason.NODE_FAILING),
    ],
)
@pytest.mark.parametrize("index", [0, 3], ids=["a broker", "the controller"])
def test_a_roll_ends_when_all_restarted_nodes_are_back(index: int, change: dict[str, Any], reason: WaitReason) -> None:
    nodes = [replace(node, reasons=()) for node in HEALTHY.nodes]
    rolled = replace(HEALTHY, nodes=nodes, under_way=True)
    assert plan_roll(rolled) == Done()
    nodes[index] = replace(nodes[index], **change)
    step = waits(plan_roll(replace(rolled, nodes=tuple(nodes))))
    assert (step.reason, step.waiting) == (reason, ())
    assert plan_roll(replace(rolled, nodes=tuple(nodes), under_way=False)) == Done(), "a crash is no roll"


def test_a_roll_is_over_when_brokers_are_online_and_in_sync_again() -> None:
    nodes = tuple(replace(node, reasons=()) for node in HEALTHY.nodes)
    rolled = replace(HEALTHY, nodes=nodes, under_way=True)
    assert waits(plan_roll(replace(rolled, overview=None))).reason is WaitReason.NODE_NOT_READY
    assert waits(plan_roll(replace(rolled, overview=overview(OFFLINE)))).reason is WaitReason.BROKER_NOT_ONLINE
    assert HEALTHY.overview is not None
    behind = replace(HEALTHY.overview.brokers[1], out_of_sync=2)
    brokers = (HEALTHY.overview.brokers[0], behind, *HEALTHY.overview.brokers[2:])
    step = waits(plan_roll(replace(rolled, overview=replace(HEALTHY.overview, brokers=brokers))))
    assert (step.reason, step.message) == (WaitReason.OUT_OF_SYNC, "broker 1 is still missing in 2 in-sync sets")


def test_brokers_without_pods_are_fenced_first() -> None:
    orders = (FenceOrder(1, 41, "the pod of broker 1 does not exist any more"),)
    assert plan_roll(replace(HEALTHY, fences=orders, paused=True)) == Fence(orders)


@pytest.mark.parametrize(
    ("nodes", "active", "first"),
    [
        pytest.param([controller(), *map(broker, range(3))], 1000, "brokers-0", id="the only controller comes last"),
        pytest.param(
            [controller(), controller(1001), controller(1002), *map(broker, range(3))],
            1001,
            "controllers-0",
            id="standbys before brokers",
        ),
        pytest.param(
            [controller(1000, pending=False), controller(1001), *map(broker, range(3))],
            1001,
            "brokers-0",
            id="the active controller after brokers",
        ),
        pytest.param(
            [controller(), *(broker(n, pending=False) for n in range(3))], 1000, "controllers-0", id="and then it goes"
        ),
        pytest.param(
            [controller(), broker(0), broker(1, ready=False), broker(2)], 1000, "brokers-1", id="who is unready first"
        ),
    ],
)
def test_the_order(nodes: list[NodeView], active: int, first: str) -> None:
    seen = overview(ONLINE, ONLINE, ONLINE, active=active)
    assert restarted(plan_roll(replace(HEALTHY, nodes=nodes, overview=seen))) == [first]


def test_all_that_are_down_anyway_go_at_once() -> None:
    """A bad configuration took all of them down; the corrected one must not wait for them to be healthy."""
    nodes = [replace(broker(n, ready=False), failing="CrashLoopBackOff") for n in range(3)]
    step = plan_roll(replace(HEALTHY, nodes=nodes, overview=overview(OFFLINE, OFFLINE, OFFLINE), partitions=None))
    assert restarted(step) == ["brokers-0", "brokers-1", "brokers-2"]


def test_a_controller_that_does_not_start_is_restarted_even_if_brokers_are_unknown() -> None:
    down = replace(controller(ready=False), failing="CrashLoopBackOff")
    step = plan_roll(replace(HEALTHY, nodes=(*HEALTHY.nodes[:3], down), overview=None, partitions=None))
    assert restarted(step) == ["controllers-0"]


def test_a_broker_that_serves_is_not_down_because_its_probe_says_so() -> None:
    behind = (partition("012", "01"),)
    view = with_node(broker(1, ready=False), replace(HEALTHY, partitions=behind))
    assert waits(plan_roll(view)).reason is WaitReason.OUT_OF_SYNC


def test_a_fenced_broker_whose_probe_is_well_goes_first() -> None:
    view = replace(HEALTHY, overview=overview(ONLINE, ONLINE, FENCED), partitions=(partition("012", "01"),))
    assert restarted(plan_roll(view)) == ["brokers-2"]


@pytest.mark.parametrize("unwell", [controller(ready=False), broker(0, ready=False)], ids=["active", "online"])
def test_a_working_broker_with_a_failing_probe_is_restarted_after_broken_nodes_are_back(unwell: NodeView) -> None:
    nodes = (unwell, *map(broker, range(1, 3)), replace(broker(3, pending=False), deleting=True))
    assert waits(plan_roll(replace(HEALTHY, nodes=nodes))).reason is WaitReason.NODE_RESTARTING


def test_no_fenced_broker_with_a_good_probe_restarts_while_another_one_is_fenced() -> None:
    view = replace(HEALTHY, overview=overview(ONLINE, FENCED, FENCED), partitions=(partition("012", "0"),))
    assert waits(plan_roll(view)).reason is WaitReason.BROKER_NOT_ONLINE


DELETING = replace(broker(2, pending=False), deleting=True)
ABSENT = replace(broker(2, pending=False), present=False)
FAILING = replace(broker(2, pending=False, ready=False), failing="ImagePullBackOff")


@pytest.mark.parametrize(
    ("view", "reason", "words"),
    [
        (replace(HEALTHY, paused=True), WaitReason.PAUSED, "rollout.paused"),
        (replace(HEALTHY, paused=True), WaitReason.PAUSED, "shop-brokers-2 for ConfigChanged (num.partitions)"),
        (replace(HEALTHY, template_observed=False), WaitReason.TEMPLATE_NOT_OBSERVED, "template"),
        (replace(HEALTHY, overview=None), WaitReason.CONTROLLER_UNKNOWN, "no controller is active"),
        (replace(HEALTHY, overview=None, unseen="refused"), WaitReason.CONTROLLER_UNKNOWN, "refused"),
        (replace(HEALTHY, partitions=None), WaitReason.PARTITIONS_UNKNOWN, "no broker reports"),
        (with_node(DELETING), WaitReason.NODE_RESTARTING, "shop-brokers-2"),
        (with_node(ABSENT), WaitReason.NODE_RESTARTING, "shop-brokers-2"),
        (with_node(FAILING), WaitReason.NODE_FAILING, "ImagePullBackOff"),
        (with_node(broker(2, pending=False, ready=False)), WaitReason.NODE_NOT_READY, "shop-brokers-2"),
        (with_node(controller(pending=False, ready=False)), WaitReason.NODE_NOT_READY, "shop-controllers-0"),
        (
            replace(with_node(broker(2, pending=False)), overview=overview(ONLINE, ONLINE, FENCED)),
            WaitReason.BROKER_NOT_ONLINE,
            "broker 2 is Fenced",
        ),
        (
            replace(with_node(broker(2, pending=False)), overview=overview(ONLINE, ONLINE)),
            WaitReason.BROKER_NOT_ONLINE,
            "broker 2 is not registered",
        ),
        (
            replace(with_node(broker(1, pending=False)), partitions=(partition("120"), partition("012", "02"))),
            WaitReason.OUT_OF_SYNC,
            "broker 1 is still missing in the in-sync set of orders-0",
        ),
        (
            replace(HEALTHY, partitions=(partition("079", "07"),)),
            WaitReason.BELOW_MIN_ISR,
            "orders-0 would have 0 in-sync replicas without broker 0 and needs 2",
        ),
    ],
)
def test_what_is_waited_for(view: RollView, reason: WaitReason, words: str) -> None:
    if reason is WaitReason.BELOW_MIN_ISR:
        view = replace(view, nodes=[broker(0)])
    step = waits(plan_roll(view))
    assert step.reason is reason
    assert words in step.message
    assert "shop-brokers-0" in step.waiting


def test_the_controllers_own_count_is_believed_when_a_brokers_metadata_is_older() -> None:
    seen = overview(ONLINE, ONLINE, ONLINE)
    behind = replace(seen, brokers=(seen.brokers[0], replace(seen.brokers[1], out_of_sync=4), seen.brokers[2]))
    step = waits(plan_roll(replace(with_node(broker(1, pending=False)), overview=behind)))
    assert "broker 1 is still missing in 4 in-sync sets" in step.message


def test_only_the_broker_that_is_out_of_sync_itself_may_go() -> None:
    view = replace(HEALTHY, partitions=(partition("012", "02"),))
    assert restarted(plan_roll(view)) == ["brokers-1"]


@pytest.mark.parametrize(
    ("one", "note"),
    [
        pytest.param(partition("0", min_isr=1), "orders-0", id="one replica"),
        pytest.param(partition("01", min_isr=2), "orders-0", id="as many replicas as must be in sync"),
        pytest.param(partition("012", min_isr=1), "", id="enough replicas"),
    ],
)
def test_an_unsparable_partition_does_not_block_the_roll_and_is_noted(one: PartitionState, note: str) -> None:
    step = plan_roll(replace(HEALTHY, partitions=(one,)))
    assert restarted(step) == ["brokers-0"]
    assert isinstance(step, Restart)
    assert note in " ".join(step.nodes[0].notes)
    assert bool(step.nodes[0].notes) is bool(note)


def test_an_unsparable_partition_blocks_a_restart_while_its_other_replicas_are_out_of_sync() -> None:
    view = replace(HEALTHY, partitions=(partition("01", "0", min_isr=2),), nodes=[broker(0), broker(1, pending=False)])
    assert waits(plan_roll(view)).reason is WaitReason.OUT_OF_SYNC


def test_a_roll_does_not_wait_for_a_broker_that_nobody_expects_back() -> None:
    seen = overview(ONLINE, ONLINE, ONLINE, OFFLINE)
    assert restarted(plan_roll(replace(HEALTHY, overview=seen, partitions=(partition("0123", "012"),)))) == [
        "brokers-0"
    ]


def with_age(node_id: int, age_s: float | None, view: RollView = HEALTHY) -> RollView:
    assert view.overview is not None
    aged = tuple(replace(b, heartbeat_age_s=age_s if b.id == node_id else 0.5) for b in view.overview.brokers)
    return replace(view, overview=replace(view.overview, brokers=aged))


ONLY_0 = replace(HEALTHY, nodes=(broker(0), *(broker(n, pending=False) for n in (1, 2)), controller(pending=False)))
ONLY_CONTROLLER = replace(HEALTHY, nodes=(*(broker(n, pending=False) for n in range(3)), controller()))


@pytest.mark.parametrize("view", [ONLY_0, ONLY_CONTROLLER], ids=["a broker is next", "the active controller is next"])
def test_a_roll_holds_while_a_broker_that_stays_is_silent(view: RollView) -> None:
    step = waits(plan_roll(with_age(2, 3.1, view)))
    assert step.reason is WaitReason.BROKER_SILENT
    assert not step.blocked
    assert step.message == "broker 2 has been silent for more than 3 s and may be frozen"
    assert step == plan_roll(with_age(2, 3.2, view)), "the message does not change from look to look"


@pytest.mark.parametrize("age_s", [None, 0.0, 3.0])
def test_a_heartbeat_within_its_time_blocks_no_restart(age_s: float | None) -> None:
    assert restarted(plan_roll(with_age(2, age_s, ONLY_0))) == ["brokers-0"]


def test_how_long_silence_may_be_is_the_clusters_to_say() -> None:
    assert restarted(plan_roll(replace(with_age(2, 9.0, ONLY_0), silence_max_s=10.0))) == ["brokers-0"]


def test_the_silent_broker_may_restart_first_and_no_other() -> None:
    assert restarted(plan_roll(with_age(1, 4.0))) == ["brokers-1"]


def test_a_roll_does_not_wait_for_the_silence_of_a_broker_that_nobody_expects() -> None:
    view = replace(HEALTHY, overview=overview(ONLINE, ONLINE, ONLINE, ONLINE))
    assert restarted(plan_roll(with_age(3, 5.0, view))) == ["brokers-0"]


def zoned(*partitions: PartitionState, racks: str = "aabbcc", pending: str = "012345") -> RollView:
    """A view with a broker for each letter, rolled by rack."""
    brokers = tuple(BrokerOverview(n, n, "i", ONLINE, rack) for n, rack in enumerate(racks))
    return RollView(
        nodes=[*(broker(n, pending=str(n) in pending) for n in range(len(racks))), controller(pending=False)],
        overview=ClusterOverview("c", 1000, 1, 9, brokers),
        partitions=partitions,
        strategy="Rack",
    )


SPREAD = (partition("024"), partition("135"))
"""One replica in each rack."""


def test_brokers_of_one_rack_restart_together_and_the_others_wait() -> None:
    step = plan_roll(zoned(*SPREAD))
    assert restarted(step) == ["brokers-0", "brokers-1"]
    assert isinstance(step, Restart)
    assert step.waiting == tuple(f"shop-brokers-{n}" for n in range(2, 6))
    assert [node.notes for node in step.nodes] == [(), ()]


def test_only_those_of_a_rack_go_that_need_it() -> None:
    assert restarted(plan_roll(zoned(*SPREAD, pending="135"))) == ["brokers-1"]


def test_without_the_strategy_racks_do_not_matter() -> None:
    assert restarted(plan_roll(replace(zoned(*SPREAD), strategy="Broker"))) == ["brokers-0"]


def test_a_rack_that_a_partition_cannot_spare_restarts_last_and_broker_by_broker() -> None:
    crowded = partition("014", name="crowded")
    assert restarted(plan_roll(zoned(*SPREAD, crowded))) == ["brokers-2", "brokers-3"]
    step = plan_roll(zoned(*SPREAD, crowded, pending="01"))
    assert restarted(step) == ["brokers-0"]
    assert isinstance(step, Restart)
    [note] = step.nodes[0].notes
    assert note == (
        "the whole rack cannot restart at once: crowded-0 would have 1 in-sync replicas without rack a"
        " (brokers 0, 1) and needs 2 (min.insync.replicas)"
    )


def test_the_notes_on_an_unsparable_rack_do_not_name_brokers_of_other_racks() -> None:
    step = plan_roll(zoned(*SPREAD, partition("104", name="crowded"), racks="bbacdd", pending="012"))
    assert restarted(step) == ["brokers-0"]
    step = plan_roll(zoned(partition("01"), partition("2", min_isr=1), racks="bba", pending="012"))
    assert isinstance(step, Restart)
    assert all("whole rack" in str(node.notes) for node in step.nodes)
    single = plan_roll(zoned(partition("12", "12", 2, "x"), partition("34", name="y"), racks="abbcc", pending="034"))
    assert restarted(single) == ["brokers-0"]
    assert isinstance(single, Restart)
    assert single.nodes[0].notes == ()


def test_an_unsparable_partition_allows_one_of_its_brokers_to_restart_but_never_all() -> None:
    one_each = zoned(*SPREAD, partition("0", min_isr=1, name="single"), partition("24", name="pair"), pending="01")
    assert restarted(plan_roll(one_each)) == ["brokers-0", "brokers-1"]
    both = zoned(*SPREAD, partition("01", name="pair"), pending="01")
    assert restarted(plan_roll(both)) == ["brokers-0"], "the other serves its readers meanwhile"


def test_a_rack_waits_for_a_broker_of_another_one_that_is_behind() -> None:
    step = waits(plan_roll(zoned(partition("024", "02"), partition("135"), pending="0123")))
    assert step.reason is WaitReason.OUT_OF_SYNC
    assert "broker 4" in step.message


def test_a_rack_waits_while_any_broker_is_away() -> None:
    view = zoned(*SPREAD)
    assert view.overview is not None
    away = tuple(replace(b, state=OFFLINE) if b.id == 5 else b for b in view.overview.brokers)
    nodes = [replace(node, reasons=()) if node.node_id == 5 else node for node in view.nodes]
    view = replace(view, nodes=nodes, overview=replace(view.overview, brokers=away))
    assert waits(plan_roll(view)).reason is WaitReason.BROKER_NOT_ONLINE


def test_a_silent_broker_holds_every_rack_but_its_own() -> None:
    assert restarted(plan_roll(with_age(3, 5.0, zoned(*SPREAD)))) == ["brokers-2", "brokers-3"]


# A simulated cluster: it executes `plan_roll`, while brokers crash and return in an order that hypothesis picks.


@dataclass
class Played:
    """Brokers with a revision each; `down` were restarted by us or crashed, and will return."""

    brokers: int
    partitions: list[tuple[tuple[int, ...], int]]
    stale: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)
    racks: tuple[str | None, ...] = ()
    """Rack of each broker; if not empty, a roll goes by rack."""
    frozen: set[int] = field(default_factory=set)
    """Still Online, ready and in sync except for the age of their last heartbeat."""

    def __post_init__(self) -> None:
        self.stale = set(range(self.brokers))

    def view(self) -> RollView:
        ids = range(self.brokers)
        states = [OFFLINE if n in self.down else ONLINE for n in ids]
        seen = overview(*states)
        racks = self.racks or (None,) * self.brokers
        aged = tuple(
            replace(b, heartbeat_age_s=5.0 if b.id in self.frozen else 1.0, rack=racks[b.id]) for b in seen.brokers
        )
        return RollView(
            nodes=[replace(broker(n, pending=n in self.stale), ready=n not in self.down) for n in ids],
            overview=replace(seen, brokers=aged),
            partitions=[
                PartitionState("t", index, -1, replicas, self.in_sync(replicas), min_isr)
                for index, (replicas, min_isr) in enumerate(self.partitions)
            ],
            strategy="Rack" if self.racks else "Broker",
        )

    def in_sync(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n for n in replicas if n not in self.down | self.behind)

    def roll(self) -> RollStep:
        step = plan_roll(self.view())
        if isinstance(step, Restart):
            taken = {node.node_id for node in step.nodes} - self.down
            self.check(taken)
            self.down |= taken
            self.frozen -= taken
            self.stale -= {node.node_id for node in step.nodes}
        return step

    def check(self, taken: set[int]) -> None:
        """Check the state before a restart of serving brokers."""
        if not taken:
            return
        assert not self.down, "a broker that serves was taken while another was down"
        behind = {n for replicas, _ in self.partitions for n in replicas if n in self.behind}
        assert not behind - taken, "a broker was taken while another was catching up"
        assert not self.frozen - taken, "a broker was taken while another was silent"
        racks = {self.racks[n] for n in taken} if len(taken) > 1 else {"its own"}
        assert len(racks - {None}) == len(racks) == 1, "brokers of several racks, or of none"
        for replicas, min_isr in self.partitions:
            lost = taken.intersection(replicas)
            left = set(self.in_sync(replicas)) - taken
            if lost and len(left) < min_isr:
                assert len(replicas) - 1 < min_isr, "below min.insync.replicas without need"
                assert len(lost) == 1, "a partition that gives way does so to one broker"

    def freeze(self, n: int) -> None:
        if n not in self.down:
            self.frozen.add(n)

    def crash(self, n: int) -> None:
        self.frozen.discard(n)
        self.down.add(n)
        self.behind.discard(n)

    def return_one(self, n: int) -> None:
        self.frozen.discard(n)
        if n in self.down:
            self.down.discard(n)
            self.behind.add(n)
        elif n in self.behind:
            self.behind.discard(n)


@st.composite
def clusters(draw: st.DrawFn) -> Played:
    brokers = draw(st.integers(2, 6))
    made = []
    for _ in range(4):
        size = draw(st.integers(1, min(3, brokers)))
        first = draw(st.integers(0, brokers - 1))
        replicas = tuple((first + n) % brokers for n in range(size))
        made.append((replicas, draw(st.integers(1, size))))
    racks = draw(st.one_of(st.just([]), st.lists(st.sampled_from(["a", "b", None]), min_size=6, max_size=6)))
    return Played(brokers, made, racks=tuple(racks))


events = st.lists(
    st.tuples(st.sampled_from(["roll", "roll", "return", "return", "crash", "freeze"]), st.integers(0, 5))
)


@settings(max_examples=200)
@given(clusters(), events)
def test_whatever_happens_no_two_are_down_by_our_hand_and_the_roll_ends(
    played: Played, schedule: list[tuple[str, int]]
) -> None:
    for event, n in schedule:
        n %= played.brokers
        if event == "roll":
            played.roll()
        elif event == "crash":
            played.crash(n)
        elif event == "freeze":
            played.freeze(n)
        else:
            played.return_one(n)
    # Without further faults every broker returns after each step, and the roll ends.
    for _ in range(played.brokers + 1):
        for n in range(played.brokers):
            played.return_one(n)
            played.return_one(n)
        if isinstance(played.roll(), Done):
            break
    assert plan_roll(played.view()) == Done()
    assert not played.stale
