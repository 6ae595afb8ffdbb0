"""Runs the commands of examples/README.md with a kubeconfig that names a separate namespace."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.nodes.site.kube import Kube
from e2e.nodes.site.own_namespace import OwnNamespace, own_namespace
from e2e.nodes.site.readme import example_commands, run
from e2e.world.operator_process import REPOSITORY

PAGE = REPOSITORY / "examples" / "README.md"


@dataclass(frozen=True, slots=True)
class FollowedPage:
    """The followed page.

    `said` has the output of each followed example, `took_s` how long its commands took together.
    """

    namespace: OwnNamespace
    kubeconfig: Path
    said: dict[str, str] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)

    def follow(self, example: str) -> None:
        """Run each command of the example unchanged. Raises AssertionError with the output of a failed one."""
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
        """Uid of each broker's pod, by pod."""
        listed = self.namespace.items("pods", "-l", "app.kubernetes.io/component=broker")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed}


@contextmanager
def followed_page(kube: Kube, namespace: str, folder: Path) -> Iterator[FollowedPage]:
    """Create a namespace for the page, and remove it afterwards; the kubeconfig is written into the folder."""
    own = folder / "kubeconfig"
    own.write_text(kube.kubectl("config", "view", "--raw", "--flatten", "--minify"), encoding="utf-8")
    kube.kubectl("config", "set-context", "--current", f"--namespace={namespace}", f"--kubeconfig={own}")
    with own_namespace(kube, namespace) as made:
        yield FollowedPage(made, own)
