"""Objects of files: the same fields are kept as in an API server, including those that must outlive `up`."""

from copy import deepcopy
from typing import Any

from sluicegate_operator.api import Manifests, Topic, parse_resource
from sluicegate_operator.api.models.kafka_user import FINALIZER as USER_FINALIZER
from sluicegate_operator.api.models.topic import FINALIZER, TopicStatus
from sluicegate_operator.engine.context.context import now, reference
from sluicegate_operator.kube.http.kinds import CONNECTION_QUOTA, KAFKA_USER, TOPIC
from sluicegate_operator.local.objects import LocalObjects, Remembered
from tests.support.manifests.bad_manifests import cluster, topic

SHOP = ("default", "shop")


class Files:
    """Objects over a file of remembered fields; `again` starts another `up`."""

    def __init__(self) -> None:
        self.remembered: Remembered = {}
        self.again()

    def again(self) -> None:
        self.objects = LocalObjects(deepcopy(self.remembered), self._write)

    def _write(self, remembered: Remembered) -> None:
        self.remembered = deepcopy(remembered)

    def say(self, *documents: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Apply these documents; return the names of written and of deleted objects."""
        changes = self.objects.apply(Manifests.of([parse_resource(document) for document in documents]), now())
        return [found.name for found in changes.written], [found.name for found in changes.gone]

    @property
    def orders(self) -> Topic:
        (found,) = self.objects.snapshot(SHOP, [TOPIC]).topics
        return found


def test_only_what_people_have_changed_is_written() -> None:
    files = Files()
    assert files.say(cluster(), topic("orders")) == (["shop", "orders"], [])
    first = files.orders
    assert files.say(cluster(), topic("orders")) == ([], [])
    assert files.say(cluster(), topic("orders", partitions=9)) == (["orders"], [])
    assert (files.orders.metadata.uid, files.orders.metadata.generation) == (first.metadata.uid, 2)
    assert files.orders.metadata.creation_timestamp == first.metadata.creation_timestamp
    assert files.say(cluster()) == ([], ["orders"])
    assert files.objects.snapshot(SHOP, [TOPIC]).topics == ()


def test_a_snapshot_has_the_kinds_that_were_asked_for_of_its_cluster() -> None:
    files = Files()
    files.say(cluster(), topic("orders"))
    found = files.objects.snapshot(SHOP, [CONNECTION_QUOTA])
    assert (found.cluster is not None, found.topics) == (True, ())
    other = files.objects.snapshot(("default", "other"), [TOPIC])
    assert (other.cluster, other.topics) == (None, ())


def test_a_status_outlives_changes_of_the_object_and_what_is_remembered_outlives_up() -> None:
    files = Files()
    files.say(cluster(), topic("orders"))
    files.objects.remember(files.orders, {"configKeys": ["retention.ms"]})
    status = TopicStatus(topic_id="abc", partitions=6)
    assert files.objects.write_status(files.orders, status, ("configKeys",))
    assert not files.objects.write_status(files.orders, status, ("configKeys",))
    files.say(cluster(), topic("orders", partitions=9))
    assert (files.orders.status.partitions, files.orders.status.config_keys) == (6, ("retention.ms",))
    files.again()
    files.say(cluster(), topic("orders"))
    kept = files.orders.status
    assert (kept.topic_id, kept.config_keys, kept.partitions) == ("abc", ("retention.ms",), 0)


def test_a_topic_with_our_finalizer_stays_until_it_is_taken_off() -> None:
    files = Files()
    files.say(cluster(), topic("orders", deletionPolicy="Delete"))
    files.objects.set_finalizers(reference(files.orders), [FINALIZER])
    assert files.orders.metadata.finalizers == (FINALIZER,)
    files.say(cluster())
    (leaving,) = files.objects.snapshot(SHOP, [TOPIC]).leaving_topics
    assert leaving.body["metadata"]["finalizers"] == [FINALIZER]
    files.objects.set_finalizers(leaving.body, [])
    assert files.objects.snapshot(SHOP, [TOPIC]).leaving_topics == ()


def test_a_user_with_our_finalizer_stays_with_what_was_set_for_it() -> None:
    files, spec = Files(), {"clusterRef": {"name": "shop"}, "quotas": {"consumerByteRate": 1}}
    head = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "KafkaUser"}
    files.say(cluster(), {**head, "metadata": {"name": "billing", "namespace": "default"}, "spec": spec})
    (user,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    files.objects.set_finalizers(reference(user), [USER_FINALIZER])
    files.objects.remember(user, {"quotasSet": ["consumer_byte_rate"]})
    files.say(cluster())
    assert files.objects.snapshot(SHOP, [TOPIC]).leaving_users == ()
    (leaving,) = files.objects.snapshot(SHOP, [KAFKA_USER]).leaving_users
    assert leaving.user is not None
    assert leaving.user.status.quotas_set == ("consumer_byte_rate",)
    files.objects.set_finalizers(leaving.body, [])
    assert files.objects.snapshot(SHOP, [KAFKA_USER]).leaving_users == ()


BILLING = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "KafkaUser",
    "metadata": {"name": "billing", "namespace": "default"},
    "spec": {"clusterRef": {"name": "shop"}, "userName": "bill", "quotas": {"consumerByteRate": 1}},
}


def with_a_user() -> Files:
    """Return the files of an `up` that has set a quota for a user."""
    files = Files()
    files.say(cluster(), BILLING)
    (user,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    files.objects.set_finalizers(reference(user), [USER_FINALIZER])
    files.objects.remember(user, {"quotasSet": ["consumer_byte_rate"]})
    return files


def check_leaves(files: Files, uid: str) -> None:
    """Check that the user leaves with what was set for it, and is forgotten then."""
    (leaving,) = files.objects.snapshot(SHOP, [KAFKA_USER]).leaving_users
    assert leaving.user is not None
    assert (leaving.uid, leaving.user.user_name) == (uid, "bill")
    assert leaving.user.status.quotas_set == ("consumer_byte_rate",)
    files.objects.set_finalizers(leaving.body, [])
    assert files.objects.snapshot(SHOP, [KAFKA_USER]).leaving_users == ()
    assert files.remembered == {}
    assert files.say(cluster()) == ([], [])


def test_a_user_whose_file_was_removed_while_up_was_stopped_leaves_at_the_next_start() -> None:
    files = with_a_user()
    (user,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    files.again()
    assert files.say(cluster(name="other")) == (["other"], []), "the user's cluster is not among the files"
    files.again()
    assert files.say(cluster()) == (["shop"], ["billing"])
    check_leaves(files, user.metadata.uid)


def test_a_user_who_was_leaving_when_up_was_killed_leaves_at_the_next_start() -> None:
    files = with_a_user()
    (user,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    files.say(cluster())
    files.again()
    assert files.say(cluster()) == (["shop"], ["billing"])
    check_leaves(files, user.metadata.uid)


def test_a_user_who_is_there_again_after_a_restart_is_the_same() -> None:
    files = with_a_user()
    (user,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    files.again()
    assert files.say(cluster(), BILLING) == (["shop", "billing"], [])
    (again,) = files.objects.snapshot(SHOP, [KAFKA_USER]).users
    assert (again.metadata.uid, again.status.quotas_set) == (user.metadata.uid, ("consumer_byte_rate",))


def test_an_object_has_the_same_uid_in_the_next_run_whatever_other_files_there_are() -> None:
    files = Files()
    files.say(cluster(), topic("orders"))
    uid = files.orders.metadata.uid
    files.again()
    files.say(topic("aaa"), cluster(), topic("orders"))
    assert [found.metadata.uid for found in files.objects.resources if found.name == "orders"] == [uid]
    files.say(topic("aaa"), cluster())
    files.say(topic("aaa"), cluster(), topic("orders"))
    assert uid not in [found.metadata.uid for found in files.objects.resources]


def test_a_user_that_is_written_again_while_it_leaves_is_another_object() -> None:
    files = with_a_user()
    files.say(cluster())
    assert files.say(cluster(), BILLING) == (["billing"], [])
    snapshot = files.objects.snapshot(SHOP, [KAFKA_USER])
    (leaving,), (user,) = snapshot.leaving_users, snapshot.users
    assert (user.metadata.uid != leaving.uid, user.status.quotas_set) == (True, ())
    files.objects.remember(user, {"quotasSet": ["producer_byte_rate"]})
    files.objects.set_finalizers(leaving.body, [])
    assert files.remembered["KafkaUser/default/billing"]["quotasSet"] == ["producer_byte_rate"]


def test_remembered_fields_are_removed_with_their_object() -> None:
    files = Files()
    files.say(cluster(), topic("orders"))
    files.objects.remember(files.orders, {"configKeys": ["retention.ms"]})
    gone = files.orders
    files.say(cluster())
    assert files.remembered == {}
    assert not files.objects.write_status(gone, TopicStatus(partitions=1), ())
