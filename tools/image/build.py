"""Makes an image without any builder: three layers, of which the lower two are cached until their inputs change.

The layers are Debian packages, Python packages, and this project's own code, so that an image with changed code takes
seconds.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.obtain.cache import cache_root, obtained, one_run_at_a_time, show
from tools.image import archive, base, bytecode, definition, layer, sbom, site_packages
from tools.image.apt import Apt, Package
from tools.image.definition import Image
from tools.image.errors import ImageError
from tools.pins import PinsError, needed, parse, read_pyproject

ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_MADE_BY = {
    "base": ("apt.py", "base.py", "bytecode.py", "layer.py", "trimming.py"),
    "python": ("bytecode.py", "layer.py", "site_packages.py", "trimming.py"),
}
"""Modules whose change invalidates a cached layer."""

SBOM_PLACE = "usr/share/sluicegate/sbom.cdx.json"


@dataclass(frozen=True)
class Built:
    """A built image: its archive, and `sbom`, the list of its parts beside the archive. Sizes are in bytes."""

    reference: str
    path: Path
    sbom: Path
    digest: str
    size: int


@dataclass(frozen=True)
class _Base:
    root: Path
    layer: layer.Layer
    components: list[sbom.Component]
    python: str
    architecture: str


def build(image: Image, folder: Path, architecture: str | None = None) -> Built:
    """Write the image and its list of parts into `folder`. Raises ImageError.

    The image is for an `architecture` of Debian's, or else for this machine. No program of the image's architecture
    runs here: the bytecode of another architecture is compiled by this machine's image, with the same Python.
    """
    pyproject = read_pyproject(ROOT)
    version = pyproject["project"]["version"]
    lowest = _base_layer(image, architecture)
    compiler = lowest if architecture is None else _base_layer(image, None)
    if compiler.python != lowest.python:
        raise ImageError(f"Debian has Python {lowest.python} for {architecture} and {compiler.python} for this machine")
    site_packages.check_python(lowest.python)
    site = definition.SITE.format(python=lowest.python)
    requirements = image.requirements(pyproject["project"])
    needed, components = _python_layer(lowest, compiler.root, site, requirements, architecture)
    components = [*lowest.components, *components]
    components.append(sbom.Component("pypi", pyproject["project"]["name"], version, pyproject["project"]["license"]))
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / image.file_name(version, architecture)
    parts = place.with_suffix(".cdx.json")
    reference = image.reference(version)
    parts.write_text(sbom.document(image.name, reference.partition(":")[2], components), encoding="utf-8")
    with _own_scratch() as scratch:
        own = scratch / "root"
        (own / site).mkdir(parents=True)
        site_packages.copy_own(own, own / site, ROOT, pyproject)
        site_packages.put_on_path(own, [f"/{site}/{program}" for program in image.programs])
        bytecode.compile_all(compiler.root, own, [site])
        (own / SBOM_PLACE).parent.mkdir(parents=True)
        shutil.copy(parts, own / SBOM_PLACE)
        layers = [lowest.layer, needed, layer.write(own, scratch / "layer.tar", "this project's code")]
        described = archive.documents(reference, definition.configuration(image, version), layers, lowest.architecture)
        archive.write(place, described, layers)
    return Built(reference, place, parts, described.digest, place.stat().st_size)


@contextmanager
def _own_scratch() -> Iterator[Path]:
    """Yield a scratch folder. Only one process at a time writes archives; folders of killed processes are removed."""
    with one_run_at_a_time(cache_folder() / "own"):
        for left in cache_folder().glob("own.part-*"):
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="own.part-") as scratch:
            yield Path(scratch)


def debians_python() -> str:
    """Return the version of Python in images, such as "3.11".

    Raises ImageError if Debian packages are not available.
    """
    apt = Apt(cache_folder() / "apt")
    apt.update()
    names = (package.name for package in apt.resolve(("python3-minimal",), definition.NOT_NEEDED))
    return next(found[1] for name in names if (found := re.fullmatch(r"python(3\.\d+)-minimal", name)))


def cache_folder() -> Path:
    """Return the folder of cached layers and Debian packages."""
    folder = cache_root() / "image"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _base_layer(image: Image, architecture: str | None) -> _Base:
    compiler = None if architecture is None else _base_layer(image, None).root
    apt = Apt(cache_folder() / f"apt{f'-{architecture}' if architecture else ''}", architecture)
    apt.update()
    packages = apt.resolve(image.packages, definition.NOT_NEEDED)
    key = _key([*_own_modules("base"), *(f"{package.file} {package.sha256}" for package in packages)])

    def make(place: Path) -> None:
        files = apt.download(packages, _progress)
        _progress(f"unpacking {len(packages)} packages of Debian ...")
        root = place / "root"
        python = base.make(root, packages, files)
        bytecode.compile_all(compiler or root, root, [f"usr/lib/python{python}"])
        _keep(place, layer.write(root, place / "layer.tar", "packages of Debian"), _of_debian(packages))
        (place / "python").write_text(python, encoding="utf-8")

    place = obtained(cache_folder() / f"base-{key}", _is_complete, make)
    lowest, components = _kept(place)
    found = next(package.architecture for package in packages if package.architecture != "all")
    python = (place / "python").read_text(encoding="utf-8")
    return _Base(place / "root", lowest, components, python, found)


def _python_layer(
    lowest: _Base, compiler: Path, site: str, requirements: list[str], architecture: str | None
) -> tuple[layer.Layer, list[sbom.Component]]:
    try:
        pins = needed(parse((ROOT / "constraints.txt").read_text(encoding="utf-8")), requirements)
    except PinsError as error:
        raise ImageError(str(error)) from None
    lines = [pin.requirement() for pin in pins]

    def make(place: Path) -> None:
        _progress(f"installing {', '.join(requirements)} ...")
        root = place / "root"
        (root / site).mkdir(parents=True)
        site_packages.install(root / site, lines, architecture)
        bytecode.compile_all(compiler, root, [site])
        found = [file.read_text(encoding="utf-8") for file in sorted((root / site).glob("*.dist-info/METADATA"))]
        written = layer.write(root, place / "layer.tar", "packages of Python")
        shutil.rmtree(root)
        _keep(place, written, map(sbom.of_python, found))

    return _kept(
        obtained(
            cache_folder() / f"python-{_key([*_own_modules('python'), lowest.layer.digest, *lines])}",
            _is_complete,
            make,
        )
    )


def _keep(place: Path, made: layer.Layer, components: Iterable[sbom.Component]) -> None:
    (place / "components.json").write_text(sbom.to_json(components), encoding="utf-8")
    about = asdict(made) | {"path": made.path.name}
    (place / "layer.json").write_text(json.dumps(about), encoding="utf-8")


def _kept(place: Path) -> tuple[layer.Layer, list[sbom.Component]]:
    about = json.loads((place / "layer.json").read_text(encoding="utf-8"))
    components = sbom.from_json((place / "components.json").read_text(encoding="utf-8"))
    return layer.Layer(**about | {"path": place / about["path"]}), components


def _is_complete(place: Path) -> bool:
    return (place / "layer.json").exists()


def _of_debian(packages: Iterable[Package]) -> list[sbom.Component]:
    return [sbom.Component("deb", each.name, each.version, architecture=each.architecture) for each in packages]


def _own_modules(of: str) -> list[str]:
    return [(_HERE / name).read_text(encoding="utf-8") for name in _MADE_BY[of]]


def _key(inputs: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]


def _progress(line: str) -> None:
    show("image", line)
