"""The container beside a broker that lands its audit log: its arguments and its mounts.

It is a Kubernetes sidecar (an init container with restartPolicy Always). It starts before the broker and stops after
it, so that it lands the broker's last records. It never ends before that (audit_pipeline.upkeep.keep), because a pod is
ready only while all of its containers run.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.audit_landing import AuditLanding
from sluicegate_operator.api.schema.quantities import amount
from sluicegate_operator.resources.container_resources import LANDER as LANDER_RESOURCES
from sluicegate_operator.resources.container_resources import container_resources

LANDER = "lander"
STORE = "s3://"
"""The beginning of the URI of a place in an object store."""
SPOOLS = "audit"
"""The broker's folder of spools in its log directory."""
SEGMENTS_PATH = "/var/lib/sluicegate-audit"
SECRET_PATH = "/etc/sluicegate-lander"
LANDING_S = 20
"""Seconds added to the pod's grace period to land the last spool.

A slower store gets it at the next start.
"""
_SEGMENTS_VOLUME, _SECRET_VOLUME = "audit-segments", "lander-secret"
_THREADS = "2"
"""Threads of Arrow, which would otherwise use one for each processor of the machine."""


def lander(cluster: BrokerCluster, landing: AuditLanding, broker: dict[str, Any], log_dir: str) -> dict[str, Any]:
    """Return the container that lands a broker's audit log.

    `broker` is the broker's own container: data and security context are the same, and so is the image if landing names
    none.
    """
    broker = deepcopy(broker)
    return {
        "name": LANDER,
        "image": landing.image or broker["image"],
        "restartPolicy": "Always",
        "command": ["python", "-m", "audit_pipeline", "keep"],
        "args": _arguments(cluster, landing, f"{log_dir}/{SPOOLS}"),
        "env": [
            *(variable for variable in broker["env"] if variable["name"] in ("POD_INDEX", "PYTHONDONTWRITEBYTECODE")),
            {"name": "OMP_NUM_THREADS", "value": _THREADS},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            next(mount for mount in broker["volumeMounts"] if log_dir.startswith(mount["mountPath"])),
            *_mounts(landing),
        ],
        "securityContext": broker["securityContext"],
        "resources": container_resources(landing.resources, LANDER_RESOURCES),
    }


def lander_of_pod(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lander of a pod's spec with its name and the place in an object store. Empty without such a place."""
    uris = {
        one["name"]: argument
        for one in spec.get("initContainers") or ()
        if one.get("name") == LANDER
        for argument in one.get("args") or ()
        if argument.startswith(STORE)
    }
    return [{"name": name, "args": [uri]} for name, uri in uris.items()]


def landing_uri_of_pod(spec: Mapping[str, Any]) -> str | None:
    """Return the place in an object store where a pod with this spec lands its audit log."""
    return next((one["args"][0] for one in lander_of_pod(spec)), None)


def lander_volumes(landing: AuditLanding) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    if landing.claim_name is not None:
        volumes.append({"name": _SEGMENTS_VOLUME, "persistentVolumeClaim": {"claimName": landing.claim_name}})
    if landing.secret_name is not None:
        volumes.append({"name": _SECRET_VOLUME, "secret": {"secretName": landing.secret_name, "optional": True}})
    return volumes


def _mounts(landing: AuditLanding) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = []
    if landing.claim_name is not None:
        mounts.append({"name": _SEGMENTS_VOLUME, "mountPath": SEGMENTS_PATH})
    if landing.secret_name is not None:
        mounts.append({"name": _SECRET_VOLUME, "mountPath": SECRET_PATH, "readOnly": True})
    return mounts


def _arguments(cluster: BrokerCluster, landing: AuditLanding, spools: str) -> list[str]:
    arguments = ["--variables", SECRET_PATH] if landing.secret_name is not None else []
    arguments += [spools, landing.uri or f"{SEGMENTS_PATH}/{cluster.name}", "--upkeep", "--ordinal", "$(POD_INDEX)"]
    if landing.retention_days is not None:
        arguments += ["--retention-days", str(landing.retention_days)]
    if landing.quota is not None:
        arguments += ["--quota-bytes", str(int(amount(landing.quota)))]
    return arguments
