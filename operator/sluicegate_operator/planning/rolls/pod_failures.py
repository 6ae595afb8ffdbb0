"""Why pods do not start, from their status, their volume claims and Events. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate_operator.planning.rolls.start_failures import PROVISIONING_FAILED, STORAGE_CLASS_MISSING, StartFailure

Json = Mapping[str, Any]

FAILING_REASONS = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "Unschedulable",
    }
)
"""Reasons for which a pod will not start just by waiting, as reported by a kubelet or the scheduler."""

FAILED_CREATE = "FailedCreate"
OOM_KILLED = "OOMKilled"
UNSCHEDULABLE = "Unschedulable"
_CLAIM_FAILURES = frozenset({"ProvisioningFailed", "FailedBinding"})
"""Reasons of Events on volume claims, as the volume controller posts them."""
LAST_WORDS_MAX = 500


def pod_failure(status: Json) -> StartFailure | None:
    """Return why a pod with this status does not start, or crashes repeatedly.

    None while the pod may only be slow.
    """
    for condition in status.get("conditions") or ():
        unscheduled = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if unscheduled and (condition.get("reason") or "") in FAILING_REASONS:
            return StartFailure(condition["reason"], condition.get("message") or "")
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason in FAILING_REASONS:
            return _crashed(container) or StartFailure(reason, _last_words(container) or waiting.get("message") or "")
    return None


def _crashed(container: Json) -> StartFailure | None:
    """Return the failure of a container that ran out of memory: the last line of its log does not explain the kill."""
    end = (container.get("lastState") or {}).get("terminated") or {}
    if end.get("reason") == OOM_KILLED:
        killed = f"container {container.get('name')} was killed with exit code {end.get('exitCode')}"
        return StartFailure(
            OOM_KILLED, f"{killed}, because it needs more memory than its limit", container.get("name") or ""
        )
    return None


def _last_words(container: Json) -> str:
    """Return the last line that the process wrote before it ended with an error, which has the cause.

    If it wrote nothing, the line has the exit code.
    """
    end = (container.get("lastState") or {}).get("terminated") or {}
    if not end.get("exitCode"):
        return ""
    lines = (end.get("message") or "").strip().splitlines()
    if lines:
        return lines[-1][:LAST_WORDS_MAX]
    return f"container {container.get('name')} ended with exit code {end['exitCode']} ({end.get('reason') or 'Error'})"


def events_of(uid: str, events: Sequence[Json]) -> list[Json]:
    """Return the Events of the object with that uid: Events of an earlier object of its name may still exist."""
    return [event for event in events if ((event.get("involvedObject") or {}).get("uid") or "") in ("", uid)]


def why_missing(pod: str, events: Sequence[Json]) -> StartFailure | None:
    """Return why a StatefulSet has no pod of this name, from its newest Event about the pod."""
    about = [event for event in events if f"Pod {pod} in StatefulSet" in (event.get("message") or "")]
    newest = max(about, key=lambda event: (_event_time(event), event.get("reason") == FAILED_CREATE), default=None)
    if newest is None or newest.get("reason") != FAILED_CREATE:
        return None
    _, _, refusal = newest["message"].partition(" failed error: ")
    return StartFailure(FAILED_CREATE, (refusal or newest["message"])[:LAST_WORDS_MAX])


def why_unbound(claim: Json, events: Sequence[Json]) -> StartFailure | None:
    """Return why a volume claim has no volume, from its newest Event that reports a failure."""
    told = [event for event in events if event.get("reason") in _CLAIM_FAILURES]
    newest = max(told, key=_event_time, default=None)
    if newest is None:
        return None
    name, wanted = claim["metadata"]["name"], (claim.get("spec") or {}).get("storageClassName") or ""
    said = f"volume claim {name} has no volume: {(newest.get('message') or '')[:LAST_WORDS_MAX]}"
    if re.search("storageclass.*not found", said) and wanted:
        todo = f"create StorageClass {wanted}, or create a new BrokerCluster with another storage.storageClassName"
        return StartFailure(STORAGE_CLASS_MISSING, f"{said}; {todo}")
    if "no storage class is set" in said:
        todo = "create a default StorageClass and delete the claim, or create a PersistentVolume for the claim"
        return StartFailure(STORAGE_CLASS_MISSING, f"{said}; {todo}")
    return StartFailure(PROVISIONING_FAILED, said)


def why_not_made(events: Sequence[Json]) -> StartFailure | None:
    """Return why the owner of these Events has created no pod, from the newest Warning."""
    newest = max((event for event in events if event.get("type") == "Warning"), key=_event_time, default=None)
    if newest is None:
        return None
    return StartFailure(newest.get("reason") or FAILED_CREATE, (newest.get("message") or "")[:LAST_WORDS_MAX])


def _event_time(event: Json) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""
