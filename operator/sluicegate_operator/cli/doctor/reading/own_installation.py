"""Reads the installation of this command: its metadata, and the limits of its process."""

import resource
import sys
from importlib.metadata import PackageNotFoundError, distribution, metadata, requires, version

from sluicegate_operator.cli.doctor.checks.installation import Installation, packages_of_extras

PACKAGE = "sluicegate"


def own_installation() -> Installation:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = None if hard == resource.RLIM_INFINITY else hard
    python = (sys.version_info.major, sys.version_info.minor)
    try:
        wanted = metadata(PACKAGE)["Requires-Python"] or ""
        extras = packages_of_extras(requires(PACKAGE) or ())
        release = version(PACKAGE)
    except PackageNotFoundError:
        return Installation(None, python, "", {}, open_files)
    missing = {extra: tuple(name for name in names if not _is_installed(name)) for extra, names in extras.items()}
    return Installation(release, python, wanted, missing, open_files)


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
