"""What is said of a kubeconfig that cannot be used."""

from pathlib import Path

import pytest

from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import KubeError


@pytest.mark.parametrize("text", ["foo: [", "only words", "[]", "clusters: 3", "contexts: [3]\ncurrent-context: a"])
def test_what_is_no_kubeconfig_is_said_with_its_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(KubeError, match=f"no way to a Kubernetes API server: .*; name another file than {file}"):
        KubeClient(str(file))


def test_a_folder_and_a_missing_file_are_no_kubeconfig(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "missing"):
        with pytest.raises(KubeError, match=f"name another file than {file}"):
            KubeClient(str(file))
