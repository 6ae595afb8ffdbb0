"""When a refusal for missing rights counts."""

from sluicegate_operator.kube.http.denials import DENIED_FOR_S, REQUESTS_MAX, Denials


def test_a_denial_counts_once_it_has_lasted() -> None:
    denials = Denials()
    for now_s in (100.0, 130.0):
        denials.note("GET /a", 403, now_s)
        assert denials.may_pass("GET /a", now_s)
    denials.note("GET /a", 401, 100.0 + DENIED_FOR_S)
    assert not denials.may_pass("GET /a", 100.0 + DENIED_FOR_S)
    # And while no other answer comes.
    denials.note("GET /a", None, 1000.0)
    denials.note("GET /a", 403, 1001.0)
    assert not denials.may_pass("GET /a", 1001.0)


def test_any_other_answer_ends_it_and_requests_are_told_apart() -> None:
    denials = Denials()
    denials.note("GET /a", 403, 0.0)
    denials.note("GET /b", 403, 50.0)
    denials.note("GET /a", 404, 59.0)
    denials.note("GET /a", 403, 61.0)
    assert denials.may_pass("GET /a", 61.0)
    assert denials.may_pass("GET /b", 61.0)
    assert not denials.may_pass("GET /b", 110.0)


def test_the_oldest_is_forgotten_first() -> None:
    denials = Denials()
    for number in range(REQUESTS_MAX + 1):
        denials.note(f"GET /{number}", 403, 0.0)
    assert denials.may_pass("GET /0", 100.0)
    assert not denials.may_pass("GET /1", 100.0)
