"""Clients of a running switch and of a controller: HTTP over the control socket, or over TCP with mutual TLS."""

import os
import ssl
import stat
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx

from . import answers, documents
from .claims import Answer
from .decode import decode
from .errors import NoSwitch, Refused, WeirError
from .registers import Registers, dumped

A = TypeVar("A", bound=Answer)
T = TypeVar("T")

TIMEOUT = 10.0
"""Maximum time for an answer, in seconds."""

FOLLOW_EVERY = 0.02
"""Time between the requests of `each`, in seconds."""


class Window(TypedDict, total=False):
    """The epochs of an answer: those of the last `seconds` [10], or the first one that ended after the epoch
    `after`, or what was published first after the sequence number `since`; with `provisional` also epochs
    that are not final. `program` is the one that answers."""

    seconds: float
    after: int
    since: int
    provisional: bool
    program: str


class Query(Window, total=False):
    """The same, and the flows: at most `top` [20], of at least `threshold` packets [1], that match the
    pattern `flow`, and whose paths cross the switches of `path` in this order. For `places`, `alarm_rate` is
    the largest share of packets [1e-4] that a healthy link loses."""

    top: int
    threshold: int
    flow: str
    path: list[str]
    alarm_rate: float


class _Client:
    """What a switch and a controller answer alike."""

    def __init__(
        self,
        name: str = "weir",
        *,
        socket: str | os.PathLike[str] | None = None,
        connect: str | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        """The one of this name on this machine, or at this control `socket`. With `connect`, the one at
        HOST:PORT, where certificate, key and ca may stand in ~/.config/weir/client.toml instead."""
        self.at = connect or str(socket or _socket(name))
        files = {"certificate": certificate, "key": key, "ca": ca}
        transport = httpx.HTTPTransport(
            verify=_tls(connect, files) if connect else False,
            uds=None if connect else self.at,
            # A connection that weir closes meanwhile would fail the next request.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        base = f"https://{connect}" if connect else "http://weir"
        self._http = httpx.Client(base_url=base, transport=transport, timeout=TIMEOUT, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.at!r})"

    def ask(self, kind: type[A], **query: Unpack[Query]) -> A:
        """The answer to a task, as the type of its document."""
        return self._get(kind, kind.task, **_parameters(query))

    def each(self, kind: type[A], **query: Unpack[Query]) -> Iterator[A]:
        """The answers about each epoch from here on: once when the epoch is final, and again each time that
        late packets amend it. Does not end."""
        seen = self.ask(kind, **(query | {"seconds": 0})).claim.sequence
        while True:
            answer = self.ask(kind, **(query | {"since": seen}))
            if answer.claim.last_epoch is None:
                time.sleep(FOLLOW_EVERY)
                continue
            seen = answer.claim.sequence
            yield answer

    def heavy(self, **query: Unpack[Query]) -> answers.HeavyFlows:
        return self.ask(answers.HeavyFlows, **query)

    def losses(self, **query: Unpack[Query]) -> answers.Losses:
        return self.ask(answers.Losses, **query)

    def places(self, **query: Unpack[Query]) -> answers.Places:
        return self.ask(answers.Places, **query)

    def flows(self, **query: Unpack[Query]) -> answers.FlowSizes:
        return self.ask(answers.FlowSizes, **query)

    def changes(self, **query: Unpack[Query]) -> answers.HeavyChanges:
        return self.ask(answers.HeavyChanges, **query)

    def cardinality(self, **query: Unpack[Query]) -> answers.Numbers:
        """The number of flows and their entropy."""
        return self.ask(answers.Numbers, **query)

    def paths(self, **query: Unpack[Query]) -> answers.Paths:
        return self.ask(answers.Paths, **query)

    def latency(self, **query: Unpack[Query]) -> answers.Latency:
        return self.ask(answers.Latency, **query)

    def loops(self, **query: Unpack[Query]) -> answers.Loops:
        return self.ask(answers.Loops, **query)

    def utilisation(self, **query: Unpack[Query]) -> answers.Utilisation:
        return self.ask(answers.Utilisation, **query)

    def values(self, **query: Unpack[Query]) -> answers.Values:
        return self.ask(answers.Values, **query)

    def attention(self, **query: Unpack[Query]) -> answers.Attention:
        return self.ask(answers.Attention, **query)

    def frequency(self, flow: str, **window: Unpack[Window]) -> answers.Frequency:
        """The packets (or bytes) of the flows that match a pattern, such as `10.0.0.1:80 -> * tcp`."""
        return self.ask(answers.Frequency, flow=flow, **window)

    def frequencies(self, flows: list[str], **window: Unpack[Window]) -> list[answers.Frequency]:
        """The same of at most 1000 patterns, each by itself."""
        return self._send(documents.Frequencies, "POST", "frequency", {"flows": flows}, **window).frequencies

    def ipfix(self) -> documents.Exported:
        """How the export to an IPFIX collector stands."""
        return self._get(documents.Exported, "ipfix")

    def otlp(self) -> documents.Otlp:
        """How the export to an OpenTelemetry collector stands."""
        return self._get(documents.Otlp, "otlp")

    def api(self) -> documents.Api:
        """Connections since the start."""
        return self._get(documents.Api, "api")

    def metrics(self) -> str:
        """All metrics, as text for Prometheus."""
        return self._request("GET", "/metrics").text

    def _get(self, kind: type[T], path: str, **parameters: Any) -> T:
        return self._send(kind, "GET", path, None, **parameters)

    def _send(self, kind: type[T], method: str, path: str, body: Any = None, wait: float = 0.0, **parameters: Any) -> T:
        """Sends a request whose answer is a document, and may take `wait` seconds to come."""
        return decode(kind, self._request(method, f"/v1/{path}", body, wait, parameters).json())

    def _request(
        self, method: str, path: str, body: Any = None, wait: float = 0.0, parameters: dict[str, Any] | None = None
    ) -> httpx.Response:
        with self._errors():
            response = self._http.request(method, path, params=parameters, json=body, timeout=TIMEOUT + wait)
        return _checked(response)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Makes errors of the connection those of this package."""
        try:
            yield
        except httpx.ConnectError as error:
            raise NoSwitch(f"no switch or controller answers at {self.at} ({error})") from error
        except httpx.HTTPError as error:
            raise WeirError(f"{self.at}: {error}") from error


class Switch(_Client):
    """A running switch (`weir run`)."""

    def ports(self) -> documents.Ports:
        return self._get(documents.Ports, "ports")

    def status(self) -> documents.Status:
        """The totals, of workers as well."""
        return self._get(documents.Status, "status")

    def since_reset(self) -> documents.SinceReset:
        return self._get(documents.SinceReset, "ports/since-reset")

    def reset(self) -> documents.SinceReset:
        """Counts `since_reset` from here on."""
        return self._send(documents.SinceReset, "PUT", "reset")

    def macs(self) -> documents.MacTable:
        return self._get(documents.MacTable, "macs")

    def controller(self) -> documents.ControllerLink:
        """How the switch stands with its controller."""
        return self._get(documents.ControllerLink, "controller")

    def add_port(
        self, name: str, dev: str, *, role: str = "host", mtu_bytes: int = 1500, pair: str | None = None
    ) -> documents.Port:
        body = {"name": name, "dev": dev, "role": role, "mtu_bytes": mtu_bytes, "pair": pair}
        return self._send(documents.Port, "POST", "ports", {key: value for key, value in body.items() if value})

    def remove_port(self, name: str) -> documents.Port:
        return self._send(documents.Port, "DELETE", f"ports/{_quoted(name)}")

    def set_link(self, port: str, up: bool) -> None:
        self._set(port, "link", {"up": up})

    def set_promiscuous(self, port: str, on: bool) -> None:
        self._set(port, "promiscuous", {"on": on})

    def set_mtu(self, port: str, mtu_bytes: int) -> None:
        self._set(port, "mtu", {"mtu_bytes": mtu_bytes})

    def set_fault(self, port: str, fault: str | None) -> None:
        """Faults on purpose, such as `tx:drop=1%`; None ends them."""
        self._set(port, "fault", {"fault": fault})

    def _set(self, port: str, what: str, body: dict[str, Any]) -> None:
        self._request("PUT", f"/v1/ports/{_quoted(port)}/{what}", body)

    def reload(self) -> documents.Reloaded:
        """Reads the switch's configuration file again."""
        return self._send(documents.Reloaded, "POST", "reload")

    def tables(self) -> documents.Tables:
        return self._get(documents.Tables, "tables")

    def table(self, name: str) -> documents.TableRows:
        return self._get(documents.TableRows, f"tables/{_quoted(name)}")

    def change_table(self, name: str, *changes: dict[str, Any]) -> documents.TableChanged:
        """Makes all changes or none, such as `{"op": "add", "entry": {…}}`."""
        return self._send(documents.TableChanged, "POST", f"tables/{_quoted(name)}", {"changes": changes})

    def trace(
        self, filter: str | None = None, *, port: str | None = None, timeout: float = 10.0
    ) -> documents.Packet | None:
        """The way of the next packet that matches; None when none came within `timeout` seconds."""
        body = {"filter": filter, "port": port, "timeout_seconds": timeout}
        body = {key: value for key, value in body.items() if value is not None}
        found: Any = documents.Packet | None
        return self._send(found, "POST", "trace", body, wait=timeout)  # type: ignore[no-any-return]

    def capture(self, **options: Any) -> Iterator[bytes]:
        """Packets as pieces of a pcapng file. Options are the keys of docs/json.md: `filter`, `ports`, `rx`, `tx`,
        `drops`, `count`, `duration_seconds`, `snaplen_bytes`. Ends when the caller stops reading."""
        waits = httpx.Timeout(TIMEOUT, read=None)
        with self._errors(), self._http.stream("POST", "/v1/capture", json=options, timeout=waits) as response:
            if response.is_error:
                response.read()
            yield from _checked(response).iter_raw()

    def registers(self, program: str | None = None, *, timeout: float = 10.0) -> Registers:
        """All register arrays of one epoch, as NumPy arrays."""
        body: dict[str, Any] = {"timeout_seconds": timeout}
        body |= {"program": program} if program else {}
        return dumped(self._request("POST", "/v1/registers", body, wait=timeout).json())


class Controller(_Client):
    """A controller of switches (`weir controller`)."""

    def switches(self) -> documents.NetworkSwitches:
        return self._get(documents.NetworkSwitches, "switches")

    def evict(self, name: str) -> documents.EvictedSwitch:
        """Waits for a switch no more."""
        return self._send(documents.EvictedSwitch, "DELETE", f"switches/{_quoted(name)}")

    def set_parameters(self, program: str, **settings: Any) -> documents.ChangedParameters:
        """Changes what all switches measure; settings are those of the program's table in a configuration."""
        return self._send(documents.ChangedParameters, "PUT", "parameters", {"name": program} | settings)


def _parameters(query: Query) -> dict[str, Any]:
    """A query as the parameters of a URL."""
    return {**query} | ({"path": ",".join(query["path"])} if "path" in query else {})


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = f"{response.status_code} {response.reason_phrase}"
    raise Refused(error, response.status_code)


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _socket(name: str) -> Path:
    """The control socket of this name: the first that is there, else where it would be."""
    session, user = os.environ.get("XDG_RUNTIME_DIR"), os.geteuid()
    directories = [Path(session, "weir")] if session else []
    directories.append(Path(tempfile.gettempdir(), f"weir-{user}"))
    directories.insert(0 if user == 0 else len(directories), Path("/run/weir"))
    for directory in directories:
        if os.path.lexists(directory / f"{name}.sock"):
            _trust(directory)
            return directory / f"{name}.sock"
    return directories[0] / f"{name}.sock"


def _trust(directory: Path) -> None:
    """Refuses a directory in which others than this user and root decide what lies there (docs/security.md)."""
    found = directory.lstat()
    is_own = directory == Path("/run/weir") or found.st_uid in (os.geteuid(), 0)
    if not stat.S_ISDIR(found.st_mode) or not is_own or found.st_mode & 0o022:
        raise WeirError(f"{directory}: others could have put a socket there; remove it, or give `socket`")


def _tls(address: str, given: dict[str, str | os.PathLike[str] | None]) -> ssl.SSLContext:
    """The files that prove who asks, as `weir --connect` takes them."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "weir")
    file = home / "client.toml"
    kept = tomllib.loads(file.read_text()) if file.exists() else {}
    files = {name: home / kept[name] for name in given if name in kept}
    files |= {name: Path(path) for name, path in given.items() if path}
    if lacking := given.keys() - files.keys():
        raise WeirError(f"{address} needs {', '.join(sorted(lacking))} (docs/security.md)")
    context = ssl.create_default_context(cafile=files["ca"])
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(files["certificate"], files["key"])
    return context
