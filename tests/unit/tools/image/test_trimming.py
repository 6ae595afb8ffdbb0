import pytest

from tools.image.trimming import unneeded_of_debian, unneeded_of_python


@pytest.mark.parametrize(
    "path",
    [
        "usr/share/doc/bash/changelog.gz",
        "usr/share/man/man1/bash.1.gz",
        "usr/lib/x86_64-linux-gnu/gconv/BIG5.so",
        "etc/cron.d/x",
    ],
)
def test_manuals_and_services_of_debian_are_removed(path: str) -> None:
    assert unneeded_of_debian(path)


@pytest.mark.parametrize(
    "path", ["usr/share/doc/bash/copyright", "usr/bin/python3.11", "etc/protocols", "usr/lib/os-release"]
)
def test_files_of_debian_needed_at_run_time_and_all_licences_are_kept(path: str) -> None:
    assert not unneeded_of_debian(path)


@pytest.mark.parametrize(
    "path",
    [
        "kubernetes/aio/client/__init__.py",
        "kubernetes/client/models/v1_pod.py",
        "kubernetes/client/api/core_v1_api.py",
        "numpy/_core/tests/test_x.py",
        "uvloop/loop.pyx",
        "rich-15.0.0.dist-info/RECORD",
        "bin/typer",
        "linkify_it/main.py",
        "linkify_it_py-2.2.0.dist-info/METADATA",
    ],
)
def test_files_of_python_that_no_program_imports_are_removed(path: str) -> None:
    assert unneeded_of_python(path)


@pytest.mark.parametrize(
    "path",
    [
        "kubernetes/client/__init__.py",
        "kubernetes/client/models/__init__.py",
        "kubernetes/client/models/v1_object_meta.py",
        "kubernetes/client/api_client.py",
        "pyarrow/libarrow.so.2600",
        "rich-15.0.0.dist-info/METADATA",
        "prometheus_client/core.py",
    ],
)
def test_files_of_python_that_programs_import_are_kept(path: str) -> None:
    assert not unneeded_of_python(path)
