"""What a switch and a controller say of themselves, as docs/json.md has it.

Types and fields have the names that they have in weir's sources (src/api/view, src/network/documents.rs,
src/tables/documents.rs), and a test compares them.
"""

from typing import Any, Literal

from .answers import EpochAttention, Flow, Frequency
from .claims import Time
from .decode import document


@document
class Packets:
    rx_packets: int
    copied_packets: int
    tx_packets: int
    dropped_packets: int


@document
class Lacking:
    """Packets whose flow lacks something."""

    no_ip_header_packets: int
    no_ports_packets: int
    later_fragment_packets: int
    portless_packets: int


@document
class Tunnelled:
    """Packets of tunnels, where the flows inside are measured."""

    read_packets: int
    cut_packets: int
    fragment_packets: int
    too_deep_packets: int
    other_packets: int


@document
class Measurement:
    unmeasured_packets: int
    too_many_tags_packets: int
    lacking: Lacking
    tunnels: Tunnelled
    late_epochs: int
    late_sub_epochs: int
    lost_epochs: int
    lost_learn_digests: int
    refused_macs: int
    moved_macs: int
    refused_neighbours: int
    suppressed_messages: int
    forgotten_epochs: int


@document
class Counts:
    """What a port counts; `drops` and `device` are packets by reason."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    copied_packets: int
    without_shim_packets: int
    remarked_packets: int
    drops: dict[str, int]
    device: dict[str, int]


@document
class Port(Counts):
    name: str
    dev: str
    role: Literal["host", "fabric"]
    enabled: bool
    link_up: bool
    mac: str
    mtu_bytes: int
    fault: str | None = None
    fault_effects: dict[str, int] | None = None


@document
class Removed(Counts):
    removed_ports: int


@document
class Ports:
    """All packets of a switch: rx + copied = tx + dropped, after a drain."""

    packets: Packets
    measurement: Measurement
    ports: list[Port]
    removed: Removed


@document
class SinceReset(Ports):
    since_reset_seconds: float
    reset: bool
    total_packets: Packets


@document
class WorkerProgram:
    program: str
    packets: int
    cycles: int


@document
class Worker:
    core: int
    polls: int
    busy_polls: int
    packets: int
    busy_cycles: int
    idle_cycles: int
    late_epochs: int
    lost_epochs: int
    programs: list[WorkerProgram]


@document
class Status(Ports):
    name: str
    version: str
    pid: int
    start_time_seconds: float
    uptime_seconds: float
    workers: list[Worker]


@document
class Api:
    socket_connections: int
    tls_connections: int
    failed_handshakes: int
    refused_connections: int


@document
class Exported:
    collector: str
    messages: int
    flow_records: int
    unsent_messages: int
    unsent_flow_records: int
    unnamed_flows: int
    long_records: int
    missed_epochs: int
    incomplete_answers: int
    last_error: str | None


@document
class Otlp:
    collector: str
    metric_requests: int
    data_points: int
    rejected_data_points: int
    log_requests: int
    log_records: int
    rejected_log_records: int
    failed_requests: int
    queued_log_records: int
    dropped_log_records: int
    last_error: str | None


@document
class Frequencies:
    frequencies: list[Frequency]


@document
class MacEntry:
    mac: str
    vlan: int
    port: str
    age_seconds: int
    static: bool
    moves: int


@document
class MacTable:
    macs: list[MacEntry]


@document
class Table:
    name: str
    entries: int
    capacity_entries: int | None
    key: list[str]
    sram_bits: int | None
    tcam_bits: int | None


@document
class Tables:
    tables: list[Table]


@document
class TableRows(Table):
    rows: list[Any]
    default: Any = None


@document
class TableChanged(Table):
    changed: int


@document
class Reloaded:
    changes: list[str]


@document
class LinkedProgram:
    program: str
    refused: str | None = None
    attention: EpochAttention | None = None


@document
class ControllerLink:
    """How a switch stands with its controller."""

    at: str
    connected: bool
    why: str | None = None
    connections: int
    sent_records: int
    unsent_records: int
    foreign_records: int
    updates: int
    programs: list[LinkedProgram]


@document
class NetworkSwitch:
    name: str
    connected: bool
    connected_seconds: float | None = None
    software: str
    programs: list[str]
    connections: int
    records: int
    unsent_records: int
    refused_records: int
    last_refusal: str | None = None


@document
class NetworkSwitches:
    """The switches of a controller."""

    epoch_ns: int
    transit_ns: int
    passed_over_epochs: int
    late_packets: int
    switches: list[NetworkSwitch]


@document
class EvictedSwitch:
    name: str


@document
class ChangedParameters:
    program: str
    from_epoch: int
    from_ns: int
    start: Time | None


@document
class PacketHeaders:
    src_mac: str
    dst_mac: str
    ethertype: int
    vlans: list[int]
    shim: bool
    net: Literal["ipv4", "ipv6"] | None
    src: str | None = None
    dst: str | None = None
    proto: int | None = None
    tos: int | None = None
    ttl: int | None = None
    fragment: Literal["whole", "first", "later"] | None = None
    sport: int | None = None
    dport: int | None = None


@document
class CellTrace:
    slot: int
    before: str
    after: str
    output: str


@document
class AccessTrace:
    array: str
    logical: int | None
    hash_bits: int
    cell: CellTrace | None
    computed: str | None = None


@document
class ProgramTrace:
    program: str
    flow_estimate: int
    at_least: bool = False
    stages: list[list[AccessTrace]]
    egress_stages: list[list[AccessTrace]] | None = None
    draw: int | None = None
    egress_draw: int | None = None


@document
class Lookup:
    table: str
    key: str
    entry: str | None
    port: str | None
    action: str


@document
class PacketDrop:
    reason: str
    packets: int


@document
class Output:
    port: str
    frame: str
    rewritten: bool


@document
class Packet:
    """One packet's way through the switch."""

    at_ns: int
    port: str
    wire_bytes: int
    frame: str
    headers: PacketHeaders | None
    inner: Flow | None = None
    programs: list[ProgramTrace]
    lookups: list[Lookup]
    verdict: Literal["port", "flood", "drop"] | None
    egress: str | None = None
    drops: list[PacketDrop]
    outputs: list[Output]
