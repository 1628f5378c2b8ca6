"""JSON documents as dataclasses.

A field stands for the key of its name. Whole numbers may be strings of their digits, as doubles cannot
hold large ones. Keys that a type does not have, as those of a newer weir, are skipped, and logged.
"""

import logging
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from .errors import UnknownDocument

T = TypeVar("T")

log = logging.getLogger("weir")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def document(kind: type[T]) -> type[T]:
    """A document, or an object in one."""
    return dataclass(kind, kw_only=True, frozen=True)


def flat() -> Any:
    """A field whose own fields are keys of the object around it. One that may be None is None where
    the object lacks them."""
    return field(metadata={"flat": True})


def rest() -> Any:
    """A field that has the keys that no other field has."""
    return field(metadata={"rest": True})


def decode(kind: type[T], value: Any) -> T:
    """The value of a document as a `kind`.

    Raises UnknownDocument if it is none.
    """
    try:
        return _decode(kind, value)  # type: ignore[no-any-return]
    except (AttributeError, TypeError, ValueError) as error:
        raise UnknownDocument(f"no {getattr(kind, '__name__', kind)}: {error}") from error


def keys(kind: type) -> Iterator[str]:
    """The keys of an object that is decoded as a `kind`."""
    for each, hint in typed_fields(kind):
        if "flat" in each.metadata:
            yield from keys(present(hint))
        elif "rest" not in each.metadata:
            yield each.name


def _decode(kind: Any, value: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else _decode(present(kind), value)
    if origin is list:
        return [_decode(args[0], item) for item in value]
    if origin is dict:
        return {key: _decode(args[1], item) for key, item in value.items()}
    if is_dataclass(kind):
        return _object(kind, value, _unknown(kind, value))
    return int(value) if kind is int else value


def _unknown(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    known = set(keys(kind))
    unknown = {key: item for key, item in value.items() if key not in known}
    if unknown and not _has_rest(kind):
        log.info("%s: unknown keys %s", kind.__name__, ", ".join(unknown))
    return unknown


def _object(kind: Any, value: dict[str, Any], unknown: dict[str, Any]) -> Any:
    found: dict[str, Any] = {}
    for each, hint in typed_fields(kind):
        if "rest" in each.metadata:
            found[each.name] = unknown
        elif "flat" in each.metadata:
            is_there = NoneType not in get_args(hint) or _needed(present(hint)) <= value.keys()
            found[each.name] = _object(present(hint), value, unknown) if is_there else None
        elif each.name in value:
            found[each.name] = _decode(hint, value[each.name])
    return kind(**found)


@cache
def typed_fields(kind: Any) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return [(each, hints[each.name]) for each in fields(kind)]


def _has_rest(kind: Any) -> bool:
    return any(
        "rest" in each.metadata or "flat" in each.metadata and _has_rest(present(hint))
        for each, hint in typed_fields(kind)
    )


def _needed(kind: Any) -> set[str]:
    """The keys without which an object is no `kind`."""
    return {each.name for each, _ in typed_fields(kind) if each.default is MISSING and not each.metadata}


def present(kind: Any) -> Any:
    """The type of a value that is not None."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return next(arg for arg in get_args(kind) if arg is not NoneType)
