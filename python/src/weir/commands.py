"""The commands `weir sim`, `weir replay`, `weir budget` and `pktgen`, with their documents as types.

Options are keyword arguments: `loss="flows=10%,rate=1%"` is `--loss flows=10%,rate=1%`, a list gives the
option several times, and True is an option without a value.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from .decode import decode
from .errors import Failed, Missed, NoBinary, WrongUsage
from .reports import Budget, Conversations, FlowTruth, Generated, Replay
from .simulated import EpochReport, Simulation

T = TypeVar("T")
Path_ = str | os.PathLike[str]


def sim(*, binary: Path_ | None = None, **options: Any) -> Simulation:
    """Runs a simulated network (`weir sim`) to its end."""
    return _run(Simulation, [weir_binary(binary), "sim", *words(options)])


def sim_epochs(*, binary: Path_ | None = None, **options: Any) -> Iterator[EpochReport]:
    """The epochs of a simulated network, each as soon as its answers are final. The simulation ends with
    the iterator."""
    return _stream(EpochReport, [weir_binary(binary), "sim", "--each", *words(options)])


def replay(*captures: Path_, binary: Path_ | None = None, **options: Any) -> Replay:
    """Runs captures through the dataplane (`weir replay`)."""
    return _run(Replay, [weir_binary(binary), "replay", *map(str, captures), *words(options)])


def budget(*, binary: Path_ | None = None, **options: Any) -> Budget:
    """What programs take of a hardware target and of memory (`weir budget`)."""
    return _run(Budget, [weir_binary(binary), "budget", *words(options)])


def pktgen(*, binary: Path_ | None = None, **options: Any) -> Generated:
    """Sends generated traffic or captures (`pktgen run`)."""
    return _run(Generated, [_pktgen(binary), "run", *words(options)])


def conversations(capture: Path_, *, binary: Path_ | None = None, **options: Any) -> Conversations:
    """Holds the TCP conversations of a capture between two ports (`pktgen conversations`)."""
    command = [_pktgen(binary), "conversations", f"--pcap={capture}", *words(options)]
    return _run(Conversations, command)


def workload(sizes: str, out: Path_, *, binary: Path_ | None = None, **options: Any) -> Path:
    """Writes a generated workload as a capture (`pktgen trace`), and returns its path."""
    ended = _end([_pktgen(binary), "trace", "--workload", sizes, "--out", str(out), *words(options)])
    check(ended.returncode, ended.stderr)
    return Path(out)


def truth(file: Path_) -> Iterator[FlowTruth]:
    """The rows that `pktgen run --truth FILE` wrote, one after the other."""
    with open(file) as lines:
        yield from (decode(FlowTruth, json.loads(line)) for line in lines)


def weir_binary(given: Path_ | None) -> str:
    """The binary that is given, that of the environment variable WEIR, or the one on the PATH."""
    return _binary("weir", given or os.environ.get("WEIR"))


def _pktgen(given: Path_ | None) -> str:
    """The same; WEIR names the directory that pktgen is in."""
    weir = os.environ.get("WEIR")
    return _binary("pktgen", given or (Path(weir).with_name("pktgen") if weir else None))


def _binary(name: str, given: Path_ | None) -> str:
    found = shutil.which(given or name)
    if found is None:
        raise NoBinary(f"there is no {given or name}: give `binary`, set WEIR, or put {name} on the PATH")
    return found


def words(options: dict[str, Any]) -> Iterator[str]:
    """Options as words of a command."""
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                yield option
            elif each is not None and each is not False:
                yield f"{option}={each}"


def _run(kind: type[T], command: list[str]) -> T:
    """The document that a command prints."""
    ended = _end([*command, "--json"])
    report = decode(kind, json.loads(ended.stdout)) if ended.stdout else None
    check(ended.returncode, ended.stderr, report)
    assert report is not None
    return report


def _end(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _stream(kind: type[T], command: list[str]) -> Iterator[T]:
    """The documents that a command prints, one a line. It is ended when no more are read."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*command, "--json"], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
        )
        with process:
            try:
                assert process.stdout is not None
                yield from (decode(kind, json.loads(line)) for line in process.stdout)
                code = process.wait()
            finally:
                process.terminate()
        log.seek(0)
        check(code, log.read())


def check(code: int, stderr: str, report: Any = None) -> None:
    """Raises the error that an exit code stands for."""
    error = stderr.strip()
    if code == 3:
        raise Missed(error, code, report)
    if code == 2:
        raise WrongUsage(error, code)
    if code != 0:
        raise Failed(error, code)
