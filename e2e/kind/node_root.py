"""The files of a node: Debian with systemd and containerd, the kubelet, and the files of node_files/ on top.

The packages' maintainer scripts do not run; the module does the few steps of them that a node needs.
"""

import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from e2e.cluster.binaries import KUBERNETES_VERSION
from e2e.kind.places import NODE_FILES, program
from tests.support.obtain.cache import ObtainError

COMMAND_TIMEOUT_S = 120

UNITS = ("containerd", "kubelet", "podnet", "volumes")
"""Units of node_files/. A node starts only these and systemd's own parts."""

MASKED_UNITS = (
    # It would write settings of the whole machine, not only of a node.
    "systemd-sysctl.service",
    *("systemd-udevd.service", "systemd-logind.service", "getty@.service", "console-getty.service"),
    *("systemd-binfmt.service", "systemd-hwdb-update.service", "systemd-modules-load.service"),
    *("systemd-tmpfiles-setup.service", "systemd-tmpfiles-setup-dev.service", "systemd-firstboot.service"),
    *("dev-hugepages.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount"),
    *("sys-kernel-tracing.mount", "proc-sys-fs-binfmt_misc.automount", "kmod-static-nodes.service"),
    *("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udev-trigger.service"),
)
NOT_OF_A_NODE = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl", "usr/lib/sysctl.d", "dev")


def furnish(root: Path) -> None:
    """Turn the unpacked packages into a node's root. Raises ObtainError."""
    for name in NOT_OF_A_NODE:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/tmp", "etc/kubernetes/manifests"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    _do_what_maintainer_scripts_would(root)
    for wants in [*root.glob("etc/systemd/system/*.wants"), root / "usr/lib/systemd/system/multi-user.target.wants"]:
        shutil.rmtree(wants, ignore_errors=True)
    shutil.rmtree(root / "etc/cni/net.d", ignore_errors=True)
    (root / "etc/cni/net.d").mkdir(parents=True)
    shutil.copytree(NODE_FILES, root, dirs_exist_ok=True)
    _choose_units(root / "etc/systemd/system")
    for name in ("kubelet", "kubeadm", "kubectl"):
        shutil.copy2(program(name), root / "usr/bin" / name)
    (root / "kind/version").write_text(KUBERNETES_VERSION)


def _do_what_maintainer_scripts_would(root: Path) -> None:
    for name in ("passwd", "group"):
        shutil.copy2(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    shutil.copy2(root / "usr/share/libc-bin/nsswitch.conf", root / "etc/nsswitch.conf")
    _link(root / "usr/bin/awk", "mawk")
    for family in ("iptables", "ip6tables"):
        for deed in ("", "-save", "-restore"):
            _link(root / f"usr/sbin/{family}{deed}", "xtables-legacy-multi")
    in_root(root, "ldconfig")
    in_root(root, "systemd-sysusers")


def _choose_units(units: Path) -> None:
    started = units / "multi-user.target.wants"
    started.mkdir(parents=True)
    for name in UNITS:
        _link(started / f"{name}.service", f"/etc/systemd/system/{name}.service")
    for name in MASKED_UNITS:
        _link(units / name, "/dev/null")
    _link(units / "default.target", "/usr/lib/systemd/system/multi-user.target")


def in_root(root: Path, *command: str) -> str:
    """Run a command in that root, and return its standard output. Raises ObtainError."""
    try:
        done = subprocess.run(
            ["chroot", root, *command], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as silence:
        raise ObtainError(f"{' '.join(command)} in the node's root does not end") from silence
    if done.returncode != 0:
        raise ObtainError(f"{' '.join(command)} in the node's root failed: {done.stderr.strip()}")
    return done.stdout


def furnish_control_plane(root: Path, node: Path) -> None:
    """Make the root that all images of the control plane share.

    It has their programs, and a node's iptables for kube-proxy.
    """
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        _link(root / name, f"usr/{name}")
    for name in ("usr/local/bin", "etc", "run", "var", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd"):
        shutil.copy2(program(name), root / "usr/local/bin" / name)
    for name in ("coredns", "pause"):
        shutil.copy2(program(name), root / name)
    shutil.copy2(node / "usr/sbin/xtables-legacy-multi", root / "usr/sbin")
    for family in ("iptables", "ip6tables"):
        for deed in ("", "-save", "-restore"):
            _link(root / f"usr/sbin/{family}{deed}", "xtables-legacy-multi")
    extensions = Path("usr/lib") / f"{platform.machine()}-linux-gnu" / "xtables"
    shutil.copytree(node / extensions, root / extensions)
    # Include the libraries of every extension: if one cannot be loaded, Services with two endpoints time out. The
    # command follows links inside of that root.
    listed = f"ldd /usr/sbin/xtables-legacy-multi /{extensions}/*.so | grep -o '/[^ :]*so[^ :]*' | sort -u"
    names = f"{listed} | grep -v {extensions} | sed s,^/,,"
    in_root(
        node, "sh", "-c", f"{names} | tar --directory=/ --dereference --create --file=/libraries.tar --files-from=-"
    )
    with tarfile.open(node / "libraries.tar") as files:
        files.extractall(root, filter="fully_trusted")
    (node / "libraries.tar").unlink()


def _link(place: Path, target: str) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
