"""The error for an unusable kubeconfig."""

import json
from pathlib import Path

import pytest

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http import api_client
from sluicegate_operator.kube.http.api_server import Kubeconfig
from sluicegate_operator.kube.http.errors import KubeError


@pytest.mark.parametrize("text", ["foo: [", "only words", "[]", "clusters: 3", "contexts: [3]\ncurrent-context: a"])
def test_the_error_for_an_invalid_kubeconfig_names_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(
        KubeError, match=f"no configuration for a Kubernetes API server: .*; name another file than {file}"
    ):
        KubeClient(str(file))


def test_a_folder_and_a_missing_file_are_no_kubeconfig(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "missing"):
        with pytest.raises(KubeError, match=f"name another file than {file}"):
            KubeClient(str(file))


def test_a_context_that_is_not_there_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("clusters: []\ncontexts: []\nusers: []\n")
    with pytest.raises(KubeError, match=f"prod.*; name another file than {file}"):
        KubeClient(Kubeconfig(str(file), "prod"))


def test_a_context_chooses_the_cluster(tmp_path: Path) -> None:
    clusters = [{"name": name, "cluster": {"server": f"https://{name}.example.org"}} for name in ("dev", "prod")]
    contexts = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in ("dev", "prod")]
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "current-context": "dev",
                "clusters": clusters,
                "contexts": contexts,
                "users": [{"name": "me", "user": {"token": "t"}}],
            }
        )
    )
    for context, host in ((None, "https://dev.example.org"), ("prod", "https://prod.example.org")):
        settings = api_client.configuration(str(file), context)
        assert settings.host == host
