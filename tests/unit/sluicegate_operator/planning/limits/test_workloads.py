"""Changing pods and quotas, against members that are computed from scratch."""

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sluicegate_operator.api.models.connection_quota import Workload
from sluicegate_operator.api.models.parts.label_selector import LabelSelector
from sluicegate_operator.planning.limits.connection_groups import number_of_pod
from sluicegate_operator.planning.limits.pod_index import WorkloadPod, canonical
from sluicegate_operator.planning.limits.workloads import Members, WorkloadIndex
from sluicegate_operator.planning.status.label_selection import matches, one_of

KEYS, VALUES = ("app", "tier"), ("web", "db", "")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
VALUE_LISTS = st.lists(st.sampled_from(VALUES), min_size=1, unique=True)


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
    said = {"key": draw(st.sampled_from(KEYS)), "operator": operator}
    return said | ({"values": draw(VALUE_LISTS)} if operator in ("In", "NotIn") else {})


SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(expressions(), max_size=2)}
)
NAMESPACES = ("shop", "billing", "web")
WORKLOADS = st.fixed_dictionaries({"podSelector": SELECTORS}, optional={"namespaceSelector": SELECTORS})


def workload(said: dict[str, Any]) -> Workload:
    return Workload.model_validate_json(json.dumps(said))


def naive_match(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a selector matches by the documentation of Kubernetes, from the manifest itself."""
    for key, value in selector.get("matchLabels", {}).items():
        if key not in labels or labels[key] != value:
            return False
    for one in selector.get("matchExpressions", []):
        there, values = one["key"] in labels, one.get("values", [])
        holds = {
            "In": there and labels.get(one["key"]) in values,
            "NotIn": not (there and labels[one["key"]] in values),
            "Exists": there,
            "DoesNotExist": not there,
        }
        if not holds[one["operator"]]:
            return False
    return True


@given(SELECTORS, LABELS)
def test_a_selector_matches_what_kubernetes_says(said: dict[str, Any], labels: dict[str, str]) -> None:
    selector = workload({"podSelector": said}).pod_selector
    assert matches(selector, labels) == naive_match(said, labels)


@given(SELECTORS, LABELS)
def test_each_matching_pod_has_a_label_of_its_lookup_index(said: dict[str, Any], labels: dict[str, str]) -> None:
    selector = workload({"podSelector": said}).pod_selector
    pairs = one_of(selector)
    if pairs and matches(selector, labels):
        assert pairs & set(labels.items())


def test_everything_is_selected_by_an_empty_selector() -> None:
    assert matches(LabelSelector(), {})
    assert one_of(LabelSelector()) == frozenset()


ADDRESSES = ("10.0.0.1", "10.0.0.2", "2001:db8::1")
UIDS = {"a": ("shop", False), "b": ("shop", False), "c": ("billing", False), "d": ("web", True), "e": ("shop", True)}
"""The constant fields of each pod: its namespace, and whether it uses its node's network."""


def a_pod(uid: str, **said: Any) -> WorkloadPod:
    namespace, host_network = UIDS[uid]
    return WorkloadPod(uid=uid, namespace=namespace, name="pod", host_network=host_network, **said)


PODS = st.builds(
    a_pod,
    uid=st.sampled_from(sorted(UIDS)),
    labels=LABELS,
    addresses=st.lists(st.sampled_from(ADDRESSES), unique=True, max_size=2).map(tuple),
    leaving=st.booleans(),
    started=st.sampled_from(("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")),
)
QUOTAS = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(("one", "two", "three")))


class Recomputed(RuleBasedStateMachine):
    """The index beside a model that only keeps its input."""

    def __init__(self) -> None:
        super().__init__()
        self.index = WorkloadIndex()
        self.pods: dict[str, WorkloadPod] = {}
        self.quotas: dict[tuple[str, str], dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.before: dict[tuple[str, str], Members] = {}
        self.told: set[tuple[str, str]] = set()

    @rule(pod=PODS)
    def a_pod_is_there(self, pod: WorkloadPod) -> None:
        self.pods[pod.uid] = pod
        self.told |= self.index.put_pod(pod)

    @rule(uid=st.sampled_from(sorted(UIDS)))
    def a_pod_is_gone(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.told |= self.index.drop_pod(uid)

    @rule(name=st.sampled_from(NAMESPACES), labels=LABELS)
    def a_namespace_is_there(self, name: str, labels: dict[str, str]) -> None:
        self.namespaces[name] = labels
        self.told |= self.index.put_namespace(name, labels)

    @rule(name=st.sampled_from(NAMESPACES))
    def a_namespace_is_gone(self, name: str) -> None:
        self.namespaces.pop(name, None)
        self.told |= self.index.drop_namespace(name)

    @rule(key=QUOTAS, said=WORKLOADS)
    def a_quota_is_there(self, key: tuple[str, str], said: dict[str, Any]) -> None:
        self.quotas[key] = said
        if self.index.put_quota(key, workload(said)):
            self.before.pop(key, None)

    @rule(key=QUOTAS)
    def a_quota_is_gone(self, key: tuple[str, str]) -> None:
        self.quotas.pop(key, None)
        self.before.pop(key, None)
        self.index.drop_quota(key)

    @invariant()
    def the_members_are_those_of_the_model(self) -> None:
        assert self.index.quotas == self.quotas.keys()
        now = {key: self.expected(key) for key in self.quotas}
        assert {key: self.index.members(key) for key in self.quotas} == now
        changed = {key for key in now.keys() & self.before.keys() if now[key] != self.before[key]}
        assert self.told & self.before.keys() == changed, "each quota with other members is told, and no other"
        self.before, self.told = now, set()

    def expected(self, key: tuple[str, str]) -> Members:
        selected = {uid for uid, pod in self.pods.items() if self.selects(key, pod)}
        owners: dict[str, str] = {}
        for pod in sorted(self.pods.values(), key=lambda pod: (not pod.leaving, pod.started, pod.uid)):
            if not pod.host_network:
                owners |= dict.fromkeys(pod.addresses, pod.uid)
        addresses = {address: number_of_pod(uid) for address, uid in owners.items() if uid in selected}
        return Members(addresses, sum(self.pods[uid].host_network for uid in selected))

    def selects(self, key: tuple[str, str], pod: WorkloadPod) -> bool:
        said = self.quotas[key]
        if not naive_match(said["podSelector"], dict(pod.labels)):
            return False
        if "namespaceSelector" not in said:
            return pod.namespace == key[0]
        labels = self.namespaces.get(pod.namespace)
        return labels is not None and naive_match(said["namespaceSelector"], labels)


TestRecomputed = Recomputed.TestCase
TestRecomputed.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_changed_pod_asks_only_the_quotas_that_may_select_it() -> None:
    index = WorkloadIndex()
    for number in range(2000):
        said = {"podSelector": {"matchLabels": {"app": f"app-{number}"}}}
        index.put_quota(("shop", f"quota-{number}"), workload(said))
    pod = WorkloadPod("a", "shop", "pod", {"app": "app-7", "tier": "web"}, ("10.0.0.1",))
    with patch.object(index, "_selects", side_effect=index._selects) as selects:
        assert index.put_pod(pod) == {("shop", "quota-7")}
    assert selects.call_count == 1


def test_an_address_that_is_given_again_is_the_new_pods_alone() -> None:
    index = WorkloadIndex()
    index.put_quota(("shop", "old"), workload({"podSelector": {"matchLabels": {"app": "old"}}}))
    index.put_quota(("shop", "new"), workload({"podSelector": {"matchLabels": {"app": "new"}}}))
    index.put_pod(WorkloadPod("a", "shop", "old-1", {"app": "old"}, ("10.0.0.1",), started="2026-01-01T00:00:00Z"))
    assert index.members(("shop", "old")).addresses.keys() == {"10.0.0.1"}
    newer = WorkloadPod("b", "shop", "new-1", {"app": "new"}, ("10.0.0.1",), started="2026-01-01T00:00:09Z")
    assert index.put_pod(newer) == {("shop", "old"), ("shop", "new")}
    assert index.members(("shop", "old")).addresses == {}
    assert index.drop_pod("a") == set(), "whoever had it before is gone without a word about the address"
    assert index.members(("shop", "new")).addresses.keys() == {"10.0.0.1"}


def test_an_address_that_another_pod_of_the_quota_has_is_told_with_that_ones_number() -> None:
    index, key = WorkloadIndex(), ("shop", "billing")
    index.put_quota(key, workload({"podSelector": {}}))
    both = ("10.0.0.1", "2001:db8::1")
    index.put_pod(WorkloadPod("a", "shop", "billing-0", {}, both, started="2026-01-01T00:00:00Z"))
    assert index.members(key).addresses == dict.fromkeys(both, number_of_pod("a"))
    leaving = WorkloadPod("a", "shop", "billing-0", {}, both, leaving=True, started="2026-01-01T00:00:00Z")
    assert index.put_pod(leaving) == set(), "its connections are still its own"
    newer = WorkloadPod("b", "shop", "billing-0", {}, both[:1], started="2026-01-01T00:00:00Z")
    assert index.put_pod(newer) == {key}
    assert index.members(key).addresses == {both[0]: number_of_pod("b"), both[1]: number_of_pod("a")}
    assert index.drop_pod("a") == {key}
    assert index.members(key).addresses == {both[0]: number_of_pod("b")}


def test_an_address_has_one_form() -> None:
    assert canonical("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical("2001:DB8:0::1") == "2001:db8::1"
