"""Volumes as folders of the host: ConfigMaps and Secrets as files, claims kept over a pod's restarts."""

import base64
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.processes.process_kubelet.api import ApiRefused, KubeApi
from tests.support.processes.process_kubelet.downward import write_downward_files
from tests.support.processes.process_kubelet.translate import Mounts, field_value

Json = dict[str, Any]


def claim_folder(claims: Path, namespace: str, name: str, uid: str) -> Path:
    """The folder of a claim's volume; a recreated claim begins empty."""
    return claims / namespace / f"{name}-{uid[:8]}"


class PodVolumes:
    """The volumes of a pod. `own` is the pod's folder and is removed with it; `claims` outlives pods."""

    def __init__(self, api: KubeApi, pod: Json, own: Path, claims: Path) -> None:
        self._api = api
        self._pod = pod
        self._namespace: str = pod["metadata"]["namespace"]
        self._own = own
        self._claims = claims
        self._folders: dict[str, Path] = {}
        self._mounts = Mounts({})
        self._due: dict[tuple[str, str], float] = {}
        """Time at which a changed ConfigMap or Secret reaches the files."""
        self.keys: dict[tuple[str, str, str], str] = {}

    def prepare(self) -> None:
        """Read the objects that the pod names.

        Raises ApiRefused (404) if one does not exist yet: the pod waits, as with a kubelet.
        """
        for volume in self._pod["spec"].get("volumes", []):
            self._folders[volume["name"]] = self._folder(volume)
        for container in self._pod["spec"].get("initContainers", []) + self._pod["spec"]["containers"]:
            for kind, name in _env_sources(container):
                self._read(kind, name)

    def mounts(self, container: Json) -> Mounts:
        """The mounts of a container.

        Text files are written once the mount paths are known, because paths inside the files must be host paths as
        well.
        """
        folders = {}
        for mount in container.get("volumeMounts", []):
            folder = self._folders[mount["name"]]
            folders[mount["mountPath"]] = str(folder / mount["subPath"]) if mount.get("subPath") else str(folder)
        self._mounts = Mounts(folders)
        for volume in self._pod["spec"].get("volumes", []):
            self._write_files(volume, self._mounts)
        return self._mounts

    def follow(self, now: float, delay_s: float, data_of: Callable[[str, str], Json | None]) -> None:
        """Update files from changed ConfigMaps and Secrets after `delay_s`.

        `data_of` returns the current data of one, or None if it is gone: then the files stay.
        """
        for volume in self._pod["spec"].get("volumes", []):
            for kind, name, _ in _file_sources(volume):
                data = data_of(kind, name)
                mounted = {key: text for (k, n, key), text in self.keys.items() if (k, n) == (kind, name)}
                if data is None or data == mounted:
                    self._due.pop((kind, name), None)
                elif now >= self._due.setdefault((kind, name), now + delay_s):
                    self._replace(volume, kind, name, data)

    def _replace(self, volume: Json, kind: str, name: str, data: Json) -> None:
        for gone in [key for key in self.keys if key[:2] == (kind, name) and key[2] not in data]:
            del self.keys[gone]
            _file(self._folders[volume["name"]], volume, gone[2]).unlink(missing_ok=True)
        self.keys |= {(kind, name, key): text for key, text in data.items()}
        self._write_files(volume, self._mounts)

    def show(self, pod: Json) -> None:
        write_downward_files(pod, self._folders)

    def remove(self) -> None:
        shutil.rmtree(self._own, ignore_errors=True)

    def _folder(self, volume: Json) -> Path:
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self._api.get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}")
            folder = claim_folder(self._claims, self._namespace, name, claim["metadata"]["uid"])
        else:
            folder = self._own / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        for kind, name, optional in _file_sources(volume):
            self._read(kind, name, optional=optional)
        for source in volume.get("projected", {}).get("sources", []):
            self._project(source, folder)
        return folder

    def _project(self, source: Json, folder: Path) -> None:
        """Write a projected volume: a token of the pod's account from the API server, and downwardAPI fields."""
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            metadata = self._pod["metadata"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            account = self._pod["spec"].get("serviceAccountName", "default")
            answer = self._api.create(
                f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
                {"spec": {"expirationSeconds": wanted.get("expirationSeconds", 3600), "boundObjectRef": bound}},
            )
            (folder / wanted["path"]).write_text(answer["status"]["token"])
        for item in source.get("downwardAPI", {}).get("items", []):
            (folder / item["path"]).write_text(field_value(self._pod, "", item["fieldRef"]["fieldPath"]))

    def _read(self, kind: str, name: str, *, optional: bool = False) -> None:
        if any(key[:2] == (kind, name) for key in self.keys):
            return
        plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
        try:
            found = self._api.get(f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")
        except ApiRefused as refusal:
            if optional and refusal.status == 404:
                return
            raise
        self.keys |= {(kind, name, key): text for key, text in plain_data(kind, found).items()}

    def _write_files(self, volume: Json, mounts: Mounts) -> None:
        items = {item["key"]: item["path"] for item in _items(volume)}
        for kind, name, _ in _file_sources(volume):
            for (k, n, key), text in self.keys.items():
                if (k, n) != (kind, name) or (items and key not in items):
                    continue
                file = _file(self._folders[volume["name"]], volume, key)
                file.parent.mkdir(parents=True, exist_ok=True)
                fresh = file.with_name(f".{file.name}.fresh")
                fresh.write_text(mounts.rewrite(text))
                fresh.replace(file)


def plain_data(kind: str, found: Json) -> dict[str, str]:
    """The data of a ConfigMap or of a Secret as text."""
    data: dict[str, str] = found.get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()} if kind == "Secret" else data


def _file(folder: Path, volume: Json, key: str) -> Path:
    paths = {item["key"]: item["path"] for item in _items(volume)}
    return folder / str(paths.get(key, key))


def _items(volume: Json) -> list[Json]:
    """Keys of the volume's sources that become files, with their paths; empty if all keys do."""
    sources = [volume, *volume.get("projected", {}).get("sources", [])]
    given = [source.get("configMap") or source.get("secret") or {} for source in sources]
    return [item for source in given for item in source.get("items") or []]


def _file_sources(volume: Json) -> list[tuple[str, str, bool]]:
    found = []
    for source in [volume, *volume.get("projected", {}).get("sources", [])]:
        if "configMap" in source:
            found.append(("ConfigMap", source["configMap"]["name"], source["configMap"].get("optional", False)))
        if "secret" in source:
            name = source["secret"].get("secretName") or source["secret"]["name"]
            found.append(("Secret", name, source["secret"].get("optional", False)))
    return found


def _env_sources(container: Json) -> list[tuple[str, str]]:
    found = []
    for entry in container.get("env", []):
        origin = entry.get("valueFrom", {})
        found += [("ConfigMap", origin["configMapKeyRef"]["name"])] if "configMapKeyRef" in origin else []
        found += [("Secret", origin["secretKeyRef"]["name"])] if "secretKeyRef" in origin else []
    for source in container.get("envFrom", []):
        found += [("ConfigMap", source["configMapRef"]["name"])] if "configMapRef" in source else []
        found += [("Secret", source["secretRef"]["name"])] if "secretRef" in source else []
    return found
