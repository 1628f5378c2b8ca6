"""What can go wrong. Every error of this package is a `WeirError`."""

from typing import Any


class WeirError(Exception):
    """An error of weir, or of the connection to it."""


class NoSwitch(WeirError):
    """No switch or controller answers at this address."""


class Refused(WeirError):
    """A switch or controller refuses a request, with the reason in its own words."""

    def __init__(self, error: str, status: int) -> None:
        super().__init__(error)
        self.status = status


class UnknownDocument(WeirError):
    """A document lacks a key, as that of another version of weir may."""


class NoBinary(WeirError):
    """A binary of weir is not found."""


class Failed(WeirError):
    """A command failed. The text is what it printed to stderr."""

    def __init__(self, error: str, code: int) -> None:
        super().__init__(error)
        self.code = code


class WrongUsage(Failed):
    """A command does not take its options or its configuration."""


class Missed(Failed):
    """A threshold that was asked for was missed. `report` is what was measured."""

    def __init__(self, error: str, code: int, report: Any) -> None:
        super().__init__(error, code)
        self.report = report


class IncompleteWarning(UserWarning):
    """A frame is made of an answer that is not complete."""
