"""What `weir replay`, `weir budget` and `pktgen` report, as docs/json.md has it.

Types and fields have the names that they have in weir's sources, and a test compares them.
"""

from typing import Any, Literal

from .answers import (
    CountedFlow,
    Flow,
    FlowLatency,
    FlowLoop,
    FlowPath,
    FlowUtilisation,
    Frequency,
    HeavyFlow,
    SizeClass,
    Value,
)
from .claims import Claim, Time
from .decode import document, flat
from .documents import Lacking, Packets, Port, Tunnelled
from .frames import Table
from .simulated import Score


@document
class Memory:
    """What a pipeline takes in memory."""

    register_bytes: int
    banks_per_core: int
    bytes_per_core: int


@document
class Configuration:
    epoch_ns: int | None
    order: str
    key: str
    programs: list[dict[str, Any]]


@document
class Said:
    """What captures say about themselves."""

    received_packets: int | None
    missed_packets: int | None
    filters: list[str]
    fcs_packets: int
    damaged_packets: int
    untimed_packets: int
    mistimed_packets: int
    backward_jumps: int


@document
class FlowsMeasured:
    """Of a program that measures losses and the sizes of flows."""

    flows: float | None
    true_flows: int | None = None
    entropy_bits: float | None
    true_entropy_bits: float | None = None
    distribution: list[SizeClass]
    distribution_wmre: float | None = None
    heavy_candidates: int
    heavy_complete: bool
    heavy_min_packets: int
    losses: list[CountedFlow]
    gains: list[CountedFlow]
    lost_packets: int
    gained_packets: int
    losses_complete: bool
    losses_incomplete: list[str]


@document
class ProgramAnswers(Table):
    """A program's answers about a capture, and what is claimed of each by its task. Rows are of the heavy
    flows, or of another list (`flows.losses`, `paths`, `latencies.hops`)."""

    table = "heavy"
    unit: Literal["packets", "bytes"]
    claims: dict[str, Claim]
    heavy: list[HeavyFlow]
    unnamed_digests: int = 0
    ambiguous_digests: int = 0
    score: Score | None = None
    frequencies: list[Frequency] | None = None
    flows: FlowsMeasured | None = flat()
    paths: list[FlowPath] | None = None
    latencies: list[FlowLatency] | None = None
    latency_query: str | None = None
    latency_largest_ns: int | None = None
    loops: list[FlowLoop] | None = None
    utilisations: list[FlowUtilisation] | None = None
    utilisation_query: str | None = None
    utilisation_largest: float | None = None
    values: list[Value] | None = None

    def claim_of(self, table: str) -> Claim | None:
        answer = table.removeprefix("flows.").split(".")[0]
        return self.claims.get(TASKS.get(answer, answer))


TASKS = {"gains": "losses", "distribution": "flows", "latencies": "latency", "utilisations": "utilisation"}
"""The tasks whose answers have these lists."""


@document
class Replay:
    """The report of captures that were replayed."""

    version: str
    seed: int | None
    configuration: Configuration
    memory: Memory
    packets: int
    bytes: int
    seconds: float
    captured_seconds: float
    start: Time | None
    end: Time | None
    drops: Packets
    unmeasured_packets: int
    cut_packets: int
    reframed_packets: int
    outbound_packets: int | None = None
    ports: list[Port] | None = None
    lacking: Lacking
    tunnels: Tunnelled
    captures: Said
    interrupted: bool
    error: str | None = None
    programs: dict[str, ProgramAnswers]


# ---- weir budget


@document
class Budget:
    """What a pipeline takes of a hardware target."""

    target: dict[str, Any]
    stages_used: int
    salus_used: int
    salus_share: float
    hash_units_used: int
    hash_units_share: float
    sram_bits_used: int
    sram_share: float
    tcam_blocks_used: int
    tcam_share: float
    memory: Memory
    stages: list[dict[str, Any]]
    reports: list[dict[str, Any]] | None = None
    no_chip: list[dict[str, Any]] | None = None
    would_fit: list[dict[str, Any]] | None = None


# ---- pktgen run


@document
class LatencyQuantiles:
    packets: int
    min_ns: int
    mean_ns: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    p9999_ns: int
    max_ns: int


@document
class Sent:
    packets: int
    bytes: int
    malformed_packets: int
    largest_burst_packets: int
    unsent_packets: int
    packets_per_second: float
    l1_bits_per_second: float
    l2_bits_per_second: float
    asked_packets_per_second: float | None
    rate_error: float | None
    rate_held: bool | None
    limited_by: Literal["device", "generator"] | None
    lateness: LatencyQuantiles | None
    starved_rounds: int


@document
class LostFrames:
    lost_packets: int
    lost_share: float
    lossy_flows: int


@document
class Received:
    packets: int
    bytes: int
    losses: LostFrames | None = flat()
    reordered_packets: int
    duplicate_packets: int
    uncertain_packets: int
    foreign_packets: int
    late_packets: int | None = None
    unplaced_packets: int | None = None


@document
class Counters:
    rx_packets: int
    tx_packets: int
    lost: dict[str, int]
    fault_effects: dict[str, int]


@document
class Recorded:
    """How frames differ from the capture, and what that says about itself."""

    cut_packets: int
    time_jumps: int
    received_packets: int | None
    missed_packets: int | None
    filters: list[str]
    fcs_packets: int
    damaged_packets: int
    untimed_packets: int


@document
class ScoreSummary:
    """A switch's answers beside what was sent."""

    heavy_epochs: int
    mean_recall: float | None
    mean_relative_error: float | None
    loss_epochs: int
    exact_loss_epochs: int
    true_lost_packets: int
    lost_packets: int
    unanswered_epochs: int
    unscored_epochs: int


@document
class Generated:
    """The report of generated traffic."""

    traffic: str
    seconds: float
    sent: Sent
    received: Received | None = None
    latency: LatencyQuantiles | None = None
    own: LatencyQuantiles | None = None
    ports: dict[str, Counters]
    switch_drops: dict[str, int] | None = None
    capture: Recorded | None = None
    score: ScoreSummary | None = None
    unknown_epochs: int | None = None


# ---- pktgen conversations


@document
class Extracted:
    """What was taken of a capture, and what was left out."""

    conversations: int
    turns: int
    payload_bytes: int
    missing_bytes: int
    unstarted_conversations: int
    unanswered_conversations: int
    omitted_conversations: int
    omitted_bytes: int
    stray_packets: int
    unreadable_packets: int
    other_packets: int
    received_packets: int | None
    missed_packets: int | None
    filters: list[str]
    fcs_packets: int
    damaged_packets: int
    untimed_packets: int


@document
class Held:
    """Conversations, by how they ended."""

    started: int
    established: int
    finished: int
    given_up: int
    open: int
    not_started: int
    started_per_second: float
    asked_per_second: float | None


@document
class Times:
    min_ns: int
    mean_ns: float
    p50_ns: int
    p99_ns: int
    max_ns: int


@document
class End:
    """What one end sent and received, over all conversations."""

    sent_packets: int
    sent_bytes: int
    retransmitted_packets: int
    received_packets: int
    repeated_packets: int
    received_payload_bytes: int


@document
class Unexpected:
    """Frames that came in and were ignored, and those that did not go out."""

    late_packets: int
    refused_packets: int
    damaged_packets: int
    foreign_packets: int
    unsent_packets: int


@document
class Conversations:
    """The report of conversations."""

    capture: Extracted
    seconds: float
    conversations: Held
    establish: Times | None
    finish: Times | None
    client: End
    server: End
    unexpected: Unexpected
    ports: dict[str, Counters]


@document
class FlowTruth:
    """The exact packets of a flow in an epoch."""

    epoch: int
    start: Time | None
    end: Time | None
    flow: Flow
    sent_packets: int
    sent_bytes: int
    received_packets: int
    late_packets: int
