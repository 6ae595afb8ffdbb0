"""A registry that serves one OCI archive, read only, to clients such as Helm."""

import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def serving(archive: Path, repository: str) -> Iterator[str]:
    """Serve the archive's artefact as `repository`, under its tag and its digest. Yields host and port."""
    with tarfile.open(archive) as tar:
        files = {entry.name: stored.read() for entry in tar if (stored := tar.extractfile(entry)) is not None}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = files[f"blobs/{entry['digest'].replace(':', '/')}"]
    tag = entry["annotations"]["org.opencontainers.image.ref.name"]
    found = {f"/v2/{repository}/manifests/{name}": (manifest, entry["mediaType"]) for name in (tag, entry["digest"])}
    found["/v2/"] = b"{}", "application/json"
    found[f"/v2/{repository}/tags/list"] = json.dumps({"name": repository, "tags": [tag]}).encode(), "application/json"
    for name, content in files.items():
        if name.startswith("blobs/sha256/"):
            found[f"/v2/{repository}/blobs/sha256:{Path(name).name}"] = content, "application/octet-stream"

    class Registry(BaseHTTPRequestHandler):
        """Answers the requests of OCI's distribution specification that read."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer, kind = found.get(path, (b"{}", "application/json"))
            self.send_response(200 if path in found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(answer).hexdigest()}")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(answer)

        do_HEAD = do_GET  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
