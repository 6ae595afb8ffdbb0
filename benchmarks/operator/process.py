"""What the operator's process costs, by the kernel, by its own metrics and by the audit log of the API server."""

import json
import os
import re
import urllib.request
from collections import Counter
from pathlib import Path

from e2e.cluster.control_plane import ControlPlane
from e2e.operator_process import OperatorProcess

USER = "system:serviceaccount:sluicegate-system:sluicegate-operator"
METRICS_TIMEOUT_S = 60.0


def memory_mib(operator: OperatorProcess, field: str) -> float:
    """`field`: VmRSS is what it has now, VmHWM the most that it ever had."""
    status = Path(f"/proc/{operator.pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the operator's process does not tell {field}")
    return int(found[1]) / 1024


def processor_s(operator: OperatorProcess) -> float:
    fields = Path(f"/proc/{operator.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(operator: OperatorProcess, name: str) -> float:
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=METRICS_TIMEOUT_S) as answer:
        text = answer.read().decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the operator does not tell {name}")
    return float(found[1])


class AuditedRequests:
    """The operator's own requests, which has an account of its own: nobody else's are in it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._log = plane.audit_log
        self._read_to = 0

    def skip(self) -> None:
        """What was asked until now does not count."""
        self._read_to = self._log.stat().st_size if self._log.exists() else 0

    def take(self) -> Counter[str]:
        """By verb and resource, since the last time."""
        if self._log.stat().st_size < self._read_to:
            # A new log was begun.
            self._read_to = 0
        with self._log.open("rb") as lines:
            lines.seek(self._read_to)
            whole = lines.read()
        # The last line may still be written.
        whole = whole[: whole.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return counted(whole.splitlines())


def counted(lines: list[bytes]) -> Counter[str]:
    found: Counter[str] = Counter()
    for event in map(json.loads, lines):
        if event["user"]["username"] != USER:
            continue
        target = event.get("objectRef") or {"resource": event["requestURI"].partition("?")[0]}
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        found[f"{event['verb']} {resource}"] += 1
    return found
