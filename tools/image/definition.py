"""Definition of each image: Debian packages, this project's extras, names and settings. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.pins import of_extras

USER_ID = 10001
"""Id of the user of pods that the operator creates. Each image has a passwd entry for this user."""

SITE = "usr/local/lib/python{python}/dist-packages"
"""Folder in which Debian's Python looks for packages that do not come from Debian."""

_JAVA_HOME = "/usr/lib/jvm/default"

PYTHON_PACKAGES = (
    "base-files",
    "ca-certificates",
    "libpython3-stdlib",
    "libstdc++6",
    "netbase",
    "python3-minimal",
    "tzdata",
)
"""Debian packages of images with Python. RE2 and Arrow are written in C++, so they need libstdc++."""
JAVA_PACKAGES = ("bash", "coreutils", "default-jre-headless", "grep", "procps", "sed")
"""Debian packages of images with Java. Spark starts Java by shell scripts."""

NOT_NEEDED = frozenset(
    # Packages that maintainer scripts use or call. Images do not run these scripts.
    {"awk", "base-passwd", "cdebconf", "debconf", "debianutils", "dpkg", "install-info", "mawk", "openssl"}
    | {"perl", "perl-base", "tar", "ucf", "mailcap", "mime-support", "lsb-base", "sysvinit-utils", "java-common"}
    | {"ca-certificates-java", "util-linux"}
    # Java's support for windows, sound, printers and smart cards.
    | {"libasound2", "libcups2", "libfontconfig1", "libfreetype6", "libharfbuzz0b", "libjpeg62-turbo", "liblcms2-2"}
    | {"libnss3", "libpcsclite1"}
)
"""Packages that others depend on, and that no program in an image uses."""


@dataclass(frozen=True)
class Image:
    """The definition of one image.

    `extras` are those of pyproject.toml, `packages` are Debian's, whose dependencies are added.
    """

    name: str
    title: str
    extras: tuple[str, ...]
    packages: tuple[str, ...] = PYTHON_PACKAGES
    environment: dict[str, str] = field(default_factory=dict)
    suffix: str = ""
    programs: tuple[str, ...] = ()
    """Paths below SITE of programs that pods call by name."""
    has_commands: bool = True
    """Whether the image has the packages that the command line needs."""

    def requirements(self, project: Mapping[str, Any]) -> list[str]:
        """Return the Python packages of the image. `project` is [project] of pyproject.toml."""
        return of_extras(project if self.has_commands else {**project, "dependencies": []}, self.extras)

    def reference(self, version: str) -> str:
        return f"{self.name}:{version}{self.suffix}"

    def file_name(self, version: str, architecture: str | None = None) -> str:
        """Return the name of the archive; with the architecture if one was asked for."""
        return f"{self.name}-{version}{self.suffix}{f'-{architecture}' if architecture else ''}.tar"


IMAGES = {
    "slim": Image("sluicegate", "Operator, broker and controller", ("broker", "operator")),
    "landing": Image(
        "sluicegate",
        "Operator, broker, controller and lander",
        ("broker", "landing", "operator"),
        suffix="-landing",
    ),
    "client": Image("sluicegate", "A Kafka client for examples", ("client",), suffix="-client", has_commands=False),
    "audit": Image(
        "sluicegate-audit",
        "The audit pipeline with Spark and Java",
        ("audit", "operator"),
        (*PYTHON_PACKAGES, *JAVA_PACKAGES),
        {"JAVA_HOME": _JAVA_HOME},
        programs=("pyspark/bin/spark-submit",),
    ),
}

_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # The root file system is read-only, and its code is compiled.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}


def configuration(image: Image, version: str) -> dict[str, Any]:
    """Return the image's settings in the form of OCI's `config`."""
    environment = _ENVIRONMENT | image.environment
    return {
        "User": f"{USER_ID}:{USER_ID}",
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": "/tmp",
        "Cmd": ["sluicegate", "--help"],
        "Labels": {
            "org.opencontainers.image.title": image.title,
            "org.opencontainers.image.description": "Sluicegate: a Kubernetes operator for Kafka-protocol brokers",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": f"{version}{image.suffix}",
        },
    }
