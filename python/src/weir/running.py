"""A switch or a controller that runs as long as a block of code."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .client import Controller, Switch
from .commands import Path_, check, weir_binary, words
from .errors import NoSwitch

C = TypeVar("C", Switch, Controller)

START = 30.0
"""Maximum time until a process answers, in seconds."""


@contextmanager
def run(*, binary: Path_ | None = None, **options: Any) -> Iterator[Switch]:
    """Starts a switch (`weir run`), waits until it answers, and ends it behind the block."""
    with _running(Switch, [weir_binary(binary), "run"], options) as switch:
        yield switch


@contextmanager
def controller(*, binary: Path_ | None = None, **options: Any) -> Iterator[Controller]:
    """Does the same with a controller (`weir controller`)."""
    with _running(Controller, [weir_binary(binary), "controller"], options) as controller:
        yield controller


@contextmanager
def _running(kind: type[C], command: list[str], options: dict[str, Any]) -> Iterator[C]:
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+") as log:
        options = {"socket": f"{directory}/weir.sock"} | options
        process = subprocess.Popen(
            [*command, *words(options)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        )
        try:
            with kind(socket=options["socket"]) as client:
                if not _answers(client, process):
                    log.seek(0)
                    check(process.wait(), log.read())
                yield client
        finally:
            process.terminate()
            process.wait()


def _answers(client: Switch | Controller, process: "subprocess.Popen[bytes]") -> bool:
    """Waits until a process answers; False if it ends before."""
    end = time.monotonic() + START
    while process.poll() is None:
        if os.path.exists(client.at):
            try:
                client.api()
                return True
            except NoSwitch:
                # It has the socket, and does not listen yet.
                pass
        if time.monotonic() > end:
            raise NoSwitch(f"nothing answers at {client.at} after {START:.0f} s")
        time.sleep(0.02)
    return False
