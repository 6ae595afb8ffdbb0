from pathlib import Path

import pytest

from e2e.kind.provider import CannotError, provider
from tests.support.obtain.cache import ObtainError


def test_a_given_clusters_nodes_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICEGATE_CLUSTER", "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    given = provider()
    assert given.kubeconfig == tmp_path / "config"
    assert not given.can_break_nodes
    for deed in (given.kill, given.start, given.partition, given.heal):
        with pytest.raises(CannotError, match="the cluster was given"):
            deed("a-node")
    for deed_of_api in (given.stop_api_server, given.start_api_server):
        with pytest.raises(CannotError, match="the cluster was given"):
            deed_of_api()
    with pytest.raises(CannotError, match="name an image that they can pull"):
        given.load(tmp_path / "image.tar")


@pytest.mark.parametrize(("chosen", "sentence"), [("kubeconfig", "KUBECONFIG, which is not set"), ("k3s", "can be")])
def test_an_invalid_choice_of_provider_is_reported(monkeypatch: pytest.MonkeyPatch, chosen: str, sentence: str) -> None:
    monkeypatch.setenv("SLUICEGATE_CLUSTER", chosen)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ObtainError, match=sentence):
        provider()
