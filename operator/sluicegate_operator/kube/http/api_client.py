"""The client of the `kubernetes` library, with the address and the credentials that a kubeconfig or a pod gives."""

import socket

import yaml
from kubernetes import client, config
from kubernetes.config import ConfigException

from sluicegate_operator.kube.http.errors import KubeError

CONNECTIONS_KEPT = 32
KEPT_ALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
"""Socket options with which a lost connection to the API server is noticed after 25 s.

A watch may be silent for long.
"""
_BAD_KUBECONFIG = (ConfigException, OSError, yaml.YAMLError, TypeError, AttributeError, LookupError, ValueError)
"""Exceptions of the library for a kubeconfig that is not YAML or has another shape: the library does not validate the
file."""


def api_client(kubeconfig: str | None, context: str | None) -> client.ApiClient:
    """Return a client of the API server. Raises KubeError. The parameters are those of `configuration`."""
    return client.ApiClient(configuration(kubeconfig, context))


def configuration(kubeconfig: str | None, context: str | None) -> client.Configuration:
    """Load `kubeconfig`, else the pod's service account, else the file that KUBECONFIG or the home folder gives.

    A `context` is read from a kubeconfig file, also in a pod.
    """
    settings = client.Configuration()
    settings.socket_options = KEPT_ALIVE
    settings.connection_pool_maxsize = CONNECTIONS_KEPT
    try:
        if kubeconfig is not None or context is not None:
            config.load_kube_config(kubeconfig, context=context, client_configuration=settings)
        else:
            _load_found(settings)
    except _BAD_KUBECONFIG as error:
        way = (
            f"name another file than {kubeconfig}"
            if kubeconfig is not None
            else "name one of the contexts that `kubectl config get-contexts` lists"
            if context is not None
            else "set KUBECONFIG to a kubeconfig file, or run in a pod"
        )
        raise KubeError(
            f"no configuration for a Kubernetes API server: {' '.join(str(error).split())}; {way}"
        ) from error
    return settings


def _load_found(settings: client.Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)
    except ConfigException:
        config.load_kube_config(client_configuration=settings)
