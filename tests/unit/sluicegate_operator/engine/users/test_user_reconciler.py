"""KafkaUsers from manifests to a broker in memory, and back into their status."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.api.models.kafka_user import FINALIZER
from sluicegate_operator.engine.users.users import WAITING_RETRY, UserReconciler
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import SECRET, Kind
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.fakes.scripted_users import ScriptedUsers
from tests.support.manifests.bad_manifests import cluster, external
from tests.support.manifests.user_manifests import SCRAM, acl, certified, kafka_user

SHOP = ("default", "shop")
DELETION_S = 300.0


class Users:
    """The users of one cluster, and the operator that keeps them."""

    def __init__(self, *objects: Json, with_cluster: bool = True) -> None:
        self.kube = MemoryKube(*((cluster(),) if with_cluster else ()), *objects)
        self.broker = ScriptedUsers()
        self.there: BrokerPool | None = self.broker.pool()
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.pool = self._pool  # type: ignore[method-assign, assignment]
        self.restart()

    def restart(self, deletion_s: float = DELETION_S) -> None:
        self._reconciler = UserReconciler(self.context, deletion_s=deletion_s)

    async def _pool(self, *_: object) -> BrokerPool | None:
        return self.there

    async def reconcile(self) -> Again:
        return await self._reconciler.reconcile(SHOP)

    def ready(self, name: str = "alice") -> tuple[str, str, str]:
        found = self.kube.condition("KafkaUser", name)
        return found["status"], found["reason"], found["message"]

    def password(self, name: str = "alice") -> str:
        return base64.b64decode(self.kube.take("Secret", name)["data"]["password"]).decode()


async def test_a_user_is_made_and_stays_as_it_is() -> None:
    users = Users(kafka_user("alice", acl(), quotas={"requestPercentage": 50}))
    await users.reconcile()
    assert users.ready() == ("True", "Applied", "the password is in Secret alice; ACLs: 1; quotas: 1")
    assert [str(rule) for rule in users.broker.rules] == ["allow READ on topic orders"]
    assert users.broker.quotas == {"alice": {"request_percentage": 50.0}}
    found = users.kube.take("KafkaUser", "alice")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert found["status"]["aclsSet"] == ["ALLOW READ TOPIC LITERAL * User:alice orders"]
    data = users.kube.take("Secret", "alice")["data"]
    jaas = base64.b64decode(data["sasl.jaas.config"]).decode()
    assert jaas == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="alice" password="{users.password()}";'
    )
    [owner] = users.kube.take("Secret", "alice")["metadata"]["ownerReferences"]
    assert owner["kind"] == "KafkaUser"
    writes = users.broker.writes
    await users.reconcile()
    assert users.broker.writes == writes, "nothing is sent twice"
    [event] = users.kube.events("Changed")
    assert event["message"] == "user alice: allow READ on topic orders; request_percentage=50; a password"
    assert users.password() not in str(users.kube.events("Changed")) + str(found)


async def test_many_users_are_read_together() -> None:
    names = [f"user-{number}" for number in range(12)]
    users = Users(*(kafka_user(name, acl(), quotas={"requestPercentage": 5}) for name in names))
    await users.reconcile()
    assert {users.ready(name)[1] for name in names} == {"Applied"}
    assert len(users.broker.rules) == len(users.broker.passwords) == len(users.broker.quotas) == 12
    before = len(users.broker.peer.requests)
    await users.reconcile()
    read = [request.api_key for request in users.broker.peer.requests[before:]]
    assert sorted(read) == [29, 48, 50], "one request for each API, whatever the number of users"


async def test_each_new_value_of_the_annotation_makes_a_new_password() -> None:
    users = Users(kafka_user())
    await users.reconcile()
    passwords = [users.password()]
    for value in ("1", "1", "2"):
        rotated = kafka_user()
        users.kube.put(rotated | {"metadata": rotated["metadata"] | {"annotations": {"sluicegate.dev/rotate": value}}})
        await users.reconcile()
        passwords.append(users.password())
    users.kube.put(kafka_user() | {"metadata": kafka_user()["metadata"] | {"annotations": {}}})
    await users.reconcile()
    passwords.append(users.password())
    assert passwords[-1] == passwords[-2], "without the annotation nothing is rotated"
    assert len(set(passwords)) == 3
    assert passwords[1] == passwords[2]
    assert users.broker.writes == 3


async def test_a_deleted_user_leaves_what_others_have_set() -> None:
    users = Users(kafka_user("alice", acl()))
    await users.reconcile()
    users.broker.quotas["alice"] = {"producer_byte_rate": 9.0}
    users.kube.delete_as_a_person("KafkaUser", "alice")
    await users.reconcile()
    assert users.kube.names("KafkaUser") == []
    assert (users.broker.rules, users.broker.passwords) == (set(), {})
    assert users.broker.quotas == {"alice": {"producer_byte_rate": 9.0}}
    assert [event["reason"] for event in users.kube.events("UserRemoved")] == ["UserRemoved"]


async def test_a_user_whose_name_has_a_percent_sign_keeps_apart_from_others() -> None:
    """The ACL of `a b` is another client's, although the status has a blank as %20."""
    entry = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read"]}
    users = Users(kafka_user("alice", entry, userName="a%20b"))
    await users.reconcile()
    [own] = users.broker.rules
    foreign = replace(own, principal="User:a b")
    users.broker.rules.add(foreign)
    other = {**entry, "resource": {"type": "topic", "name": "bills"}}
    users.kube.put(kafka_user("alice", other, userName="a%20b"))
    await users.reconcile()
    assert own not in users.broker.rules, "what leaves the spec is removed"
    users.kube.put(kafka_user("alice", entry, userName="a%20b"))
    await users.reconcile()
    users.kube.delete_as_a_person("KafkaUser", "alice")
    await users.reconcile()
    assert users.broker.rules == {foreign}


async def test_a_deleted_user_waits_for_brokers_but_not_for_ever() -> None:
    users = Users(kafka_user("alice", acl()))
    await users.reconcile()
    users.there = None
    users.kube.delete_as_a_person("KafkaUser", "alice")
    assert await users.reconcile() == WAITING_RETRY
    assert users.kube.names("KafkaUser") == ["alice"]
    users.restart(deletion_s=0.0)
    await users.reconcile()
    assert users.kube.names("KafkaUser") == []
    [event] = users.kube.events("UserLeftBehind")
    assert "remove them with Kafka's tools" in event["message"]


async def test_a_deleted_user_goes_with_its_cluster() -> None:
    users = Users(kafka_user())
    await users.reconcile()
    users.kube.remove("BrokerCluster", "shop")
    users.kube.delete_as_a_person("KafkaUser", "alice")
    await users.reconcile()
    assert users.kube.names("KafkaUser") == []


async def test_what_brokers_refuse_is_reported_and_not_remembered() -> None:
    users = Users(kafka_user("alice", acl("topic", "orders"), acl("topic", "bad"), quotas={"requestPercentage": 5}))
    users.broker.refused.add("bad")
    await users.reconcile()
    status, reason, message = users.ready()
    assert (status, reason) == ("False", "Refused")
    assert "creating the ACL allow READ on topic bad: INVALID_REQUEST" in message
    found = users.kube.take("KafkaUser", "alice")["status"]
    assert found["aclsSet"] == ["ALLOW READ TOPIC LITERAL * User:alice orders"]
    assert not found.get("quotasSet"), "it was not tried"
    users.broker.refused.clear()
    await users.reconcile()
    assert users.ready()[1] == "Applied"


async def test_conflicts_and_missing_clusters_are_reported() -> None:
    users = Users(kafka_user(), kafka_user("other", userName="alice"))
    await users.reconcile()
    assert users.ready("other")[1] == "Conflicted"
    alone = Users(kafka_user(), with_cluster=False)
    await alone.reconcile()
    assert alone.ready()[1] == "ClusterMissing"


async def test_acls_need_an_authorizer() -> None:
    users = Users(kafka_user("alice", acl()), certified(quotas={"producerByteRate": 5}))
    users.broker.authorizer = False
    await users.reconcile()
    status, reason, message = users.ready()
    assert (status, reason) == ("False", "NoAuthorizer")
    assert "authorizer.class.name" in message
    assert users.ready("billing")[0] == "True", "a user without ACLs needs none"


async def test_brokers_without_the_apis_and_brokers_that_are_away_are_reported() -> None:
    users = Users(kafka_user())
    users.broker.peer.refuse = True
    assert await users.reconcile() == WAITING_RETRY
    assert users.ready()[1] == "WaitingForBrokers"
    users.there = None
    await users.reconcile()
    assert users.ready()[1:] == ("WaitingForBrokers", "no broker has an address yet")


async def test_another_clients_secret_is_not_touched() -> None:
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice"}, "data": {"theirs": "eA=="}}
    users = Users(kafka_user(), theirs)
    await users.reconcile()
    assert users.ready()[1] == "NameTaken"
    assert users.kube.take("Secret", "alice")["data"] == {"theirs": "eA=="}
    assert users.broker.writes == 0


async def test_a_password_of_another_clients_secret_that_is_gone_a_moment_later_is_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"password": base64.b64encode(b"another client's").decode()}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice"}, "data": data}
    users = Users(kafka_user(), theirs)
    get = users.kube.get

    async def read_and_gone(kind: Kind, namespace: str | None, name: str) -> Json | None:
        found = await get(kind, namespace, name)
        if kind == SECRET and found is not None and found["data"] == data:
            users.kube.remove("Secret", name)
        return found

    monkeypatch.setattr(users.kube, "get", read_and_gone)
    for _ in range(2):
        await users.reconcile()
    assert users.ready()[1] == "Applied"
    assert users.password() != "another client's"


async def test_a_secret_that_somebody_has_made_immutable_is_named_with_what_to_do() -> None:
    users = Users(kafka_user())
    await users.reconcile()
    first = users.password()
    users.kube.put(users.kube.take("Secret", "alice") | {"immutable": True})
    rotated = kafka_user()
    rotated["metadata"]["annotations"] = {"sluicegate.dev/rotate": "2"}
    users.kube.put(rotated)
    await users.reconcile()
    assert users.ready()[1] == "SecretUnusable"
    assert "Secret alice has `immutable: true`" in users.ready()[2]
    assert "delete it (kubectl delete secret alice), and the operator creates it again" in users.ready()[2]
    assert users.password() == first
    users.kube.remove("Secret", "alice")
    await users.reconcile()
    assert users.ready()[1] == "Applied"
    assert users.password() != first


async def test_a_missing_right_is_named_with_the_value_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users(kafka_user())
    get = users.kube.get

    async def refuse(kind: Kind, namespace: str | None, name: str) -> Json | None:
        if kind == SECRET:
            raise KubeError("forbidden", 403)
        return await get(kind, namespace, name)

    monkeypatch.setattr(users.kube, "get", refuse)
    await users.reconcile()
    assert users.ready()[1] == "SecretUnusable"
    assert "install the chart with rbac.secrets=true" in users.ready()[2]


async def test_a_paused_cluster_keeps_its_users() -> None:
    users = Users(kafka_user("alice", acl()))
    await users.reconcile()
    users.kube.put(cluster(paused=True))
    changed: Any = kafka_user("alice", acl("topic", "bills"))
    users.kube.put(changed)
    writes = users.broker.writes
    await users.reconcile()
    assert users.broker.writes == writes
    assert users.ready()[1] == "Paused"


@pytest.mark.parametrize("word", ["", "hidden\n", "hidden\r\nword", "hidden\nword", "hidden\0", "\xff"])
async def test_a_given_password_is_one_line_of_text(word: str) -> None:
    """Kafka's clients read it from a quoted text, which ends with its line."""
    source = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "word"}}}
    users = Users(kafka_user(authentication=SCRAM | {"password": source}))
    data = {"word": base64.b64encode(word.encode("latin-1")).decode()}
    users.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}, "data": data})
    await users.reconcile()
    status, reason, message = users.ready()
    assert (status, reason) == ("False", "SecretUnusable")
    assert "hidden" not in message
    assert users.broker.passwords == {}
    assert users.kube.names("Secret") == ["given"]


@pytest.mark.parametrize("word", ["", "hidden\nword", "\xff"])
async def test_what_another_client_has_written_into_the_secret_is_replaced_unless_it_is_a_password(word: str) -> None:
    users = Users(kafka_user())
    await users.reconcile()
    written = users.kube.take("Secret", "alice")
    changed = {"password": base64.b64encode(word.encode("latin-1")).decode()}
    users.kube.put(written | {"data": written["data"] | changed})
    before = dict(users.broker.passwords)
    await users.reconcile()
    assert users.ready()[1] == "Applied"
    assert len(users.password()) == 32
    assert users.broker.passwords != before


async def test_a_password_that_is_older_than_its_kafka_user_is_overwritten_and_goes_with_it() -> None:
    users = Users(kafka_user())
    users.broker.passwords["alice"] = b"another client's"
    await users.reconcile()
    assert users.ready()[:2] == ("True", "Applied")
    assert users.broker.passwords["alice"] != b"another client's"
    users.kube.delete_as_a_person("KafkaUser", "alice")
    await users.reconcile()
    assert users.broker.passwords == {}


async def test_a_password_that_others_have_set_stays_without_authentication() -> None:
    users = Users(certified(quotas={"requestPercentage": 5}))
    users.broker.passwords["CN=billing,O=shop"] = b"another client's"
    await users.reconcile()
    users.kube.delete_as_a_person("KafkaUser", "billing")
    await users.reconcile()
    assert users.kube.names("KafkaUser") == []
    assert users.broker.passwords == {"CN=billing,O=shop": b"another client's"}


_ORDERS, _GROUP = acl("topic", "orders", "Read", "Write"), acl("group", "g")
_EXPLICIT = _ORDERS | {"host": "*", "type": "allow", "resource": _ORDERS["resource"] | {"patternType": "literal"}}


@pytest.mark.parametrize("host", ["2001:DB8::7", "2001:0db8:0::0:7", "2001:db8:0:0:0:0:0:7", "2001:db8::7"])
@pytest.mark.parametrize(
    ("cluster_", "spelled"), [(cluster(), "2001:db8::7"), (external(), "2001:db8:0:0:0:0:0:7")], ids=["own", "Kafka"]
)
async def test_an_acl_has_the_address_as_the_brokers_spell_it(cluster_: Json, spelled: str, host: str) -> None:
    """Brokers compare texts: in another spelling, a deny would deny nothing."""
    users = Users(kafka_user("alice", acl(host=host, type="deny"), acl(host="192.0.2.7")), cluster_, with_cluster=False)
    await users.reconcile()
    assert sorted(rule.host for rule in users.broker.rules) == ["192.0.2.7", spelled]
    writes = users.broker.writes
    users.kube.put(kafka_user("alice", acl(host="192.0.2.7"), acl(host=spelled, type="deny")))
    await users.reconcile()
    assert (users.broker.writes, users.ready()[1]) == (writes, "Applied")


@pytest.mark.parametrize(
    "acls",
    [
        (_GROUP, _ORDERS),
        (_ORDERS, _GROUP, _ORDERS),
        (_GROUP, acl("topic", "orders", "Write", "Read", "Write")),
        (_GROUP, acl("topic", "orders", "Write"), acl("topic", "orders", "Read")),
        (_EXPLICIT, _GROUP),
    ],
    ids=["order", "twice", "operations", "split", "defaults"],
)
async def test_another_spelling_of_a_user_sends_nothing_to_brokers(acls: tuple[Json, ...]) -> None:
    users = Users(kafka_user("alice", _ORDERS, _GROUP, quotas={"controllerMutationRate": 2}))
    await users.reconcile()
    writes, ready = users.broker.writes, users.ready()
    users.kube.put(kafka_user("alice", *acls, quotas={"controllerMutationRate": 2.0}))
    await users.reconcile()
    assert (users.broker.writes, users.ready()) == (writes, ready)
    users.kube.put(kafka_user("alice", *acls, quotas={"controllerMutationRate": 3}))
    await users.reconcile()
    assert users.broker.writes > writes
