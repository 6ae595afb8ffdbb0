"""`python -m e2e.kind`: a cluster of nodes for tests and for people.

prepare has what it is made of; up makes it; run runs a command in its network; load puts images on its nodes; down
removes it with all that it had.
"""

import argparse
import os
import sys
from pathlib import Path

from e2e.cluster.process import end_on_sigterm
from e2e.cluster.waiting import NotInTimeError
from e2e.kind.cluster import Cluster, prepare
from e2e.kind.places import DEFAULT_NAME, NAME_VARIABLE
from tests.support.obtain.cache import ObtainError

_WITH_CLUSTERS_DNS = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


def main(arguments: list[str]) -> int:
    try:
        chosen = parser().parse_args(arguments)
        end_on_sigterm()
        cluster = Cluster(chosen.name)
        match chosen.deed:
            case "prepare":
                sys.stdout.write(f"{prepare()}\n")
            case "up":
                cluster.up(chosen.nodes)
                for archive in chosen.image:
                    cluster.load(archive)
            case "load":
                for archive in chosen.archives:
                    cluster.load(archive)
            case "run":
                _become(cluster, chosen.command)
            case "down":
                cluster.down()
    except (ObtainError, NotInTimeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _become(cluster: Cluster, command: list[str]) -> None:
    """Replace this process by the command, so that signals and the exit code are the command's."""
    cluster.nodes()
    mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _WITH_CLUSTERS_DNS]
    line = cluster.inside(*mounts, str(cluster.place.resolv_conf), *command)
    environment = cluster.place.environment()
    os.execvpe(line[0], line, environment)


def _archive(name: str) -> Path:
    if not (path := Path(name)).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {name}")
    return path


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.kind", description=__doc__)
    name = os.environ.get(NAME_VARIABLE, DEFAULT_NAME)
    parser.add_argument("--name", default=name, help=f"of the cluster; else {NAME_VARIABLE}, else {DEFAULT_NAME}")
    deeds = parser.add_subparsers(dest="deed", required=True)
    deeds.add_parser("prepare", help="fetch and build what a cluster is made of; minutes once, then a cache")
    up = deeds.add_parser("up", help="make a cluster; one of this name that is there is removed first")
    up.add_argument("--nodes", type=int, default=1)
    up.add_argument("--image", type=_archive, action="append", default=[], help="an archive to load on every node")
    run = deeds.add_parser("run", help="run a command where pods, Services and their names can be reached")
    run.add_argument("command", nargs="+")
    load = deeds.add_parser("load", help="put docker or OCI archives on every node")
    load.add_argument("archives", type=_archive, nargs="+")
    deeds.add_parser("down", help="remove the cluster and all that it had")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
