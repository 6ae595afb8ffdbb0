"""The programs that run containers on this machine, without installing them.

These are containerd, runc, Docker's daemon and iptables. Installed programs are used unchanged; the others are in one
folder, to which PATH and the loader point.
"""

import os
from pathlib import Path

from e2e.kind.packages import unpack
from e2e.kind.places import TOOL_PACKAGES, tools_folder
from tests.support.obtain.cache import obtained

RUNC_WITHOUT = """#!/bin/sh
# runc where the bounding set lacks CAP_SYS_RESOURCE: takes it out of the lists of capabilities that it is handed.
bundle=. previous= process=
for argument in "$@"; do
  case "$previous" in --bundle|-b) bundle=$argument;; --process|-p) process=$argument;; esac
  case "$argument" in --bundle=*) bundle=${argument#*=};; --process=*) process=${argument#*=};; esac
  previous=$argument
done
case " $* " in *" create "*|*" run "*) process=$bundle/config.json;; esac
[ -n "$process" ] && [ -f "$process" ] && sed -i 's/"CAP_SYS_RESOURCE",//g; s/,"CAP_SYS_RESOURCE"//g' "$process"
exec runc "$@"
"""
RUNC_WITHOUT_RESOURCE = "runc-without-sys-resource"


def obtain_tools() -> Path:
    """Return the folder of the programs, and fill it if necessary. Raises ObtainError."""
    return obtained(tools_folder(), lambda folder: (folder / "complete").exists(), _make)


def _make(fresh: Path) -> None:
    unpack(TOOL_PACKAGES, fresh, whole=False)
    programs = fresh / "usr" / "sbin"
    if (programs / "xtables-legacy-multi").exists():
        for family in ("iptables", "ip6tables"):
            for deed in ("", "-save", "-restore"):
                (programs / f"{family}{deed}").symlink_to("xtables-legacy-multi")
    (programs / RUNC_WITHOUT_RESOURCE).write_text(RUNC_WITHOUT)
    (programs / RUNC_WITHOUT_RESOURCE).chmod(0o755)
    (fresh / "complete").touch()


def with_libraries(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment for programs of the folder: its libraries, and iptables' extensions."""
    folders = sorted(tools_folder().glob("usr/lib/*-linux-gnu*"))
    paths = ":".join(map(str, folders))
    inherited = os.environ.get("LD_LIBRARY_PATH")
    found = environment | {"LD_LIBRARY_PATH": f"{paths}:{inherited}" if inherited else paths}
    for extensions in (folder / "xtables" for folder in folders):
        if extensions.is_dir():
            found["XTABLES_LIBDIR"] = str(extensions)
    return found
