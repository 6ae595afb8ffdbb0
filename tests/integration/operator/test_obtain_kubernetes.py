"""How a machine obtains the Kubernetes programs, with fakes of Go and of the release site."""

import functools
import hashlib
import http.server
import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.cluster.binaries import (
    ETCD_VERSION,
    KUBERNETES_VERSION,
    NAMES,
    binaries_folder,
    go_platform,
)
from e2e.cluster.go_build import MODULE
from tests.support.obtain.cache import ObtainError

REPOSITORY = Path(__file__).parents[3]

STAND_IN_GO = """#!/bin/sh
# go build -v ... -o FILE PACKAGE: slow enough that two runs overlap.
while [ "$1" != "-o" ]; do shift; done
echo "$3" >> "$STAND_IN_BUILDS"
sleep 0.2
printf 'built' > "$2"
chmod +x "$2"
"""


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def release_site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it."""
    root = tmp_path / "site"
    root.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietFiles, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def start_obtain(env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "e2e.cluster.obtain"],
        env=dict(env),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_obtain(env: Mapping[str, str]) -> tuple[int, str, str]:
    with start_obtain(env) as running:
        stdout, stderr = running.communicate(timeout=180)
        return running.returncode, stdout, stderr


def put_release(root: Path, *, damaged: str = "") -> None:
    """Write the files of the two release sites for this machine, each with its sum beside it."""
    system, machine = go_platform()
    folder = root / KUBERNETES_VERSION / "bin" / system / machine
    folder.mkdir(parents=True)
    for name in NAMES[1:]:
        content = f"released {name}".encode()
        (folder / f"{name}.sha256").write_text(hashlib.sha256(content).hexdigest())
        (folder / name).write_bytes(content + (b"?" if name == damaged else b""))
    etcd = root / ETCD_VERSION
    etcd.mkdir()
    packed = etcd / f"etcd-{ETCD_VERSION}-{system}-{machine}.tar.gz"
    (root / "etcd").write_text("released etcd")
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(root / "etcd", f"{packed.name.removesuffix('.tar.gz')}/etcd")
    (etcd / "SHA256SUMS").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")


def test_a_folder_without_the_programs_is_refused_with_their_names(tmp_path: Path) -> None:
    code, _, stderr = run_obtain({"SLUICEGATE_KUBE_BINARIES": str(tmp_path)})
    assert code == 1
    assert "lacks etcd, kube-apiserver, kube-controller-manager, kubectl" in stderr


def test_what_a_killed_run_left_is_cleared_away_and_the_programs_are_built(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(STAND_IN_GO)
    go.chmod(0o755)
    cache = tmp_path / "cache" / "sluicegate"
    system, machine = go_platform()
    left = cache / f"kubernetes-{KUBERNETES_VERSION}-{system}-{machine}.part-killed" / "bin"
    left.mkdir(parents=True)
    (left / "etcd").write_text("half of it")
    env = {"XDG_CACHE_HOME": str(cache.parent), "PATH": f"{tmp_path}:{os.defpath}"}
    code, stdout, stderr = run_obtain(env | {"STAND_IN_BUILDS": str(tmp_path / "builds")})
    assert code == 0, stderr
    assert (Path(stdout.strip()) / "etcd").read_text() == "built"
    assert not left.exists()


def test_the_error_shows_the_output_of_a_failed_go_build(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'main.go:1:1: expected package' >&2\nexit 1\n")
    go.chmod(0o755)
    code, _, stderr = run_obtain({"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"})
    assert code == 1
    assert "the build of etcd with Go failed:\nmain.go:1:1: expected package" in stderr


def test_a_control_plane_without_programs_builds_none_and_names_the_make_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SLUICEGATE_KUBE_BINARIES", raising=False)
    with pytest.raises(ObtainError, match=r"lacks etcd, .*: `make kubernetes` has them built"):
        binaries_folder()
    assert not list(tmp_path.iterdir())


def test_the_error_without_go_and_a_download_names_the_variable_to_set(tmp_path: Path) -> None:
    code, _, stderr = run_obtain({"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert code == 1
    assert "Go is not installed: install Go" in stderr
    assert "SLUICEGATE_KUBE_BINARIES" in stderr


def test_two_runs_at_once_build_once_and_find_the_same_folder(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(STAND_IN_GO)
    go.chmod(0o755)
    builds = tmp_path / "builds"
    path = f"{tmp_path}:{os.defpath}"
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": path, "STAND_IN_BUILDS": str(builds)}
    with start_obtain(env) as one, start_obtain(env) as other:
        outputs = [running.communicate(timeout=180) for running in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    folder = Path(outputs[0][0].strip())
    assert sorted(file.name for file in folder.iterdir()) == sorted(NAMES)
    assert len(builds.read_text().splitlines()) == len(NAMES)
    assert not list((tmp_path / "cache" / "sluicegate").glob("*.part-*")), "scratch folders are removed"


def test_a_download_is_taken_when_its_published_sum_agrees(tmp_path: Path, release_site: tuple[Path, str]) -> None:
    root, base = release_site
    put_release(root)
    env = {"SLUICEGATE_KUBE_DOWNLOAD_BASE": base, "SLUICEGATE_ETCD_DOWNLOAD_BASE": base}
    code, stdout, stderr = run_obtain(env | {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert code == 0, stderr
    folder = Path(stdout.strip())
    assert {name: (folder / name).read_text() for name in NAMES} == {name: f"released {name}" for name in NAMES}


def test_a_download_that_is_not_what_was_published_is_thrown_away(
    tmp_path: Path, release_site: tuple[Path, str]
) -> None:
    root, base = release_site
    put_release(root, damaged="kubectl")
    env = {"SLUICEGATE_KUBE_DOWNLOAD_BASE": base, "SLUICEGATE_ETCD_DOWNLOAD_BASE": base}
    code, _, stderr = run_obtain(env | {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert code == 1
    assert re.search(r"kubectl has sha256 .* published is .*; it was thrown away", stderr)
    assert not list((tmp_path / "sluicegate").glob("*/kubectl"))


def test_the_versions_are_those_of_the_pinned_module() -> None:
    module = (MODULE / "go.mod").read_text()
    assert f"k8s.io/kubernetes {KUBERNETES_VERSION}\n" in module
    assert f"go.etcd.io/etcd/server/v3 {ETCD_VERSION}\n" in module
