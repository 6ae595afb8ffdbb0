"""Clients are described with the principal of their connection, and again when it changes."""

from broker_runtime.observers.audit_log.clients import ClientRules, Clients
from broker_runtime.security.principal import ANONYMOUS, USER, Principal
from tests.support.requests.calls import NotedConnection

ALICE = Principal(USER, "alice")


def test_a_client_is_described_with_its_principal() -> None:
    clients, connection = Clients(ClientRules()), NotedConnection()
    before = clients.of(connection, "app")
    assert before.facts is not None
    assert (before.principal, before.facts.principal) == (ANONYMOUS, "User:ANONYMOUS")
    before.requests = 3
    connection.principal = ALICE
    after = clients.of(connection, "app")
    assert after.facts is not None
    assert (after.principal, after.facts.principal, after.requests) == (ALICE, "User:alice", 3)
    assert clients.known(connection.id) is after


def test_a_principal_may_be_excluded_and_hashed() -> None:
    rules = ClientRules(excluded_principals=frozenset({"User:alice"}))
    assert rules.leave_out("PLAINTEXT", ALICE)
    assert not rules.leave_out("PLAINTEXT", ANONYMOUS)
    connection = NotedConnection()
    connection.principal = ALICE
    assert Clients(rules).of(connection, None).facts is None
    hashed = Clients(ClientRules(hash_key=b"k" * 16)).of(connection, None).facts
    assert hashed is not None
    assert "alice" not in hashed.principal
