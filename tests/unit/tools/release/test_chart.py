import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from tools.pins import read_pyproject
from tools.release import chart
from tools.release.errors import ReleaseError
from tools.release.source import Source

ROOT = Path(__file__).parents[4]
EPOCH_S = 1_790_000_000


def source(version: str | None = None) -> Source:
    pyproject = read_pyproject(ROOT)
    return Source(ROOT, version or pyproject["project"]["version"], EPOCH_S, "- First.\n", pyproject)


def test_the_package_has_the_charts_files_and_chart_yaml_first(tmp_path: Path) -> None:
    package, _ = chart.pack_chart(source(), tmp_path)
    assert gzip.decompress(package.read_bytes())
    with tarfile.open(package) as tar:
        entries = tar.getmembers()
    assert entries[0].name == "sluicegate/Chart.yaml"
    assert {"sluicegate/values.schema.json", "sluicegate/templates/crds.yaml"} <= {entry.name for entry in entries}
    assert {(entry.mode, entry.mtime, entry.uid) for entry in entries} == {(0o644, EPOCH_S, 0)}


def test_the_layout_is_what_registries_take_of_helm(tmp_path: Path) -> None:
    package, layout = chart.pack_chart(source(), tmp_path)
    with tarfile.open(layout) as tar:
        files = {entry.name: content.read() for entry in tar if (content := tar.extractfile(entry)) is not None}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": source().version}
    manifest = json.loads(blob(files, entry))
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
    assert json.loads(blob(files, manifest["config"]))["name"] == "sluicegate"
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    assert blob(files, layer) == package.read_bytes()


def blob(files: dict[str, bytes], described: dict[str, str | int]) -> bytes:
    content = files[f"blobs/{str(described['digest']).replace(':', '/')}"]
    assert described["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert described["size"] == len(content)
    return io.BytesIO(content).read()


def test_a_chart_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"Chart\.yaml has version .* and the release is 77\.8\.9"):
        chart.pack_chart(source("77.8.9"), tmp_path)
