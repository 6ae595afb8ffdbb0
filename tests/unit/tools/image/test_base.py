import pytest

from tools.image.base import merged


@pytest.mark.parametrize(
    ("packaged", "there"),
    [
        ("./", ""),
        ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("./bin/bash", "usr/bin/bash"),
        ("./usr/bin/python3", "usr/bin/python3"),
        ("./etc/passwd", "etc/passwd"),
        ("./library/x", "library/x"),
    ],
)
def test_folders_that_debian_has_moved_into_usr_are_there(packaged: str, there: str) -> None:
    assert merged(packaged) == there
