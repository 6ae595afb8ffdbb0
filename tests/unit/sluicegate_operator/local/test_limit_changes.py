"""The lines of `sluicegate up` on limits: changes, the time until they applied, and when all apply again."""

from sluicegate_operator.local.limit_changes import LimitChanges, LimitCheck

SHOP = ("default", "shop")
LACKING = LimitCheck(complete=False, brokers=3, at_s=2.0, lacking="broker 2 is away")


def test_a_change_is_told_with_the_time_that_it_took() -> None:
    said: list[str] = []
    changes = LimitChanges(said.append)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=3, at_s=1.0))
    assert (said, changes.last) == ([], None)
    changes.note(SHOP, ["broker 5/s -> 6/s"], began_s=2.0)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=3, at_s=2.25))
    assert said == [
        "shop: broker 5/s -> 6/s",
        "shop: enforced on 3/3 brokers 0.250 s after the change, without restarts",
    ]
    assert changes.last == {
        "number": 1,
        "cluster": "shop",
        "limits": ["broker 5/s -> 6/s"],
        "enforced_after_s": 0.25,
    }


def test_a_change_that_is_not_in_force_yet_says_why_and_later_that_all_are() -> None:
    said: list[str] = []
    changes = LimitChanges(said.append)
    changes.note(SHOP, ["broker 5/s -> 6/s"], began_s=1.0)
    changes.checked(SHOP, LACKING)
    assert changes.last is not None
    assert changes.last["enforced_after_s"] is None
    changes.checked(SHOP, LACKING)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=3, at_s=9.0))
    assert said[1:] == [
        "shop: not enforced everywhere yet: broker 2 is away",
        "shop: all limits are enforced on 3/3 brokers now",
    ]


def test_new_brokers_are_reported_once_they_enforce_all_limits() -> None:
    said: list[str] = []
    changes = LimitChanges(said.append)
    changes.doubt(SHOP)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=2, at_s=1.0))
    assert said == []
    changes.doubt(SHOP)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=3, at_s=2.0))
    assert said == ["shop: all limits are enforced on 3/3 brokers now"]


def test_nothing_is_enforced_by_no_brokers() -> None:
    said: list[str] = []
    changes = LimitChanges(said.append)
    nobody = LimitCheck(complete=True, brokers=0, at_s=1.0)
    changes.checked(SHOP, nobody)
    changes.checked(SHOP, LimitCheck(complete=True, brokers=1, at_s=2.0))
    assert said == [], "a first start is no news"
    changes.doubt(SHOP)
    changes.note(SHOP, ["broker 5/s -> 6/s"], began_s=3.0)
    changes.checked(SHOP, nobody)
    assert said == ["shop: broker 5/s -> 6/s"]
    changes.checked(SHOP, LimitCheck(complete=True, brokers=1, at_s=4.0))
    assert said[1:] == ["shop: all limits are enforced on 1/1 brokers now"]
