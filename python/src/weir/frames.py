"""Answers and reports as tables: rows, and frames of pandas and polars."""

import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

from .decode import present, typed_fields
from .errors import IncompleteWarning

if TYPE_CHECKING:
    import pandas
    import polars

    from .claims import Claim

CLAIM = ("first_epoch", "last_epoch", "complete", "final")
"""The columns that say what a row rests on, as in weir's CSV."""


class Table:
    """A document with rows: `table` names the list that they are in, and behind a point a list in each of
    its items (`latencies.hops`). Methods take another list by its name."""

    table: ClassVar[str] = ""

    def claim_of(self, table: str) -> "Claim | None":
        """What is claimed of a list; None of what is no answer."""
        return None

    def rows(self, table: str | None = None) -> list[dict[str, Any]]:
        """The rows, the claim's columns behind their own. Objects in a row are taken apart
        (`packets_estimate`); lists of objects are left out."""
        table = table or self.table
        claim = self.claim_of(table)
        claimed = {name: getattr(claim, name) for name in CLAIM} if claim else {}
        return [row | claimed for row in _rows(self, table.split(".") if table else [], is_whole=not table)]

    def columns(self, table: str | None = None) -> list[str]:
        """The names of the columns that rows may have."""
        kind: Any = type(self)
        table = table or self.table
        names: dict[str, None] = {} if table else {name: None for name, _ in _cells(kind, None)}
        for part in table.split(".") if table else []:
            hint = next((present(hint) for field, hint in typed_fields(kind) if field.name == part), None)
            if hint is None:
                raise KeyError(f"{kind.__name__} has no {part}")
            kind = _item(hint) or hint
            names |= {name: None for name, _ in _cells(kind, None)} if kind is not hint else {}
        return [*names, *(CLAIM if self.claim_of(table) else ())]

    def pandas(self, table: str | None = None) -> "pandas.DataFrame":
        """The rows as a frame, with the claim in its `attrs`. Warns where the answer is not complete."""
        import pandas

        rows = self._checked(table)
        frame = pandas.DataFrame(rows, columns=None if rows else self.columns(table))
        frame.attrs["claim"] = self.claim_of(table or self.table)
        return frame

    def polars(self, table: str | None = None) -> "polars.DataFrame":
        """The rows as a frame. Warns where the answer is not complete."""
        import polars

        rows = self._checked(table)
        return polars.DataFrame(rows, schema=None if rows else self.columns(table), infer_schema_length=None)

    def _checked(self, table: str | None) -> list[dict[str, Any]]:
        claim = self.claim_of(table or self.table)
        if claim and not claim.complete:
            warnings.warn(f"{type(self).__name__}: {claim}", IncompleteWarning, stacklevel=3)
        return self.rows(table)


def _rows(item: Any, path: list[str], is_whole: bool = True) -> Iterator[dict[str, Any]]:
    """The rows that a path leads to, each behind the columns of the objects on the way."""
    own = dict(_cells(type(item), item)) if is_whole else {}
    if not path:
        yield own
        return
    found = getattr(item, path[0])
    if is_dataclass(found):
        yield from _rows(found, path[1:], is_whole=False)
    elif isinstance(found, dict):
        name = path[0].removesuffix("s")
        yield from (own | {name: key} | row for key, below in found.items() for row in _rows(below, path[1:]))
    else:
        yield from (own | row for below in found or [] for row in _rows(below, path[1:]))


def _cells(kind: Any, item: Any) -> Iterator[tuple[str, Any]]:
    """The columns of an object and their values; without one, the columns that it may have."""
    for field, hint in typed_fields(kind):
        value, some = getattr(item, field.name, None), present(hint)
        is_absent = item is not None and value is None and (field.default is None or "flat" in field.metadata)
        if field.name == "claim" or is_absent or is_dataclass(_item(some)):
            continue
        prefix = "" if field.name == "flow" or field.metadata else f"{field.name}_"
        if is_dataclass(some):
            yield from ((prefix + name, cell) for name, cell in _cells(some, value))
        elif get_origin(some) is dict:
            yield from ((prefix + name, cell) for name, cell in (value or {}).items())
        else:
            yield field.name, value


def _item(kind: Any) -> Any:
    """The type of what is in a list or a dictionary."""
    return get_args(kind)[-1] if get_origin(kind) in (list, dict) else None
