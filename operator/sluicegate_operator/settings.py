"""Settings of the operator process: arguments over environment over defaults. Frozen once read."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

RESYNC_MIN_S = 1.0
VIEW_EVERY_S = 3.0
VIEW_MIN_S = 0.2


class SettingsError(Exception):
    """A setting that cannot be used: names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`namespace` None watches all of them. `resync_s` None leaves it to each cluster's spec.resyncSeconds.
    `view_every_s`: how often the controllers of a settled cluster are asked for their view of the brokers."""

    namespace: str | None
    kubeconfig: str | None
    identity: str
    lease_namespace: str
    lease_name: str = "sluicegate-operator"
    resync_s: float | None = None
    metrics: tuple[str, int] | None = None
    view_every_s: float = VIEW_EVERY_S


def read_settings(
    environment: Mapping[str, str], namespace: str | None, kubeconfig: str | None, metrics: str | None
) -> Settings:
    """Raises SettingsError."""
    own = environment.get("POD_NAMESPACE") or "default"
    return Settings(
        namespace=namespace,
        kubeconfig=kubeconfig or environment.get("KUBECONFIG") or None,
        identity=environment.get("SLUICEGATE_IDENTITY") or f"{socket.gethostname()}-{os.getpid()}",
        lease_namespace=namespace or own,
        resync_s=_seconds(environment, "SLUICEGATE_RESYNC_SECONDS", RESYNC_MIN_S),
        metrics=_listener(metrics or environment.get("SLUICEGATE_METRICS_LISTENER")),
        view_every_s=_seconds(environment, "SLUICEGATE_VIEW_SECONDS", VIEW_MIN_S) or VIEW_EVERY_S,
    )


def _seconds(environment: Mapping[str, str], name: str, least_s: float) -> float | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds < least_s:
        raise SettingsError(f"{name}: {text} must be a number of at least {least_s:g}")
    return seconds


def _listener(text: str | None) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"--metrics-listener: {text} must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
