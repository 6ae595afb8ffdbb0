"""examples/README.md followed by someone whose kubeconfig has a namespace of its own."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.nodes.kube import Kube
from e2e.nodes.own_namespace import OwnNamespace, own_namespace
from e2e.nodes.readme import example_commands, run
from e2e.operator_process import REPOSITORY

PAGE = REPOSITORY / "examples" / "README.md"


@dataclass(frozen=True, slots=True)
class FollowedPage:
    """`said` has what the commands of each followed example printed, `took_s` how long they took together."""

    namespace: OwnNamespace
    kubeconfig: Path
    said: dict[str, str] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)

    def follow(self, example: str) -> None:
        """Each command as it stands on the page. An AssertionError with what one printed that did not end well."""
        began_s = time.monotonic()
        said = []
        for command in example_commands(PAGE.read_text(encoding="utf-8"), example):
            try:
                said.append(run(command, {"KUBECONFIG": str(self.kubeconfig)}))
            except subprocess.CalledProcessError as failure:
                raise AssertionError(f"{command}\n{failure.output}") from failure
        self.said[example] = "".join(said)
        self.took_s[example] = time.monotonic() - began_s

    def brokers(self) -> dict[str, str]:
        """The uid of each broker's pod."""
        listed = self.namespace.items("pods", "-l", "app.kubernetes.io/component=broker")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed}


@contextmanager
def followed_page(kube: Kube, namespace: str, folder: Path) -> Iterator[FollowedPage]:
    """In a namespace of that name, which is made and removed; the kubeconfig is written into the folder."""
    own = folder / "kubeconfig"
    own.write_text(kube.kubectl("config", "view", "--raw", "--flatten", "--minify"), encoding="utf-8")
    kube.kubectl("config", "set-context", "--current", f"--namespace={namespace}", f"--kubeconfig={own}")
    with own_namespace(kube, namespace) as made:
        yield FollowedPage(made, own)
