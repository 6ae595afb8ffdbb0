"""Whether a command uses Kubernetes or this machine, and the client for Kubernetes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sluicegate_operator.api.schema.metadata import DEFAULT_NAMESPACE
from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.cli.asking.asking import bad_use
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.api_server import Kubeconfig


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of a Kubernetes cluster. `context` and `kubeconfig` are None for the defaults."""

    namespace: str
    context: str | None = None
    kubeconfig: str | None = None

    @contextmanager
    def client(self) -> Iterator[KubeClient]:
        """Yield a client of the API server. Raises KubeError if no API server can be reached."""
        kube = KubeClient(Kubeconfig(self.kubeconfig, self.context))
        try:
            yield kube
        finally:
            kube.close()


def place_asked(namespace: str | None, context: str | None, kubeconfig: str | None) -> Place | None:
    """Return the namespace to look in; None, for this machine, if no Kubernetes option is given.

    Ends the command for a bad name.
    """
    if namespace is None and context is None and kubeconfig is None:
        return None
    found = DEFAULT_NAMESPACE if namespace is None else namespace
    check_name(found)
    return Place(found, context, kubeconfig)


def check_name(name: str) -> None:
    """End the command if the name is not valid for a pod or namespace."""
    if re.fullmatch(OBJECT_NAME_PATTERN, name) is None:
        raise bad_use(
            f"{name!r} is not a valid name of a pod or namespace: use lower-case letters, digits, dots and dashes"
        )
