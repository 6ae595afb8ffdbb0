"""Connection groups: which clients they delay, by which limit, and the counters."""

import pytest

from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import IpAction, QuotaSettings, Strategy

NOW = 1_000_000
L = "EXTERNAL"
A, B, C = "10.0.0.1", "10.0.0.2", "10.1.0.1"
V6 = "2001:db8::1"


class Scene:
    """One listener; every method is at NOW by default."""

    def __init__(self, settings: QuotaSettings | None = None) -> None:
        self.quotas = ConnectionQuotas(settings or QuotaSettings(), NOW)
        self.quotas.add_listener(L, NOW)
        self.groups = self.quotas.addresses.groups

    def group(self, name: str, *members: str, at: int = NOW, **limits: int) -> None:
        self.groups.set_limits(name, AddressGroupLimits(**limits), at)  # type: ignore[arg-type]
        for member in members:
            self.groups.add_member(name, member, at)
        self.settle()

    def settle(self) -> None:
        while self.groups.recount(3):
            pass

    def connect(self, ip: str, at: int = NOW) -> AcceptDecision:
        return self.quotas.on_accepted(L, ip, at)

    def admitted(self, ip: str, times: int, at: int = NOW) -> int:
        return sum(self.connect(ip, at).outcome is AcceptOutcome.ADMIT for _ in range(times))

    def close(self, ip: str, times: int = 1) -> None:
        for _ in range(times):
            self.quotas.on_closed(L, ip, NOW)

    def connections(self, name: str) -> int:
        return self.groups.by_name[name].connections


def test_a_group_with_one_address_and_a_rate() -> None:
    """Kafka's formula: 11 samples of a second, so a rate of 2 admits 20 at once."""
    scene = Scene()
    scene.group("g", A, rate=2)
    assert scene.admitted(A, 30) == scene.admitted(A, 1) + 20
    refused = scene.connect(A)
    assert (refused.outcome, refused.group) == (AcceptOutcome.REFUSE_DELAYED, "g")
    assert refused.at_ms > NOW
    assert scene.admitted(B, 30) == 30
    assert scene.groups.by_name["g"].held == {"delayed": 12}
    assert scene.quotas.listeners[L].delayed_total == 12


def test_members_of_a_shared_group_have_one_rate_and_one_count() -> None:
    scene = Scene(QuotaSettings(strategy=Strategy.TOKEN_BUCKET))
    scene.group("g", A, V6, "10.1.0.0/16", rate=3, shared=1)
    assert [scene.admitted(ip, 1) for ip in (A, V6, C, A)] == [1, 1, 1, 0]
    assert scene.admitted(A, 1, at=NOW + 400) == 1
    scene.group("g", max_connections=5, shared=1)
    assert scene.connections("g") == 4
    assert [scene.admitted(ip, 1) for ip in (V6, C)] == [1, 0]
    assert scene.connect(A).outcome is AcceptOutcome.REFUSE_TOO_MANY
    scene.close(V6)
    assert scene.admitted(C, 2) == 1


def test_members_of_other_groups_have_a_rate_and_a_count_each() -> None:
    scene = Scene()
    scene.group("g", "10.0.0.0/8", rate=1, max_connections=4)
    assert [scene.admitted(ip, 9) for ip in (A, B, C)] == [4, 4, 4]
    assert scene.connections("g") == 12
    scene.close(A, 4)
    scene.group("g", rate=1)
    assert scene.admitted(A, 20) == 1, "who was refused for the count is in the rate: ten in all, as for an address"


def test_all_groups_with_the_longest_matching_prefix_apply() -> None:
    scene = Scene()
    scene.group("wide", "10.0.0.0/8", "2001:db8::/32", max_connections=1)
    scene.group("narrow", "10.0.0.0/24", "2001:db8::/64", max_connections=3)
    scene.group("other", "10.0.0.0/24", max_connections=2, shared=1)
    assert [scene.admitted(ip, 9) for ip in (A, B, C, V6, "2001:db8:1::1", "192.0.2.1")] == [2, 0, 1, 3, 1, 9]
    assert scene.connect(A).group == "other"
    assert scene.connect(V6).group == "narrow"
    assert [scene.connections(name) for name in ("wide", "narrow", "other")] == [2, 5, 2]


def test_an_ip_quota_applies_to_its_address_and_the_default_to_addresses_without_a_group() -> None:
    scene = Scene(QuotaSettings(quota_window_num=2))
    scene.quotas.addresses.update_rate(None, 1, NOW)
    scene.quotas.addresses.update_rate(B, 3, NOW)
    scene.group("range", "10.0.0.0/24", rate=5)
    scene.group("whole", C, B, rate=4)
    found = {ip: scene.admitted(ip, 20) for ip in (A, B, C, "192.0.2.1")}
    assert found == {A: 5, B: 3, C: 4, "192.0.2.1": 1}
    scene.quotas.addresses.update_rate(A, 2, NOW)
    assert scene.connections("range") == 0
    assert scene.admitted(A, 20) == 2
    assert scene.quotas.addresses.rates.rate(A, NOW) == 2


def test_what_a_group_refuses_is_taken_back_everywhere() -> None:
    scene = Scene(QuotaSettings(quota_window_num=2, max_connection_creation_rate=50))
    scene.quotas.addresses.update_rate(A, 9, NOW)
    scene.group("loose", A, rate=8)
    scene.group("tight", A, rate=1, shared=1)
    assert scene.admitted(A, 12) == 1
    assert scene.quotas.addresses.rates.rate(A, NOW) == 1
    assert scene.quotas.rate_limit.meter.measure(NOW) == 1
    assert scene.quotas.listeners[L].meter.measure(NOW) == 1
    scene.group("tight")
    assert scene.admitted(A, 20) == 7, "all that the loose one has left"


def test_an_observing_group_delays_no_client_and_counts_those_over_its_limits() -> None:
    scene = Scene(QuotaSettings(quota_window_num=2, ip_action=IpAction.DROP))
    scene.group("counted", A, max_connections=3, observe=1)
    scene.group("seen", A, rate=2, observe=1)
    scene.group("held", "10.0.0.0/24", max_connections=7, shared=1)
    assert scene.admitted(A, 9) == 7
    seen = scene.groups.by_name["seen"]
    assert (seen.held, seen.would_hold, seen.connections) == ({}, {"dropped": 5}, 7)
    assert scene.groups.by_name["counted"].would_hold == {"too_many": 4}
    assert scene.connect(A).group == "held"
    scene.close(A, 7)
    scene.group("seen", rate=2)
    refused = scene.connect(A)
    assert (refused.outcome, refused.group) == (AcceptOutcome.REFUSE_DROPPED, "seen"), (
        "it goes on with what it has seen"
    )


def test_open_connections_follow_their_address_from_group_to_group() -> None:
    scene = Scene()
    scene.group("a", A, B, max_connections=5, shared=1)
    scene.group("b", max_connections=5, shared=1)
    assert [scene.admitted(A, 2), scene.admitted(B, 2)] == [2, 2]
    scene.groups.add_member("b", A, NOW)
    scene.groups.remove_member("a", A, NOW)
    assert [scene.connections(name) for name in "ab"] == [2, 2]
    assert scene.admitted(A, 5) == 3
    scene.groups.remove_member("a", B, NOW)
    assert scene.connections("a") == 0
    assert scene.admitted(B, 9) == 9
    scene.group("b", "10.0.0.0/24", max_connections=50, shared=1)
    assert scene.connections("b") == 5 + 11
    scene.groups.remove_member("b", A, NOW)
    assert scene.connections("b") == 16, "the range has it"
    scene.close(A, 5)
    scene.close(B, 11)
    assert scene.connections("b") == 0


def test_a_group_that_is_made_again_has_the_open_connections_and_nothing_else_of_the_one_before() -> None:
    scene = Scene(QuotaSettings(quota_window_num=2))
    for shared in (0, 1):
        name = f"g{shared}"
        scene.group(name, A, "10.1.0.0/16", rate=1, shared=shared)
        assert scene.admitted(C, 5) == 1
        scene.groups.set_limits(name, NO_LIMITS, NOW)
        assert scene.admitted(C, 5) == 5
        scene.group(name, rate=1, max_connections=9, shared=shared)
        assert scene.groups.by_name[name].held == {}
        assert scene.connections(name) == 6
        assert scene.admitted(C, 5) == 1
        scene.groups.set_limits(name, NO_LIMITS, NOW)
        scene.settle()
        scene.close(C, 7)
        for member in (A, "10.1.0.0/16"):
            scene.groups.remove_member(name, member, NOW)
        assert not scene.groups.by_name
    assert not scene.groups.active


def test_a_new_member_does_not_inherit_the_rate_of_its_addresss_former_member() -> None:
    scene = Scene(QuotaSettings(quota_window_num=2))
    scene.group("g", A, rate=1)
    assert scene.admitted(A, 9) == 1
    scene.groups.remove_member("g", A, NOW)
    scene.groups.add_member("g", A, NOW)
    assert scene.admitted(A, 9) == 1


def test_a_lowered_limit_holds_at_once_and_a_raised_one_too() -> None:
    scene = Scene(QuotaSettings(strategy=Strategy.TOKEN_BUCKET))
    scene.group("g", A, max_connections=5)
    assert scene.admitted(A, 9) == 5
    scene.group("g", max_connections=2)
    scene.close(A, 3)
    assert scene.admitted(A, 1) == 0
    scene.close(A)
    assert scene.admitted(A, 9) == 1
    scene.group("g", rate=1)
    assert scene.admitted(A, 9) == 1
    scene.group("g", rate=50, at=NOW + 100)
    assert scene.admitted(A, 90, at=NOW + 1_100) == 50, "the new rate counts since it is there"


def test_a_connection_accepted_during_a_recount_is_checked_against_the_limits_in_force() -> None:
    scene = Scene()
    assert [scene.admitted(ip, 2) for ip in (A, B)] == [2, 2]
    scene.groups.set_limits("g", AddressGroupLimits(max_connections=3), NOW)
    scene.groups.add_member("g", "10.0.0.0/8", NOW)
    assert [scene.admitted(ip, 2) for ip in (A, B)] == [1, 1]
    scene.close(A)
    assert scene.groups.recount(1), "it is not done"
    scene.settle()
    assert scene.connections("g") == 5


def test_meters_are_as_many_as_those_of_addresses_may_be() -> None:
    scene = Scene(QuotaSettings(max_tracked_ips=10))
    scene.group("g", "10.0.0.0/8", rate=1)
    for n in range(50):
        scene.connect(f"10.0.1.{n}")
    assert len(scene.groups.rates.meters) == 10


@pytest.mark.parametrize("member", ["10.0.0.1/8", "shop/a", "10.0.0.0/40"])
def test_an_invalid_range_changes_nothing(member: str) -> None:
    scene = Scene()
    with pytest.raises(ValueError, match=r"host bits|does not appear|permitted"):
        scene.groups.add_member("g", member, NOW)
    assert not scene.groups.by_name


def test_connections_of_who_had_the_address_before_do_not_count() -> None:
    """The connections may hang for minutes after a node disappeared without closing them."""
    scene = Scene()
    scene.group("each", A, max_connections=2)
    scene.group("all", A, max_connections=3, shared=1)
    scene.group("range", "10.0.0.0/8", max_connections=9, observe=1)
    assert scene.admitted(A, 9, at=NOW) == 2
    for name in ("each", "all"):
        scene.groups.remove_member(name, A, NOW + 10)
    for name in ("each", "all"):
        scene.groups.add_member(name, A, NOW + 20)
    assert [scene.connections(name) for name in ("each", "all", "range")] == [0, 0, 2]
    assert scene.admitted(A, 9, at=NOW + 30) == 2
    assert [scene.connections(name) for name in ("each", "all", "range")] == [2, 2, 4]
    scene.quotas.on_closed(L, A, NOW + 40, accepted_ms=NOW)
    assert scene.admitted(A, 1, at=NOW + 40) == 0, "that was none of theirs"
    scene.quotas.on_closed(L, A, NOW + 40, accepted_ms=NOW + 30)
    assert scene.admitted(A, 9, at=NOW + 50) == 1
    scene.close(A, 3)
    assert [scene.connections(name) for name in ("each", "all", "range")] == [0, 0, 0]


X, Y = 7.0, 8.0
"""Two pods that have one address, one after the other."""


def test_a_reassigned_address_does_not_keep_the_state_of_its_former_pod() -> None:
    """All in one change: the address is a member before and after it."""
    scene = Scene(QuotaSettings(quota_window_num=2, strategy=Strategy.TOKEN_BUCKET))
    scene.group("rate", rate=2)
    scene.group("each", max_connections=2)
    scene.group("all", B, max_connections=5, shared=1)
    scene.group("range", "10.0.0.0/8", max_connections=9, observe=1)
    for name in ("rate", "each", "all"):
        scene.groups.add_member(name, A, NOW, X)
    assert scene.admitted(B, 1) == 1
    assert scene.admitted(A, 9) == 2
    assert scene.connect(A).group == "rate"
    scene.groups.add_member("rate", A, NOW + 10, X)
    assert scene.connect(A, at=NOW + 10).group == "rate", "it is the same one"
    scene.groups.add_member("rate", A, NOW + 10, Y)
    assert [scene.connections(name) for name in ("rate", "each", "all", "range")] == [0, 0, 1, 3]
    assert scene.admitted(A, 1, at=NOW + 20) == 1, "in between, for changes come in force one after the other"
    for name in ("each", "all"):
        scene.groups.add_member(name, A, NOW + 30, Y)
    assert [scene.connections(name) for name in ("rate", "each", "all", "range")] == [1, 1, 2, 4]
    assert scene.admitted(A, 9, at=NOW + 40) == 1
    for accepted_ms in (NOW, NOW, NOW + 20, NOW + 40):
        scene.quotas.on_closed(L, A, NOW + 50, accepted_ms=accepted_ms)
    assert [scene.connections(name) for name in ("rate", "each", "all", "range")] == [0, 0, 1, 1]


def test_an_address_that_moves_to_another_group_takes_no_state_along() -> None:
    """The new member joins before the old one leaves."""
    scene = Scene()
    scene.group("old", max_connections=2)
    scene.group("new", max_connections=2)
    scene.groups.add_member("old", A, NOW, X)
    assert scene.admitted(A, 9) == 2
    scene.groups.add_member("new", A, NOW + 10, X)
    assert scene.connections("new") == 2, "he has them himself"
    scene.groups.remove_member("new", A, NOW + 10)
    scene.groups.add_member("new", A, NOW + 10, Y)
    scene.groups.remove_member("old", A, NOW + 10)
    assert (scene.connections("new"), scene.connections("old")) == (0, 0)
    assert scene.admitted(A, 9, at=NOW + 20) == 2


def test_an_address_listed_in_another_group_keeps_its_connections_when_it_becomes_a_pods() -> None:
    scene = Scene()
    scene.group("listed", A, max_connections=9)
    assert scene.admitted(A, 3) == 3
    scene.group("pods", max_connections=4)
    scene.groups.add_member("pods", A, NOW, X)
    assert [scene.connections(name) for name in ("listed", "pods")] == [3, 3]
    assert scene.admitted(A, 9, at=NOW + 1) == 1
