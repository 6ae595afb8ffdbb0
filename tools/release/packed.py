"""Writes a tar.gz whose bytes depend on nothing but its files and the given time. Pure."""

import gzip
import io
import tarfile
from collections.abc import Mapping


def tar_gz(files: Mapping[str, bytes], epoch_s: int) -> bytes:
    """Return an archive of the files, in their order, each with mode 0644, user 0 and the given time."""
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, epoch_s
            tar.addfile(entry, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=epoch_s) as stream:
        stream.write(unpacked.getvalue())
    return packed.getvalue()
