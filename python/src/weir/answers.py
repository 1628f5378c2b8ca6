"""Answers of a switch or controller, as docs/json.md has them.

Types and fields have the names that they have in weir's sources (src/answers), and a test compares them.
"""

from typing import Any, Literal

from .claims import Answer, Epoch, Time
from .decode import document, rest


@document
class Flow:
    """A flow: the fields that the program's key has. All are None where a digest stands for them."""

    src: str | None = None
    dst: str | None = None
    sport: int | None = None
    dport: int | None = None
    proto: int | None = None


@document
class Digest32:
    is_ipv6: bool
    crc: str
    is_ambiguous: bool


@document
class FlowName:
    """The name of a flow: its fields, or a digest where the program knows only that."""

    flow: Flow
    ipv6_digest: str | None = None
    digest32: Digest32 | None = None


@document
class HeavyFlow(FlowName):
    packets: int | None = None
    bytes: int | None = None
    at_least: bool = False
    true_packets: int | None = None
    true_bytes: int | None = None


@document
class HeavyFlows(Answer):
    """The heaviest flows."""

    task, table = "heavy", "heavy"
    program: str
    unit: Literal["packets", "bytes"]
    omitted_flows: int
    unnamed_digests: int = 0
    ambiguous_digests: int = 0
    heavy: list[HeavyFlow]


@document
class CountedFlow(FlowName):
    packets: int
    exact: bool


@document
class LastLoss(Epoch):
    lost_packets: int


@document
class Losses(Answer):
    """The flows that lost packets."""

    task, table = "losses", "losses"
    lost_packets: int
    late_packets: int
    gained_packets: int
    unknown_epochs: int
    victims: int
    gained_flows: int
    losses: list[CountedFlow]
    gains: list[CountedFlow]
    omitted_flows: int
    last_loss: LastLoss | None


@document
class SizeClass:
    packets: int
    flows: float


@document
class FlowSizes(Answer):
    """The number of flows, the entropy and distribution of their sizes, and those that are heavy."""

    task, table = "flows", "distribution"
    flows: float | None
    entropy_bits: float | None
    named_from_packets: int
    heavy_candidates: int
    heavy: list[HeavyFlow]
    omitted_flows: int
    distribution: list[SizeClass]


@document
class Change(FlowName):
    before_packets: int
    after_packets: int


@document
class HeavyChanges(Answer):
    """The flows whose size changed from one epoch to the next."""

    task, table = "changes", "changes"
    named_from_packets: int
    changes: list[Change]
    omitted_flows: int


@document
class Bounded:
    """A count with its bounds; `true` is the exact one, of a replay or a simulation."""

    estimate: int
    lower_bound: int
    upper_bound: int | None
    true: int | None = None


@document
class Frequency(Answer):
    """The packets, or bytes, of the flows that a pattern matches."""

    task = "frequency"
    program: str
    flow: str
    packets: Bounded | None = None
    bytes: Bounded | None = None
    confidence: float
    rests_on: dict[str, int] | None = None


@document
class SwitchNumbers:
    switch: str
    flows: float | None
    entropy_bits: float | None


@document
class EpochNumbers(Epoch):
    flows: float | None
    entropy_bits: float | None
    switches: list[SwitchNumbers]


@document
class Numbers(Answer):
    """The number of flows and the entropy of their sizes, by epoch and switch."""

    task, table = "cardinality", "epochs"
    epochs: list[EpochNumbers]


@document
class FlowPath(FlowName):
    sink: str
    checksum: int | None
    switches: list[str | None]
    certainty: Literal["undecided", "decided", "sure"]
    packets: int
    sure_packets: int | None
    sure_since_ns: int | None
    sure_until_ns: int | None
    repeated_packets: int
    least_digests: int
    contradictions: int


@document
class Paths(Answer):
    """The switches that each flow crosses."""

    task, table = "paths", "paths"
    asked: bool
    flows: int
    paths: list[FlowPath]
    omitted_flows: int
    evicted_flows: int


@document
class HopLatency:
    hop: int
    switch: str | None
    samples: int
    p50_ns: int | None
    p99_ns: int | None
    p50_low_ns: int | None
    p50_high_ns: int | None
    p99_low_ns: int | None
    p99_high_ns: int | None


@document
class FlowLatency(FlowName):
    sink: str
    checksum: int | None
    hops: list[HopLatency]


@document
class LatencyCount:
    latency_ns: int
    samples: int


@document
class SwitchLatency:
    """The times that packets reported of a switch; null of hops whose switch was not decided."""

    switch: str | None
    samples: int
    counts: list[LatencyCount]


@document
class Latency(Answer):
    """The time that each flow's packets spend in each switch: a row for each hop."""

    task, table = "latency", "latencies.hops"
    query: str | None
    flows: int
    error_ns: int
    error_factor: float
    largest_ns: int | None
    window_seconds: float | None
    latencies: list[FlowLatency]
    switch_latencies: list[SwitchLatency]
    omitted_flows: int
    evicted_flows: int


@document
class FlowLoop(FlowName):
    switch: str
    first_ns: int
    last_ns: int
    packets: int
    least_hops: int


@document
class Loops(Answer):
    """The flows whose packets came to a switch again."""

    task, table = "loops", "loops"
    asked: bool
    loops: list[FlowLoop]
    omitted_loops: int
    evicted_loops: int
    missing_reports: int


@document
class FlowUtilisation(FlowName):
    sink: str
    checksum: int | None
    path: list[str | None]
    packets: int
    median_utilisation: float
    max_utilisation: float
    median_low: float | None
    median_high: float | None


@document
class Utilisation(Answer):
    """The utilisation of the busiest link on each flow's way."""

    task, table = "utilisation", "utilisations"
    query: str | None
    flows: int
    error_factor: float
    largest: float | None
    utilisations: list[FlowUtilisation]
    omitted_flows: int
    evicted_flows: int


@document
class Frequent:
    number: float
    share: float


@document
class ValueHop:
    hop: int | None
    switch: str | None
    samples: int
    p50: float | None
    p99: float | None
    max: float | None
    p50_low: float | None
    p50_high: float | None
    p99_low: float | None
    p99_high: float | None
    mean: float | None
    mean_error: float | None
    frequent: list[Frequent]
    share_error: float | None


@document
class ValueFlow(FlowName):
    sink: str
    checksum: int | None
    path: list[str | None]
    told: list[ValueHop]


@document
class Value:
    query: str
    value: str
    aggregation: str
    flow_definition: str | None
    unit: Literal["ns", "packets", "share", "port"]
    of_hops: bool
    error: float
    error_factor: float
    largest: float | None
    window_ns: int | None
    flows: int
    told: list[ValueFlow]
    omitted_flows: int
    evicted_flows: int


@document
class Values(Answer):
    """Other values of switches that packets brought along: a row for each query, flow and hop."""

    task, table = "values", "values.told.told"
    values: list[Value]


@document
class DroppedFor:
    reason: str
    packets: int


@document
class PlaceVictim(FlowName):
    packets: int
    least_packets: int
    most_packets: int
    exact: bool
    confidence: float


@document
class PlaceName:
    """A link or a switch."""

    switch: str
    port: str | None
    to_switch: str | None
    to_port: str | None


@document
class LossPlace:
    """A link, a switch, a group of switches that did not report, or `members` that no flow tells apart."""

    kind: Literal["link", "switch", "group"]
    switch: str
    port: str | None
    to_switch: str | None
    to_port: str | None
    members: list[PlaceName]
    evidence: Literal["counted", "inferred"]
    failed: bool
    confidence: float
    lost_packets: int
    least_packets: int
    most_packets: int | None
    exact: bool
    gained_packets: int
    reasons: list[DroppedFor]
    unexplained_packets: int
    sent_packets: int
    rate: float
    rate_low: float
    rate_high: float
    since: Epoch
    until: Epoch
    victims: list[PlaceVictim]
    omitted_flows: int


@document
class UnknownPlace:
    switch: str
    port: str | None
    to_switch: str | None
    to_port: str | None
    epochs: int


@document
class PortDrops:
    switch: str
    port: str
    reason: str
    packets: int


@document
class WrongPath(FlowName):
    pass


@document
class Places(Answer):
    """The links and switches that lost packets."""

    task, table = "places", "places"
    lost_packets: int
    known_packets: int
    gained_packets: int
    compared_links: int
    compared_switches: int
    places: list[LossPlace]
    omitted_places: int
    unknown: list[UnknownPlace]
    ports: list[PortDrops]
    unlinked_ports: list[str]
    victim_packets: int | None
    unplaced_packets: int | None
    unnamed_epochs: int
    wrong_paths: list[WrongPath]


@document
class EpochAttention(Epoch):
    """What an epoch was measured with. `parameters` are the program's, with units in their names."""

    state: str
    update_epoch: int | None
    update_start: Time | None
    update: dict[str, Any] | None
    why: str
    parameters: dict[str, Any] = rest()


@document
class Attention(Answer):
    """What a program measured with, and what its controller changed."""

    task, table = "attention", "epochs"
    epochs: list[EpochAttention]
