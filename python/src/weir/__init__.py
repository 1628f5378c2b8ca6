"""weir from Python: its answers as typed objects and frames, its commands, its registers.

    import weir

    switch = weir.Switch()
    losses = switch.losses(seconds=60)
    print(losses.claim.complete, losses.pandas())

docs/python.md shows more.
"""

from .answers import (
    Attention,
    Flow,
    FlowSizes,
    Frequency,
    HeavyChanges,
    HeavyFlows,
    Latency,
    Loops,
    Losses,
    Numbers,
    Paths,
    Places,
    Utilisation,
    Values,
)
from .claims import Answer, Claim
from .client import Controller, Query, Switch
from .commands import budget, conversations, pktgen, replay, sim, sim_epochs, truth, workload
from .errors import (
    Failed,
    IncompleteWarning,
    Missed,
    NoBinary,
    NoSwitch,
    Refused,
    UnknownDocument,
    WeirError,
    WrongUsage,
)
from .registers import Bank, Registers, read_registers
from .running import controller, run

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Attention",
    "Bank",
    "Claim",
    "Controller",
    "Failed",
    "Flow",
    "FlowSizes",
    "Frequency",
    "HeavyChanges",
    "HeavyFlows",
    "IncompleteWarning",
    "Latency",
    "Loops",
    "Losses",
    "Missed",
    "NoBinary",
    "NoSwitch",
    "Numbers",
    "Paths",
    "Places",
    "Query",
    "Refused",
    "Registers",
    "Switch",
    "UnknownDocument",
    "Utilisation",
    "Values",
    "WeirError",
    "WrongUsage",
    "budget",
    "controller",
    "conversations",
    "pktgen",
    "read_registers",
    "replay",
    "run",
    "sim",
    "sim_epochs",
    "truth",
    "workload",
]
