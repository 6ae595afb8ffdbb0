"""The ConfigMap of an AuditPipeline's runs: the program for Spark, and the user's settings files.

The settings are prices, objectives, mirrors and storms.
"""

import json
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

COMPONENT = "audit-pipeline"
FILES_PATH = "/etc/sluicegate-audit"
_PROGRAM_FILE = "main.py"
PROGRAM = f"{FILES_PATH}/{_PROGRAM_FILE}"
THEN = "--then"
"""Separator between two commands of one run."""
PASSWD = "passwd"
USER_ID = 10001

_PROGRAM = f'''"""Runs commands of the audit pipeline one after the other until one fails; {THEN} stands between two."""

import subprocess
import sys

words = [*sys.argv[1:], "{THEN}"]
while words:
    end = words.index("{THEN}")
    code = subprocess.run([sys.executable, "-m", "audit_pipeline", *words[:end]]).returncode
    if code:
        sys.exit(code if code > 0 else 128 - code)
    words = words[end + 1 :]
'''
_PASSWD = f"""root:x:0:0:root:/root:/sbin/nologin
sluicegate:x:{USER_ID}:{USER_ID}:sluicegate:/tmp:/sbin/nologin
"""
"""An /etc/passwd with the run's user: Hadoop's classes, which Spark needs, fail for a user without a name.

The image may lack that user.
"""


def audit_files_name(pipeline: str) -> str:
    return f"{pipeline}-pipeline"


def audit_files(pipeline: AuditPipeline) -> dict[str, Any]:
    settings = {
        f"{name}.json": json.dumps(value, sort_keys=True) for name, value in pipeline.spec.settings_files().items()
    }
    cluster = pipeline.spec.cluster_ref.name
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(pipeline, audit_files_name(pipeline.name), labels(cluster, COMPONENT)),
        "data": {_PROGRAM_FILE: _PROGRAM, PASSWD: _PASSWD, **settings},
    }
