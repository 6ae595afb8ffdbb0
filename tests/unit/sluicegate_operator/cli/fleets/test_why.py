"""The output for brokers' answers about an address, and the brokers that `sluicegate why` asks."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sluicegate_operator.api.manifests import parse_resource
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.schema.metadata import API_VERSION
from sluicegate_operator.cli.asking import kubernetes_asked
from sluicegate_operator.cli.asking.bootstrap import bootstrap_addresses
from sluicegate_operator.cli.asking.brokers_asked import (
    AskingError,
    BrokerAsked,
    NobodyToAskError,
    ask_brokers,
    brokers_here,
    brokers_in_kubernetes,
)
from sluicegate_operator.cli.asking.quotas_named import behind, quotas_here
from sluicegate_operator.cli.asking.why_report import AddressAnswers, BrokerAnswer, document, silent_words, why_tables
from sluicegate_operator.cli.fleets.why import why
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONNECTION_QUOTA

GROUP = {
    "kind": "connection-group",
    "group": "default/office",
    "member": "10.0.0.0/8",
    "prefix": 8,
    "mode": "Enforce",
    "shared": True,
    "connection_creation_rate": 5,
    "max_connections": None,
    "rate": 4.96,
    "connections": 3,
    "since": "2026-11-23T16:17:52.810Z",
    "held": {"delayed": 180, "too_many": 6},
    "would_hold": {},
}
OBSERVER = GROUP | {"group": "default/what-if", "mode": "Observe", "shared": False, "would_hold": {"delayed": 33}}
SAID = {
    "address": "10.0.0.1",
    "connections": 3,
    "max_connections_per_ip": 90,
    "holders": [GROUP],
    "observers": [OBSERVER],
}
FREE: dict[str, Any] = SAID | {"max_connections_per_ip": None, "holders": [], "observers": []}


NOW = datetime(2026, 11, 23, 18, 20, tzinfo=UTC)


def shown(*answers: BrokerAnswer) -> list[list[str]]:
    """The words of each line, at the width of a small terminal."""
    out = io.StringIO()
    for table in why_tables(AddressAnswers("10.0.0.1", answers), NOW):
        Console(file=out, width=80).print(table)
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


def test_each_limit_is_a_line_with_what_is_used_of_it() -> None:
    lines = shown(BrokerAnswer("shop", 0, SAID), BrokerAnswer("shop", 1, FREE), BrokerAnswer("shop", 2, None, "away"))
    text = "\n".join(" ".join(line) for line in lines)
    assert "0 default/office 10.0.0.0/8 shared 5.0/5 - - 186 2h" in text
    assert "0 default/what-if 10.0.0.0/8 5.0/5 - - (33) 2h" in text
    assert "0 max per ip - 3/90" in text
    assert "1 nothing - 3" in text
    assert not [line for line in lines if line[0] == "2"]


def acceptor(
    rate: int | None = None, connections: int | None = None, share: float = 0.0, **more: Any
) -> dict[str, Any]:
    limits = {"connection_creation_rate": rate, "max_connections": connections}
    now = {"rate": 49.96, "connections": 7, "held": {"rate": 4094, "connections": 0}, "blocked_share": share}
    return limits | now | more


CLUSTER = {"rate": 400, "share": 133.34, "demand": 210.5, "brokers": 3, "age_s": 0.6, "state": "granted"}


def test_a_rate_of_the_cluster_is_compared_with_the_share_of_the_broker() -> None:
    of_group = GROUP | {"connection_creation_rate": 400, "cluster": CLUSTER | {"state": "reserve", "share": 33.0}}
    listeners = {
        "EXTERNAL": acceptor(400, inherited=["max_connections"], cluster=CLUSTER),
        # It has no rate of its own.
        "OTHER": acceptor(400, 9, inherited=["connection_creation_rate"], cluster=CLUSTER),
    }
    said = FREE | {"holders": [of_group], "listeners": listeners, "broker": acceptor(cluster=None)}
    out = io.StringIO()
    [table] = why_tables(AddressAnswers("10.0.0.1", (BrokerAnswer("shop", 0, said),)), NOW)
    Console(file=out, width=150).print(table)
    rows = [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip().startswith("0 ")]
    assert rows == [
        "0 default/office 10.0.0.0/8 shared, share 33.0 of 400 (reserve 1s ago) 5.0/33.0 - - 186 2h",
        "0 set on the brokers listener EXTERNAL, share 133.3 of 400 (granted 1s ago) 50.0/133.3 - 0% 4094 -",
        "0 set on the brokers listener OTHER - 7/9 0% 4094 -",
    ]


def test_limits_that_all_clients_share_are_named_with_the_time_that_they_block() -> None:
    inherits = ["connection_creation_rate", "max_connections"]
    listeners = {
        "EXTERNAL": acceptor(50, 900, 0.82, inherited=["max_connections"]),
        "INTERNAL": acceptor(inherited=inherits),
        "PARTNERS": acceptor(300, 900, inherited=inherits),
    }
    said = FREE | {"broker": acceptor(300, 900, 0.004), "listeners": listeners}
    named = behind([a_quota("rate", listener="EXTERNAL"), a_quota("all", broker={})], "10.0.0.1")
    for quotas, words in ((named, ("default/rate", "default/all")), ({}, ("set on the brokers",) * 2)):
        out = io.StringIO()
        [table] = why_tables(AddressAnswers("10.0.0.1", (BrokerAnswer("shop", 0, said),), quotas), NOW)
        Console(file=out, width=110).print(table)
        rows = [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip().startswith("0 ")]
        assert rows == [
            f"0 {words[0]} listener EXTERNAL 50.0/50 - 82% 4094 -",
            f"0 {words[1]} broker 50.0/300 7/900 <1% 4094 -",
        ]
    assert document([AddressAnswers("10.0.0.1", (BrokerAnswer("shop", 0, said),), named)])["addresses"][0][
        "quotas"
    ] == [
        {"cluster": "shop", "kind": "broker", "names": ["default/all"]},
        {"cluster": "shop", "kind": "listener EXTERNAL", "names": ["default/rate"]},
    ]


def test_a_limit_that_blocks_no_connection_is_shown() -> None:
    """The limit exists, and a user who looks for it must find it."""
    said = FREE | {"broker": acceptor(), "listeners": {"EXTERNAL": acceptor(50, inherited=["max_connections"])}}
    text = "\n".join(" ".join(line) for line in shown(BrokerAnswer("shop", 0, said)))
    assert "listener 50.0/50 - 0% 4094 -" in text
    assert "nothing" not in text


def test_clusters_are_apart_and_a_silent_broker_is_told_once() -> None:
    answers = (BrokerAnswer("bar", 0, FREE), BrokerAnswer("shop", 0, FREE), BrokerAnswer("shop", 2, None, "away"))
    titles = [line for line in shown(*answers) if line[:2] == ["Limits", "on"]]
    assert [title[-1] for title in titles] == ["bar", "shop"]
    found = [AddressAnswers("10.0.0.1", answers), AddressAnswers("2001:db8::1", answers)]
    assert silent_words(found) == ["broker 2 of shop did not answer: away"]


OF_ADDRESS = GROUP | {"kind": "ip", "group": None, "member": None, "shared": False}
OF_ALL = OF_ADDRESS | {"kind": "default"}


def a_quota(name: str, cluster: str = "shop", **target: Any) -> ConnectionQuota:
    spec = {"clusterRef": {"name": cluster}, "target": target, "maxConnectionCreationRate": 5}
    manifest = {"apiVersion": API_VERSION, "kind": "ConnectionQuota", "metadata": {"name": name}, "spec": spec}
    found = parse_resource(manifest)
    assert isinstance(found, ConnectionQuota)
    return found


QUOTAS = [
    a_quota("one", ip="2001:db8:0::1"),
    a_quota("everybody", defaultIp={}),
    a_quota("elsewhere", cluster="bar", ip="2001:db8::1"),
    a_quota("other", ip="10.0.0.2"),
    a_quota("office", cidr="2001:db8::/32"),
]


def test_a_limit_names_the_quotas_that_ask_for_it() -> None:
    named = behind(QUOTAS, "2001:db8::1")
    assert named == {
        ("shop", "ip"): ("default/one",),
        ("shop", "default"): ("default/everybody",),
        ("bar", "ip"): ("default/elsewhere",),
    }
    said = BrokerAnswer("shop", 0, FREE | {"holders": [OF_ADDRESS, OF_ALL]})
    for quotas, words in ((named, ["default/one", "default/everybody"]), ({}, ["set for this", "set for all"])):
        found = AddressAnswers("2001:db8::1", (said,), quotas)
        out = io.StringIO()
        [table] = why_tables(found, NOW)
        Console(file=out, width=200).print(table)
        assert [word for word in words if word not in out.getvalue()] == []
    assert document([AddressAnswers("2001:db8::1", (said,), named)])["addresses"][0]["quotas"][2] == {
        "cluster": "shop",
        "kind": "ip",
        "names": ["default/one"],
    }


def test_quotas_of_this_machine_are_those_that_up_has_read(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        data.write_manifests(QUOTAS)
    assert [quota.name for quota in quotas_here(tmp_path)] == [quota.name for quota in QUOTAS]


def test_machines_get_all_that_brokers_have_said() -> None:
    found = AddressAnswers("10.0.0.1", (BrokerAnswer("shop", 0, SAID), BrokerAnswer("shop", 2, None, "away")))
    assert document([found]) == {
        "addresses": [
            {
                "address": "10.0.0.1",
                "brokers": [
                    {"cluster": "shop", "broker": 0, "answer": SAID},
                    {"cluster": "shop", "broker": 2, "problem": "away"},
                ],
                "quotas": [],
            }
        ]
    }


async def test_a_silent_broker_does_not_delay_the_others() -> None:
    async def answers(target: str) -> dict[str, Any]:
        return {"asked": target}

    async def fails(target: str) -> dict[str, Any]:
        raise AskingError("no answer within 3 s")

    brokers = [BrokerAsked("shop", 0, fails), BrokerAsked("shop", 1, answers)]
    found = await ask_brokers(brokers, "/connection-quotas", {"address": "2001:db8::1"})
    assert [answer.problem for answer in found] == ["no answer within 3 s", ""]
    assert found[1].document == {"asked": "/connection-quotas?address=2001%3Adb8%3A%3A1"}


class Pods:
    """The part of KubeClient used here."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = list(pods)
        self.asked: list[str] = []

    async def list(self, kind: object, namespace: str, selector: str) -> list[dict[str, Any]]:
        self.asked.append(f"{namespace} {selector}")
        return self.pods

    async def read(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        return None if "shop-brokers-1:" in path else SAID


def a_pod(name: str, phase: str = "Running") -> dict[str, Any]:
    labels = {"sluicegate.dev/cluster": "shop", "app.kubernetes.io/component": "broker"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"sluicegate.dev/revision": "{}"}},
        "status": {"phase": phase},
    }


async def test_brokers_in_kubernetes_are_asked_through_the_api_server() -> None:
    pods = Pods(a_pod("shop-brokers-10"), a_pod("shop-brokers-1"), a_pod("shop-brokers-0", "Pending"))
    brokers = await brokers_in_kubernetes(pods, "kafka", "shop")  # type: ignore[arg-type]
    assert [broker.broker_id for broker in brokers] == [0, 1, 10]
    found = await ask_brokers(brokers, "/connection-quotas", {"address": "10.0.0.1"})
    assert [answer.problem for answer in found] == [
        "the broker's pod is Pending",
        "the broker's release does not support this request",
        "",
    ]
    assert found[2].document == SAID
    assert pods.asked == [
        "kafka app.kubernetes.io/component=broker,sluicegate.dev/cluster=shop",
        "/api/v1/namespaces/kafka/pods/shop-brokers-1:9404/proxy/connection-quotas?address=10.0.0.1",
        "/api/v1/namespaces/kafka/pods/shop-brokers-10:9404/proxy/connection-quotas?address=10.0.0.1",
    ]


async def test_a_namespace_without_brokers_is_told() -> None:
    with pytest.raises(
        NobodyToAskError, match="namespace kafka has no broker pods of cluster shop; set the namespace with -n"
    ):
        await brokers_in_kubernetes(Pods(), "kafka", "shop")  # type: ignore[arg-type]


def test_a_cluster_that_does_not_run_here_is_told(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        data.write_state({"pid": 1, "clusters": {"shop": {"nodes": []}}, "last_change": None})
        assert brokers_here(tmp_path, "shop") == []
        with pytest.raises(NobodyToAskError, match="--cluster bar: `up` runs shop"):
            brokers_here(tmp_path, "bar")


def test_external_brokers_are_not_asked(tmp_path: Path) -> None:
    outside = {"nodes": [], "external": ["127.0.0.1:9092"]}
    with DataDir(tmp_path) as data:
        data.write_state({"pid": 1, "clusters": {"outside": outside, "shop": {"nodes": []}}, "last_change": None})
        assert brokers_here(tmp_path, None) == []
        with pytest.raises(NobodyToAskError, match="outside: runtime External, and Apache Kafka does not report"):
            brokers_here(tmp_path, "outside")
        assert bootstrap_addresses(None, tmp_path, "outside") == [("127.0.0.1", 9092)]


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(why)
    done = CliRunner().invoke(app, list(arguments))
    assert done.stdout == ""
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["10.0.0.0/8"], "10.0.0.0/8 is neither an IPv4 or IPv6 address"),
        (["nobody"], "nobody is neither"),
        (["pod/", "-n", "kafka"], "'' is not a valid name of a pod or namespace"),
        (["pod/web/../other", "-n", "kafka"], "'web/../other' is not a valid name"),
        (["10.0.0.1", "-n", "No Such"], "'No Such' is not a valid name"),
        (["pod/web-0"], "a pod needs a namespace of Kubernetes: set it with -n NAMESPACE"),
    ],
)
def test_invalid_arguments_are_reported_and_exit_with_2(arguments: list[str], says: str) -> None:
    code, words = run(*arguments)
    assert (code, says in words) == (2, True)


def test_the_error_without_local_brokers_suggests_kubernetes(tmp_path: Path) -> None:
    code, words = run("10.0.0.1", "--data-dir", str(tmp_path))
    assert (code, "or ask a cluster in Kubernetes with -n NAMESPACE" in words) == (2, True)


def test_without_the_right_to_list_quotas_the_limits_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(Pods):
        async def list(self, kind: object, namespace: str, selector: str = "") -> list[dict[str, Any]]:
            if kind is CONNECTION_QUOTA:
                raise KubeError("connectionquotas is forbidden", 403)
            return await super().list(kind, namespace, selector)

        def close(self) -> None:
            pass

    monkeypatch.setattr(kubernetes_asked, "KubeClient", lambda _: Forbidden(a_pod("shop-brokers-0")))
    app = typer.Typer()
    app.command()(why)
    done = CliRunner().invoke(app, ["10.0.0.1", "-n", "kafka"])
    assert (done.exit_code, "default/office" in done.stdout) == (0, True)
    assert "without the names of their quotas: connectionquotas is forbidden" in done.stderr


def test_documents_are_json() -> None:
    assert json.loads(json.dumps(document([]))) == {"addresses": []}
