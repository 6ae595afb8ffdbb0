import hashlib
import json
import tarfile
from pathlib import Path

from tools.image import archive, layer


def some_layers(folder: Path) -> list[layer.Layer]:
    made = []
    for name in ("lower", "upper"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name, encoding="utf-8")
        made.append(layer.write(folder / name, folder / f"{name}.tar", name))
    return made


def test_an_archive_is_what_oci_and_docker_each_ask_for(tmp_path: Path) -> None:
    layers = some_layers(tmp_path)
    described = archive.documents("shop:1.0", {"User": "10001"}, layers, "amd64")
    archive.write(tmp_path / "shop.tar", described, layers)
    with tarfile.open(tmp_path / "shop.tar") as tar:
        contents = {entry.name: content.read() for entry in tar if (content := tar.extractfile(entry)) is not None}
    blobs = {name: content for name, content in contents.items() if name.startswith("blobs/")}
    assert {name.rpartition("/")[2] for name in blobs} == {hashlib.sha256(blob).hexdigest() for blob in blobs.values()}

    (entry,) = json.loads(contents["index.json"])["manifests"]
    assert entry["digest"] == described.digest
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/shop:1.0"
    manifest = json.loads(contents[f"blobs/{described.digest.replace(':', '/')}"])
    assert [each["digest"] for each in manifest["layers"]] == [each.digest for each in layers]

    (for_docker,) = json.loads(contents["manifest.json"])
    assert for_docker["RepoTags"] == ["shop:1.0"]
    config = json.loads(contents[for_docker["Config"]])
    assert config["rootfs"]["diff_ids"] == [each.digest for each in layers]
    assert [name for name in for_docker["Layers"] if name not in contents] == []
    assert config["config"] == {"User": "10001"}


def test_the_same_layers_and_settings_have_the_same_digest(tmp_path: Path) -> None:
    layers = some_layers(tmp_path)
    first, second = (archive.documents("shop:1.0", {"a": 1, "b": 2}, layers, "amd64") for _ in range(2))
    other = archive.documents("shop:1.0", {"a": 1, "b": 3}, layers, "amd64")
    assert first == second
    assert other.digest != first.digest


def test_files_of_an_archive_come_out_as_a_container_would_see_them(tmp_path: Path) -> None:
    layers = some_layers(tmp_path)
    archive.write(tmp_path / "shop.tar", archive.documents("shop:1.0", {}, layers, "amd64"), layers)
    archive.unpack(tmp_path / "shop.tar", tmp_path / "root")
    assert (tmp_path / "root/file").read_text(encoding="utf-8") == "upper"
