"""What `weir sim` reports, as docs/json.md has it.

Types and fields have the names that they have in weir's sources (src/sim), and a test compares them.
"""

from typing import Any, Literal

from .answers import Frequency
from .decode import document, flat, rest
from .frames import Table


@document
class Score:
    """The heaviest flows beside the exact ones."""

    truth: Literal["parsed", "sent"]
    k: int
    flows: int
    precision: float
    recall: float
    false_negatives: float
    false_positives: float
    average_relative_error: float


@document
class LostAt:
    """Packets that were lost in one place: at a switch, or on its link towards another."""

    reason: Literal["link", "busy", "switch", "astray"]
    switch: str
    towards: str | None = None
    flows: int
    packets: int


@document
class Measured:
    """What a program measured with. `parameters` are the program's, with units in their names."""

    state: str
    parameters: dict[str, Any] = rest()
    decided: str


@document
class LossScore:
    """Losses beside the true ones."""

    complete: bool
    true_flows: int
    true_packets: int
    right_flows: int
    exact_flows: int
    wrong_flows: int
    called_exact_flows: int
    miscalled_flows: int
    packets: int
    gained_packets: int


@document
class LossReport:
    losses: LossScore | None
    incomplete: list[str]


@document
class PlaceScore:
    true_places: int
    found_places: int
    exact_places: int
    failed_places: int
    true_packets: int
    packets: int
    right_packets: int
    named_packets: int
    incomplete: list[str]


@document
class PathCounts:
    flows: int
    decided_flows: int
    sure_flows: int
    right_flows: int
    wrong_flows: int
    sure_wrong_flows: int
    contradicted_flows: int


@document
class LatencyCounts:
    query: str
    flows: int
    samples: int
    slowest_p99_ns: int | None
    slowest_switch: str | None


@document
class LoopCounts:
    flows: int
    packets: int


@document
class UtilisationCounts:
    query: str
    flows: int
    packets: int
    max_utilisation: float | None


@document
class ValueCounts:
    query: str
    value: str
    aggregation: str
    flow_definition: str | None
    unit: str
    flows: int
    samples: int
    largest_p99: float | None
    largest_switch: str | None


@document
class HeavyScore:
    threshold_packets: int | None = None
    threshold_bytes: int | None = None
    true_flows: int
    flows: int
    right_flows: int
    f1: float
    average_relative_error: float
    incomplete: list[str]


@document
class ProgramReport:
    """A program's answers beside the truth. What it does not answer is None."""

    measured: Measured | None = flat()
    losses: LossReport | None = flat()
    places: PlaceScore | None = None
    paths: PathCounts | None = None
    latency: LatencyCounts | None = None
    loops: LoopCounts | None = None
    utilisation: UtilisationCounts | None = None
    values: list[ValueCounts] | None = None
    heavy: HeavyScore | None = None
    score: Score | None = None
    frequencies: list[Frequency] | None = None
    flows: float | None
    true_flows: int
    entropy_bits: float | None
    true_entropy_bits: float
    distribution_wmre: float | None
    gaps: list[str]


@document
class EpochReport:
    """An epoch of a simulation: the truth, and each program's answers beside it."""

    epoch: int
    start_ns: int
    end_ns: int
    flows: int
    sent_packets: int
    delivered_packets: int
    lost_packets: int
    doubled_packets: int
    victim_flows: int
    losses: list[LostAt]
    programs: dict[str, ProgramReport]


@document
class TopologyDocument:
    name: str
    switches: int
    edge_switches: int
    links: int
    hosts: int
    diameter_links: int


@document
class TransportSizes:
    from_bytes: int
    to_bytes: int
    flows: int
    slowdown_p50: float
    slowdown_p95: float
    slowdown_p99: float
    goodput_bits_per_second: float


@document
class TransportReport:
    transport: str
    rtt_ns: int
    link_bits_per_second: int
    flows: int
    finished_flows: int
    sent_packets: int
    retransmitted_packets: int
    timeouts: int
    longest_queue_bytes: int
    sizes: list[TransportSizes]


@document
class Audit:
    """With faults: whether answers that are called complete are right."""

    epochs: int
    complete_epochs: int
    wrong_epochs: list[int]
    incomplete: dict[str, int]
    gaps: dict[str, int]
    exact_flows: int
    miscalled_flows: int


@document
class Simulation(Table):
    """The report of a simulated network. Rows are of its epochs and programs."""

    table = "epochs.programs"
    topology: TopologyDocument
    workload: str
    losses: list[str]
    faults: list[str]
    switch_settings: list[str]
    telemetry_header: Literal["shim", "dscp"]
    epoch_ns: int
    transit_ns: int
    seconds: float
    sent_packets: int
    delivered_packets: int
    lost_packets: int
    doubled_packets: int
    switched_packets: int
    switched_packets_per_second: float
    shims_at_hosts: int
    epochs: list[EpochReport]
    transport: TransportReport | None = None
    audit: Audit | None = None
