"""The renewal of a cluster's own certificates: each step, and years of them in virtual time."""

from typing import Any

import pytest

from sluicegate_operator.planning.certificates.renewal import (
    NOTHING,
    STEP_S_MIN,
    TRUSTED_MAX,
    Authority,
    MakeAuthority,
    NodeInForce,
    NotYet,
    StoredCertificate,
    Terms,
    Write,
    is_urgent,
    needs_nodes,
    next_step,
    wanted_step,
)
from tests.unit.sluicegate_operator.planning.certificates.renewal_world import (
    DAY_S,
    MINUTE_S,
    RefusedError,
    RenewalWorld,
)

YEAR_S = 365 * DAY_S
TERMS = Terms(validity_s=YEAR_S, renewal_s=30 * DAY_S)
OLD, NEW = Authority("old", YEAR_S), Authority("new", 2 * YEAR_S)
LATE_S = YEAR_S - 10 * DAY_S


def current(*trusted: str, issuer: str = "old", ends_s: float = YEAR_S, **other: Any) -> StoredCertificate:
    return StoredCertificate(f"of {issuer}", ends_s, issuer, frozenset(trusted or (issuer,)), **other)


def reports(version: StoredCertificate, *names: str) -> list[NodeInForce]:
    return [NodeInForce(name, frozenset({(version.certificate, version.trusted)})) for name in names]


def test_a_new_cluster_gets_an_authority_and_a_certificate() -> None:
    assert isinstance(wanted_step(0, None, None, TERMS), MakeAuthority)
    assert wanted_step(0, OLD, None, TERMS) == Write(frozenset({"old"}), True, "there is no certificate yet")
    assert wanted_step(0, OLD, current(), TERMS) == NOTHING


def test_an_authority_of_the_user_is_never_made() -> None:
    terms = Terms(YEAR_S, 30 * DAY_S, generated=False, renewal="once")
    assert wanted_step(0, None, None, terms) == NOTHING
    assert wanted_step(LATE_S, OLD, current(renewal="once"), terms) == NOTHING
    # Its certificate would end at the same time, so none is issued again and again.
    again = wanted_step(0, OLD, current(), terms)
    assert isinstance(again, Write)
    assert again.issue


def test_an_authority_is_renewed_in_time_or_on_request_but_not_during_a_renewal() -> None:
    due = wanted_step(LATE_S, OLD, current(), TERMS)
    assert due == MakeAuthority("the authority ends in 10 days")
    asked = Terms(YEAR_S, 30 * DAY_S, renewal="once")
    assert isinstance(wanted_step(0, OLD, current(), asked), MakeAuthority)
    made = Terms(YEAR_S, 30 * DAY_S, renewal="once", authority_made_for="once")
    assert wanted_step(0, OLD, current(renewal="once"), made) == NOTHING
    assert not isinstance(wanted_step(0, NEW, current("old", "new"), asked), MakeAuthority)


def test_trust_comes_first_then_the_certificate_then_the_old_authority_goes() -> None:
    trust = wanted_step(LATE_S, NEW, current(), TERMS)
    assert isinstance(trust, Write)
    assert (trust.trusted, trust.issue, needs_nodes(trust, current())) == (frozenset({"old", "new"}), False, False)
    issue = wanted_step(LATE_S, NEW, current("old", "new"), TERMS)
    assert isinstance(issue, Write)
    assert (issue.trusted, issue.issue, needs_nodes(issue, current("old", "new"))) == (
        frozenset({"old", "new"}),
        True,
        True,
    )
    overlapping = current("old", "new", issuer="new", ends_s=2 * YEAR_S)
    drop = wanted_step(LATE_S, NEW, overlapping, TERMS)
    assert isinstance(drop, Write)
    assert (drop.trusted, drop.issue, needs_nodes(drop, overlapping)) == (frozenset({"new"}), False, True)


def test_only_trust_in_a_further_authority_does_not_wait() -> None:
    version = current("old", "new")
    trust, issue = Write(version.trusted | {"third"}, False, ""), Write(version.trusted, True, "")
    assert next_step(0, trust, version, 0, [NodeInForce("a", silence="down")], TERMS) == trust
    for behind in (NodeInForce("b", silence="down"), *reports(current(), "b")):
        waits = next_step(100, issue, version, 0, [*reports(version, "a"), behind], TERMS)
        assert waits == NotYet(issue, (behind,))
    assert next_step(100, issue, version, 0, reports(version, "a", "b"), TERMS) == issue
    assert next_step(STEP_S_MIN - 1, issue, version, 0, reports(version, "a"), TERMS) == NotYet(issue)


def test_a_node_with_two_versions_in_force_is_behind() -> None:
    version = current("old", "new")
    both = frozenset({(version.certificate, version.trusted), ("of old", frozenset({"old"}))})
    assert not NodeInForce("a", both).has(version)


def test_nodes_that_are_away_do_not_let_the_certificate_end() -> None:
    version, away = current("old", "new"), [NodeInForce("a", silence="down")]
    issue = Write(version.trusted, True, "")
    urgent_s = YEAR_S - 2.9 * DAY_S
    assert not is_urgent(YEAR_S - 3.1 * DAY_S, version, TERMS)
    assert isinstance(next_step(YEAR_S - 3.1 * DAY_S, issue, version, 0, away, TERMS), NotYet)
    assert is_urgent(urgent_s, version, TERMS)
    assert next_step(urgent_s, issue, version, 0, away, TERMS) == issue
    drop = Write(frozenset({"new"}), False, "")
    assert isinstance(next_step(urgent_s, drop, version, 0, away, TERMS), NotYet)


def test_trust_is_limited_and_unfit_certificates_are_replaced() -> None:
    many = current(*(f"authority-{n}" for n in range(TRUSTED_MAX)), issuer="authority-0")
    assert wanted_step(0, NEW, many, TERMS) == NOTHING
    unfit = wanted_step(0, OLD, current(fits=False), TERMS)
    assert isinstance(unfit, Write)
    assert unfit.issue


@pytest.mark.parametrize("seed", range(40))
def test_no_node_meets_a_certificate_that_it_does_not_trust_in_three_years(seed: int) -> None:
    world = RenewalWorld(seed, TERMS)
    for year in range(1, 4):
        world.run_until(year * YEAR_S)
        world.renewal = str(world.chance.randint(0, 1)) if world.renewal else ""
    assert world.authorities_made >= 3
    world.run_until(world.now_s + 10 * MINUTE_S)
    while not world.is_settled:
        world.run_until(world.now_s + MINUTE_S)
    assert world.authority is not None
    assert world.versions[-1].trusted == {world.authority.digest}


@pytest.mark.parametrize("seed", range(10))
def test_a_storm_of_requests_for_renewal_is_as_safe(seed: int) -> None:
    world = RenewalWorld(seed, TERMS)
    for request in range(20):
        world.renewal = str(request)
        world.run_until(world.now_s + world.chance.uniform(1, 30 * MINUTE_S))
    assert world.authorities_made >= 3
    assert max(len(version.trusted) for version in world.versions) == 2


def _without_waiting(now_s: float, wanted: Write, *_: object) -> Write:
    return wanted


def _without_the_last_wait(
    now_s: float, wanted: Write, version: StoredCertificate, since_s: float, nodes: list[NodeInForce], terms: Terms
) -> Write | NotYet:
    return next_step(now_s, wanted, version, since_s, nodes, terms) if wanted.issue else wanted


def _without_silent_nodes(
    now_s: float, wanted: Write, version: StoredCertificate, since_s: float, nodes: list[NodeInForce], terms: Terms
) -> Write | NotYet:
    return next_step(now_s, wanted, version, since_s, [node for node in nodes if not node.silence], terms)


@pytest.mark.parametrize("broken", [_without_waiting, _without_the_last_wait, _without_silent_nodes])
def test_the_years_find_an_operator_that_does_not_wait(broken: Any) -> None:
    def is_found(seed: int) -> bool:
        try:
            RenewalWorld(seed, TERMS, decide=broken).run_until(3 * YEAR_S)
        except RefusedError:
            return True
        return False

    assert any(is_found(seed) for seed in range(40))
