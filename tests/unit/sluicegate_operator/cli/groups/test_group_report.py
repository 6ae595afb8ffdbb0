"""The report on a group: its members, and the lag of each partition."""

from sluicegate_operator.cli.groups.group_report import report
from sluicegate_operator.cli.groups.group_tables import members_table
from sluicegate_operator.kafka_admin.groups.group_views import GroupMember, GroupView

TILL = GroupMember("m-1", "till-1", "till", "/10.0.0.1", (("orders", 0), ("orders", 2)), 4)
OTHER = GroupMember("m-2", None, "archive", "/10.0.0.2", (), 4)
GROUP = GroupView("billing", "Stable", "consumer", "consumer", "uniform", (TILL, OTHER), 4)


def test_lag_is_what_is_between_the_commit_and_the_logs_end() -> None:
    committed = {("orders", 0): 40, ("orders", 1): 7, ("gone", 0): 3}
    shown = report(GROUP, committed, {("orders", 0): 100, ("orders", 1): 7, ("orders", 2): 9})
    rows = [(row.topic, row.partition, row.committed, row.log_end, row.lag, row.client_id) for row in shown.offsets]
    assert rows == [
        ("gone", 0, 3, None, None, None),
        ("orders", 0, 40, 100, 60, "till"),
        ("orders", 1, 7, 7, 0, None),
        ("orders", 2, None, 9, None, "till"),
    ]
    assert shown.lag == 60
    assert [(member.client_id, member.partitions) for member in shown.members] == [("archive", 0), ("till", 2)]


def test_a_commit_beyond_the_logs_end_is_no_lag() -> None:
    """The log was cut, or the commit came between the two requests."""
    shown = report(GROUP, {("orders", 0): 101}, {("orders", 0): 100})
    assert (shown.offsets[0].lag, shown.lag) == (0, 0)


def test_the_lag_of_a_group_that_has_committed_nothing_is_not_known() -> None:
    shown = report(GROUP, {}, {("orders", 0): 100, ("orders", 2): 9})
    assert shown.lag is None
    assert "lag unknown" in str(members_table(shown).title)
    idle = GroupView("billing", "Empty", "classic", "", "", (), None)
    assert report(idle, {}, {}).lag == 0
