"""What an answer claims of itself, as docs/json.md has it."""

from typing import ClassVar

from .decode import document, flat
from .frames import Table

Time = str
"""RFC 3339, in UTC and to the nanosecond: `pandas.to_datetime` and `datetime.fromisoformat` read it."""


@document
class Epoch:
    """An epoch, and when it starts and ends; None where time is simulated or the length is not known."""

    epoch: int
    start: Time | None
    end: Time | None


@document
class Gap(Epoch):
    """Something that is missing of a switch, in words."""

    switch: str
    gap: str


@document
class Claim:
    """What an answer rests on: its epochs, what is missing from them, whether it is complete and final."""

    first_epoch: int | None
    last_epoch: int | None
    start: Time | None
    end: Time | None
    epoch_ns: int
    seconds: float
    missing_epochs: int
    age_seconds: float | None
    outdated: bool
    final: bool
    amendments: int
    sequence: int
    lost_after_ns: int | None
    gaps: list[Gap]
    switches: list[str]
    complete: bool
    incomplete: list[str]

    def __str__(self) -> str:
        epochs = f"epochs {self.first_epoch} to {self.last_epoch}" if self.last_epoch is not None else "no epoch"
        reasons = [reason for reason in self.incomplete if not self.gaps or reason != "gap"]
        reasons += [f"{gap.switch}: {gap.gap}" for gap in self.gaps]
        return epochs + (", complete" if self.complete else f", not complete: {', '.join(reasons)}")


@document
class Answer(Table):
    """The answer to a task. `task` is the word that asks for it."""

    task: ClassVar[str]
    claim: Claim = flat()

    def claim_of(self, table: str) -> Claim:
        return self.claim
