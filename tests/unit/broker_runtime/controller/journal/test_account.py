"""A controller's sources for the API server's address and its account."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from broker_runtime.controller.journal.kube_account import find_account
from broker_runtime.controller.journal.kube_requests import KubeRequests
from broker_runtime.controller.journal.kube_store import owner_reference
from broker_runtime.errors import ConfigError
from tests.support.processes.authority import TestAuthority


def kubeconfig(folder: Path, **changes: Any) -> dict[str, str]:
    document = {
        "contexts": [{"name": "c", "context": {"cluster": "here", "user": "me", "namespace": "shop"}}],
        "current-context": "c",
        "clusters": [{"name": "here", "cluster": {"server": "https://api:6443"}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document | changes))
    return {"KUBECONFIG": str(path)}


def test_a_pods_account_and_a_token_that_is_renewed(tmp_path: Path) -> None:
    for name, content in (("token", "one\n"), ("namespace", "shop"), ("ca.crt", "")):
        (tmp_path / name).write_text(content)
    environment = {
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "SLUICEGATE_SERVICE_ACCOUNT_FOLDER": str(tmp_path),
    }
    found = find_account(None, environment)
    assert (found.url, found.namespace) == ("https://[fd00::1]:6443", "shop")
    assert found.certificate_file == str(tmp_path / "ca.crt")
    assert found.token() == "one"
    (tmp_path / "token").write_text("two")
    assert found.token() == "two"
    assert find_account("other", environment).namespace == "other"


def test_a_kubeconfig(tmp_path: Path) -> None:
    found = find_account(None, kubeconfig(tmp_path))
    assert (found.url, found.namespace, found.token()) == ("https://api:6443", "shop", "secret")
    inline = {"server": "https://api", "certificate-authority-data": base64.b64encode(b"CERT").decode()}
    clusters = [{"name": "here", "cluster": inline}]
    assert find_account("x", kubeconfig(tmp_path, clusters=clusters)).certificate == "CERT"


def test_comments_of_the_api_servers_authority_may_have_any_characters(tmp_path: Path) -> None:
    text = f"# Főtanúsítvány\n{TestAuthority().pem}"
    inline = {"server": "https://api", "certificate-authority-data": base64.b64encode(text.encode()).decode()}
    account = find_account("x", kubeconfig(tmp_path, clusters=[{"name": "here", "cluster": inline}]))
    KubeRequests(account, 1.0).close()


def test_an_owner_is_whole_or_refused() -> None:
    owner = owner_reference("sluicegate.dev/v1alpha1/BrokerCluster/shop/uid")
    assert owner == {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "BrokerCluster", "name": "shop", "uid": "uid"}
    for text in ("", "shop", "BrokerCluster/shop/uid", "sluicegate.dev/v1alpha1/BrokerCluster/shop/"):
        with pytest.raises(ConfigError, match="apiVersion/kind/name/uid is expected"):
            owner_reference(text)


def test_the_error_for_a_missing_account_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run in a pod with a service account, or set KUBECONFIG"):
        find_account(None, {})
    with pytest.raises(ConfigError, match="'token' is missing; only tokens are supported"):
        find_account(None, kubeconfig(tmp_path, users=[{"name": "me", "user": {}}]))
    (tmp_path / "yaml").write_text("apiVersion: v1\n")
    with pytest.raises(ConfigError, match="must be a kubeconfig in JSON"):
        find_account(None, {"KUBECONFIG": str(tmp_path / "yaml")})
