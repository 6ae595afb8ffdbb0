"""Decides which files of Debian and Python packages an image omits. Pure: paths in, verdicts out."""

import re

_OF_DEBIAN = re.compile(
    r"usr/share/(man|locale|lintian|info|bug|menu|binfmts|bash-completion|applications|pixmaps|perl5|icons|doc-base)/"
    r"|usr/share/doc/(?!.*/copyright$)"
    r"|usr/lib/[^/]+/gconv/|usr/lib/binfmt.d/|usr/lib/systemd/|usr/sbin/|var/|etc/(init.d|cron|default|logrotate.d)"
    r"|usr/share/zoneinfo/(right|posix)/"
    r"|usr/lib/python3[^/]*/(lib2to3|idlelib|turtledemo|ensurepip|test|tkinter|pydoc_data)/"
    r"|usr/lib/python3[^/]*/config-[^/]*/|usr/lib/[^/]+/libjawt|usr/bin/(tzselect|catchsegv|ldd|iconv)"
)
_OF_PYTHON = re.compile(
    # The operator uses no typed objects of Kubernetes' client: it reads and writes plain JSON.
    r"kubernetes/aio/|kubernetes/client/api/(?!__init__)"
    r"|kubernetes/client/models/(?!__init__|v1_object_meta\.|v1_owner_reference\.|v1_managed_fields_entry\.)"
    r"|.*_test\.py$|.*/tests?/(?!__init__)|.*\.(pyi|pyx|pxd|pxi|h|hpp|c|cc|cpp)$"
    r"|pyarrow/(include|includes|src)/|pyarrow/(libarrow_flight|libarrow_python_flight|_flight|_orc|_cuda|gandiva)"
    r"|pyarrow/(libarrow_python\.so|[^/]*\.so\.\d+\.\d+\.\d+)$"
    r"|pyspark/(pandas/tests|tests|examples|licenses)/|pyspark/(python|data|sbin|kubernetes)/"
    # Only Textual uses it, by an extra of a package that rich needs, and no image has Textual.
    r"|linkify_it/|linkify_it_py-[^/]+\.dist-info/"
    # Scripts and file lists of packages refer to the Python that installed them.
    r"|bin/|share/|[^/]+\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$"
)


def unneeded_of_debian(path: str) -> bool:
    """Return whether an image needs no file at this `path`, relative to the root and without a leading dot.

    For files of Debian packages.
    """
    return _OF_DEBIAN.match(path) is not None


def unneeded_of_python(path: str) -> bool:
    """Return whether an image needs no file at this `path`, relative to the folder that pip installs into."""
    return _OF_PYTHON.match(path) is not None
