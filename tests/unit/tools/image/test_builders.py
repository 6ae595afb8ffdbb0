import re
import shutil
from pathlib import Path

import pytest

from tools.image.builders import chosen, command
from tools.image.definition import IMAGES, configuration
from tools.image.errors import ImageError

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("asked", "there", "builder"),
    [
        ("auto", {"apt-get", "dpkg-deb", "docker"}, None),
        ("auto", {"podman", "buildah"}, "podman"),
        ("none", {"docker"}, None),
        ("buildah", {"apt-get", "dpkg-deb", "docker", "buildah"}, "buildah"),
    ],
)
def test_a_builder_is_chosen_if_requested_or_if_debian_is_missing(
    monkeypatch: pytest.MonkeyPatch, asked: str, there: set[str], builder: str | None
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    assert chosen(asked) == builder


@pytest.mark.parametrize("asked", ["auto", "podman"])
def test_the_error_without_a_builder_names_the_usable_ones(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ImageError, match="podman"):
        chosen(asked)


def test_the_builders_command_has_the_image_and_its_name() -> None:
    words = command("podman", "landing", IMAGES["landing"], "1.2", ROOT)
    assert words[:2] == ["podman", "build"]
    assert {"sluicegate:1.2-landing", "IMAGE=landing"} <= set(words)


def test_containerfile_has_the_settings_of_the_images_made_without_it() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (environment,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    config = configuration(IMAGES["audit"], "1.2")
    assert set(environment.split()) == set(config["Env"])
    assert f"USER {config['User']}\n" in text
    assert f"WORKDIR {config['WorkingDir']}\n" in text
