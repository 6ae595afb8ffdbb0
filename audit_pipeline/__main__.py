"""`python -m audit_pipeline land|check`."""

import argparse
import logging
import sys
from pathlib import Path

from audit_pipeline.check import Report, check
from audit_pipeline.land import land
from audit_pipeline.spool_folder import AlreadyLandingError, landing
from audit_pipeline.targets import open_target


def main() -> int:
    """Returns the exit code: 0 when all is well, 1 when something is wrong with what was found."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    parser = argparse.ArgumentParser(prog="python -m audit_pipeline", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    landing_command = commands.add_parser("land", help="turn spools into segments")
    landing_command.add_argument("spools", type=Path, help="the folder that a broker writes its spools to")
    landing_command.add_argument("target", help="a folder, or a URI such as s3://bucket/path")
    checking = commands.add_parser("check", help="look for holes, duplicates, gaps and corrupt files")
    checking.add_argument("target", help="a folder, or a URI such as s3://bucket/path")
    given = parser.parse_args()
    if given.command == "land":
        return _land(given.spools, given.target)
    return _check(given.target)


def _land(spools: Path, target: str) -> int:
    try:
        with landing(spools):
            landed = land(spools, open_target(target))
    except AlreadyLandingError as error:
        print(error, file=sys.stderr)
        return 1
    for problem in landed.problems:
        print(problem, file=sys.stderr)
    print(f"landed {landed.events} events of {landed.spools} spools as {landed.files} files")
    return 1 if landed.problems else 0


def _check(target: str) -> int:
    report = check(open_target(target))
    for finding in report.findings:
        print(f"{finding.kind}: {finding.where}: {finding.text}")
    print(_summary(report))
    return 1 if report.findings else 0


def _summary(report: Report) -> str:
    return (
        f"{report.events} numbers of {report.boots} boots in {report.segments} segments ({report.files} files), "
        f"{report.missing} of them missing; {len(report.findings)} findings"
    )


if __name__ == "__main__":
    sys.exit(main())
