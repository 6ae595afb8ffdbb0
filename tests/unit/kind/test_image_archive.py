import hashlib
import json
import tarfile
from pathlib import Path

from e2e.kind.image_archive import write_images


def test_images_share_one_layer_and_each_has_a_name_and_a_configuration_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "pause").write_text("a program")
    archive = tmp_path / "images.tar"
    write_images(archive, root, {"pause": "a.example/pause:1", "etcd": "a.example/etcd:2"}, "amd64")
    with tarfile.open(archive) as whole:
        files = {entry.name: whole.extractfile(entry) for entry in whole.getmembers()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    listed = json.loads(contents["manifest.json"])
    assert {image["RepoTags"][0] for image in listed} == {"a.example/pause:1", "a.example/etcd:2"}
    assert {tuple(image["Layers"]) for image in listed} == {("layer.tar",)}
    assert len({image["Config"] for image in listed}) == 2
    for image in listed:
        config = json.loads(contents[image["Config"]])
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(contents['layer.tar']).hexdigest()}"]
    pause = next(image for image in listed if "pause" in image["RepoTags"][0])
    assert json.loads(contents[pause["Config"]])["config"]["Entrypoint"] == ["/pause"]
    assert not list(tmp_path.glob("*.layer")), "the layer lies in the archive only"
