"""Cost of the operator's process, from the kernel, its own metrics and the audit log of the API server."""

import json
import os
import re
import urllib.request
from collections import Counter
from pathlib import Path

from e2e.cluster.control_plane import ControlPlane
from e2e.world.operator_process import OperatorProcess

USER = "system:serviceaccount:sluicegate-system:sluicegate-operator"
METRICS_TIMEOUT_S = 60.0


def memory_mib(operator: OperatorProcess, field: str) -> float:
    """Return a memory figure: VmRSS is the current size, VmHWM the peak."""
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
    """The requests of the operator, which uses a separate account."""

    def __init__(self, plane: ControlPlane) -> None:
        self._log = plane.audit_log
        self._read_to = 0

    def skip(self) -> None:
        """Ignore all requests until now."""
        self._read_to = self._log.stat().st_size if self._log.exists() else 0

    def take(self) -> Counter[str]:
        """Return the number of requests since the last call, by verb and resource."""
        if self._log.stat().st_size < self._read_to:
            # The API server has started a new log.
            self._read_to = 0
        with self._log.open("rb") as lines:
            lines.seek(self._read_to)
            whole = lines.read()
        # Drop the last line if it is not complete.
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
