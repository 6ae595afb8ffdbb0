"""Checks in seconds, before anything is created, whether a machine can run a cluster of nodes."""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.cluster.binaries import NODE_NAMES, missing_in, node_cache_folder
from e2e.kind.daemon import CGROUP_ROOT
from tests.support.obtain.cache import ObtainError, cache_root
from tools.image.build import debians_python
from tools.image.errors import ImageError
from tools.image.site_packages import check_python

ASK_TIMEOUT_S = 60.0
PROGRAMS = ("apt-get", "dpkg-deb", "mount", "nsenter", "unshare")
_APART = ("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc")
_AS_DOCKER_DOES = """
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
if command -v ip > /dev/null; then ip link add probe type bridge; fi
"""


def why_not() -> str | None:
    """Return why only the owner of this machine can provide nodes; None if nothing is missing."""
    if os.geteuid() != 0:
        return "nodes take root, and this is not root"
    if lacking := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"there is no {', '.join(lacking)}"
    if (system := platform.freedesktop_os_release())["ID"] != "debian":
        return f"nodes are made of Debian's packages, and this is {system['PRETTY_NAME']}"
    try:
        if shutil.which("go") is None and missing_in(node_cache_folder(), NODE_NAMES):
            return "the programs of a node are built with Go, and there is no go"
        if not control_groups_are_writable(CGROUP_ROOT):
            return f"control groups may not be made below {CGROUP_ROOT}"
        if refusal := _refusal_of_the_kernel():
            return f"namespaces, overlays and bridges may not be made here: {refusal}"
        check_python(debians_python())
    except (ObtainError, ImageError) as error:
        return str(error)
    return None


def control_groups_are_writable(root: Path) -> bool:
    """Return whether control groups can be created: in `root` (version 2), or in each of its folders (version 1)."""
    tops = [root] if (root / "cgroup.controllers").exists() else [path for path in root.glob("*") if path.is_dir()]
    return bool(tops) and all(os.access(top, os.W_OK) for top in tops)


def _refusal_of_the_kernel() -> str:
    """Return the kernel's error for the first operations of a Docker daemon, run where its disks will be.

    An empty string if they succeed.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_root(), prefix="probe-") as folder:
        done = subprocess.run(
            [*_APART, "sh", "-ec", _AS_DOCKER_DOES],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
