"""Settings of the operator process: arguments override the environment, which overrides defaults. Immutable."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.schema.images import IMAGE_PATTERN
from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.registrations.operator_lease import DEFAULT_NAME

RESYNC_MIN_S = 1.0
VIEW_EVERY_S = 3.0
VIEW_MIN_S = 0.2
TOPIC_DELETION_S = 300.0
TOPIC_DELETION_MIN_S = 1.0
LEASE_S = 15
LEASE_MIN_S = 3.0
SETTLE_S = 1.0
TOPIC_PATIENCE_S = 60.0
REQUEST_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_MIN_S = 0.5
METRICS_CONNECTIONS = 64
ADMISSION_CONNECTIONS = 128
"""Maximum number of connections to the webhook, each of which takes 0.3 MiB, for TLS."""
ADMISSION_CHECK_S = 60.0
ADMISSION_CHECK_MIN_S = 0.5
LEASE_REQUEST_PART = 1 / 3
"""Maximum duration of a request, as a fraction of the Lease's duration.

A renewal gets two thirds of the duration, see kube.lease.
"""


class SettingsError(Exception):
    """Error for a setting that cannot be used. The message names the setting and the allowed values."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The settings of the webhook that warns when objects are applied.

    - `listener`: host and port.
    - `hosts`: names and addresses that API servers connect to, for which the certificate is valid.
    - `secret`: name of the Secret with the certificate, in the operator's own namespace.
    - `configuration`: name of the ValidatingWebhookConfiguration.
    - `makes_certificates`: the operator makes and renews the certificate; otherwise cert-manager does.
    - `check_every_s`: interval of the checks of certificate and reachability.
    - `connections`: maximum number of connections; a further one closes the oldest.
    """

    listener: tuple[str, int]
    hosts: tuple[str, ...]
    secret: str
    configuration: str
    makes_certificates: bool = True
    check_every_s: float = ADMISSION_CHECK_S
    connections: int = ADMISSION_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings.

    - `namespace`: the only watched namespace; None means all.
    - `own_namespace`: the namespace of the operator's pod.
    - `resync_s`: None leaves it to each cluster's spec.resyncSeconds.
    - `view_every_s`: how often external brokers are asked for their identity, and how often a controller is polled that
      has no capacity for waiting requests.
    - `lease_s`: how long a successor waits for an operator that stopped responding.
    - `topic_patience_s`: a Topic waits this long for all brokers of the spec to be Online; then it is created on fewer.
    - `request_timeout_s`: time limit of one request to the API server.
    - `metrics_connections`: maximum number of connections to the metrics listener without a request; a further
      connection closes the oldest.
    - `topic_deletion_s`: how long a deleted Topic waits for its topic to be deleted.
    - `settle_s`: see handlers.reconcilers.settling.
    - `admission`: None if no webhook warns when objects are applied.
    """

    namespace: str | None
    kubeconfig: str | None
    identity: str
    lease_namespace: str
    own_namespace: str = "default"
    lease_name: str = DEFAULT_NAME
    resync_s: float | None = None
    metrics: tuple[str, int] | None = None
    metrics_connections: int = METRICS_CONNECTIONS
    view_every_s: float = VIEW_EVERY_S
    lease_s: float = LEASE_S
    topic_patience_s: float = TOPIC_PATIENCE_S
    request_timeout_s: float = REQUEST_TIMEOUT_S
    topic_deletion_s: float = TOPIC_DELETION_S
    settle_s: float = SETTLE_S
    images: Images = field(default_factory=Images)
    admission: AdmissionSettings | None = None


def read_settings(
    environment: Mapping[str, str], namespace: str | None, kubeconfig: str | None, metrics: str | None
) -> Settings:
    """Return the settings from environment variables and options. Raises SettingsError."""
    own = environment.get("POD_NAMESPACE") or "default"
    lease_s = _number(environment, "SLUICEGATE_LEASE_SECONDS", LEASE_MIN_S) or LEASE_S
    request_s = _number(environment, "SLUICEGATE_REQUEST_TIMEOUT_SECONDS", REQUEST_TIMEOUT_MIN_S)
    settle_s = _number(environment, "SLUICEGATE_SETTLE_SECONDS", 0.0)
    request_max_s = lease_s * LEASE_REQUEST_PART
    if request_s is not None and request_s > request_max_s:
        raise SettingsError(
            f"SLUICEGATE_REQUEST_TIMEOUT_SECONDS: {request_s:g} must be at most a third of"
            f" SLUICEGATE_LEASE_SECONDS, {request_max_s:g}, so that a write has ended before another operator"
            " may start"
        )
    return Settings(
        namespace=namespace,
        kubeconfig=kubeconfig or environment.get("KUBECONFIG") or None,
        identity=environment.get("SLUICEGATE_IDENTITY") or f"{socket.gethostname()}-{os.getpid()}",
        lease_namespace=namespace or own,
        own_namespace=own,
        resync_s=_number(environment, "SLUICEGATE_RESYNC_SECONDS", RESYNC_MIN_S),
        metrics_connections=int(_number(environment, "SLUICEGATE_METRICS_CONNECTIONS", 1.0) or METRICS_CONNECTIONS),
        metrics=_listener(metrics or environment.get("SLUICEGATE_METRICS_LISTENER"), "--metrics-listener"),
        view_every_s=_number(environment, "SLUICEGATE_VIEW_SECONDS", VIEW_MIN_S) or VIEW_EVERY_S,
        lease_s=lease_s,
        topic_deletion_s=_number(environment, "SLUICEGATE_TOPIC_DELETION_SECONDS", TOPIC_DELETION_MIN_S)
        or TOPIC_DELETION_S,
        topic_patience_s=_topic_patience_s(environment),
        request_timeout_s=request_s or min(REQUEST_TIMEOUT_S, request_max_s),
        settle_s=SETTLE_S if settle_s is None else settle_s,
        images=_images(environment),
        admission=_admission(environment),
    )


def _admission(environment: Mapping[str, str]) -> AdmissionSettings | None:
    listener = _listener(environment.get("SLUICEGATE_ADMISSION_LISTENER"), "SLUICEGATE_ADMISSION_LISTENER")
    if listener is None:
        return None
    hosts = tuple(filter(None, map(str.strip, (environment.get("SLUICEGATE_ADMISSION_HOSTS") or "").split(","))))
    named = {name: environment.get(name) or "" for name in _ADMISSION_NAMES}
    missing = [name for name, value in {**named, "SLUICEGATE_ADMISSION_HOSTS": hosts}.items() if not value]
    if missing:
        raise SettingsError(f"{missing[0]} must be set when SLUICEGATE_ADMISSION_LISTENER is")
    maker = environment.get("SLUICEGATE_ADMISSION_CERTIFICATES") or _MAKERS[0]
    if maker not in _MAKERS:
        raise SettingsError(f"SLUICEGATE_ADMISSION_CERTIFICATES: {maker} must be {' or '.join(_MAKERS)}")
    every_s = _number(environment, "SLUICEGATE_ADMISSION_CHECK_SECONDS", ADMISSION_CHECK_MIN_S)
    connections = _number(environment, "SLUICEGATE_ADMISSION_CONNECTIONS", 1.0)
    return AdmissionSettings(
        listener,
        hosts,
        named["SLUICEGATE_ADMISSION_SECRET"],
        named["SLUICEGATE_ADMISSION_CONFIGURATION"],
        makes_certificates=maker == _MAKERS[0],
        check_every_s=every_s or ADMISSION_CHECK_S,
        connections=int(connections or ADMISSION_CONNECTIONS),
    )


_ADMISSION_NAMES = ("SLUICEGATE_ADMISSION_SECRET", "SLUICEGATE_ADMISSION_CONFIGURATION")
_MAKERS = ("Operator", "CertManager")


def _topic_patience_s(environment: Mapping[str, str]) -> float:
    patience_s = _number(environment, "SLUICEGATE_TOPIC_PATIENCE_SECONDS", 0.0)
    return TOPIC_PATIENCE_S if patience_s is None else patience_s


def _images(environment: Mapping[str, str]) -> Images:
    default, secrets = Images(), environment.get("SLUICEGATE_IMAGE_PULL_SECRETS") or ""
    names = tuple(name.strip() for name in secrets.split(",") if name.strip())
    for name in names:
        if not re.fullmatch(OBJECT_NAME_PATTERN, name):
            raise SettingsError(f"SLUICEGATE_IMAGE_PULL_SECRETS: {name} must be the name of a Secret")
    return Images(
        nodes=_image(environment, "SLUICEGATE_IMAGE") or default.nodes,
        landing=_image(environment, "SLUICEGATE_LANDING_IMAGE") or default.landing,
        pipeline=_image(environment, "SLUICEGATE_PIPELINE_IMAGE") or default.pipeline,
        pull_secrets=names,
    )


def _image(environment: Mapping[str, str], name: str) -> str | None:
    text = environment.get(name)
    if text and not re.fullmatch(IMAGE_PATTERN, text):
        raise SettingsError(f"{name}: {text} must be the name of a container image")
    return text or None


def _number(environment: Mapping[str, str], name: str, least: float) -> float | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if number < least:
        raise SettingsError(f"{name}: {text} must be a number of at least {least:g}")
    return number


def _listener(text: str | None, setting: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{setting}: {text} must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
