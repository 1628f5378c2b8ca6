"""Register arrays of programs as NumPy arrays (docs/registers.md)."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True, kw_only=True, repr=False)
class Bank:
    """The registers of a program on one core, at the end of an epoch. `bank["ipv4-0"]` is array 0 of those
    that are called ipv4. An array with several fields has the columns f0, f1, …; a field of more than 64
    bits is bytes, the lowest first."""

    program: str
    first_epoch: int
    last_epoch: int
    core: int
    part: int
    layout: dict[str, Any]
    arrays: "dict[str, numpy.ndarray[Any, Any]]"

    def __getitem__(self, name: str) -> "numpy.ndarray[Any, Any]":
        return self.arrays[name]

    def __repr__(self) -> str:
        return f"<{self.program}, epoch {self.last_epoch}, core {self.core}: {', '.join(self.arrays)}>"


Registers = list[Bank]


def read_registers(directory: str | os.PathLike[str]) -> Registers:
    """The files of `weir registers dump --raw DIR` and of `weir replay --registers DIR`."""
    root = Path(directory)
    programs = json.loads((root / "layout.json").read_text())["programs"]
    return sorted(
        (
            _read(name, layout, bank)
            for name, layout in programs.items()
            for bank in root.glob(f"{name}/epoch-*/core-*")
        ),
        key=lambda bank: (bank.program, bank.first_epoch, bank.core, bank.part),
    )


def _read(program: str, layout: dict[str, Any], bank: Path) -> Bank:
    epochs = [int(number) for number in bank.parent.name.split("-")[1:]]
    core, part = (bank.name.split("-")[1::2] + ["0"])[:2]
    arrays = {_name(array): _cells((bank / array["file"]).read_bytes(), array) for array in layout["arrays"]}
    return Bank(
        program=program,
        first_epoch=epochs[0],
        last_epoch=epochs[-1],
        core=int(core),
        part=int(part),
        layout=layout,
        arrays=arrays,
    )


def dumped(document: dict[str, Any]) -> Registers:
    """The answer of `POST /v1/registers`, and of `weir registers dump --json`."""
    return [_dumped(program, bank) for program in document["programs"] for bank in program["banks"]]


def _dumped(program: dict[str, Any], bank: dict[str, Any]) -> Bank:
    layout = program["layout"]
    arrays = {
        _name(array): _cells(b"".join(_bytes(found["values"], array["field_bits"])), array)
        for array, found in zip(layout["arrays"], bank["arrays"], strict=True)
    }
    numbers = {key: bank[key] for key in ("first_epoch", "last_epoch", "core", "part")}
    return Bank(program=program["program"], layout=layout, arrays=arrays, **numbers)


def _name(array: dict[str, Any]) -> str:
    return f"{array['name']}-{array['index']}"


def _width(bits: int) -> int:
    """Bytes of a field in a file."""
    return (bits + 7) // 8


def _bytes(values: Iterable[Any], field_bits: list[int]) -> Iterator[bytes]:
    """The cells of a document as a file has them. A number may be a string of decimal digits, or of
    hexadecimal ones behind 0x."""
    for cell in values:
        for value, bits in zip(cell if len(field_bits) > 1 else [cell], field_bits, strict=True):
            yield int(str(value), 0).to_bytes(_width(bits), "little")


def _cells(data: bytes, array: dict[str, Any]) -> "numpy.ndarray[Any, Any]":
    import numpy

    widths = [_width(bits) for bits in array["field_bits"]]
    names = [f"f{place}" for place in range(len(widths))]
    raw = numpy.frombuffer(data, dtype=[(name, f"V{width}") for name, width in zip(names, widths, strict=True)])
    if len(widths) == 1:
        return _field(raw["f0"], widths[0])
    fields = {name: _field(raw[name], width) for name, width in zip(names, widths, strict=True)}
    cells = numpy.empty(len(raw), dtype=[(name, field.dtype) for name, field in fields.items()])
    for name, field in fields.items():
        cells[name] = field
    return cells


def _field(raw: "numpy.ndarray[Any, Any]", width: int) -> "numpy.ndarray[Any, Any]":
    """A field as numbers of the smallest type that holds it; a wider one as its bytes."""
    import numpy

    size = next((size for size in (1, 2, 4, 8) if size >= width), None)
    if size is None:
        return raw
    padded = numpy.zeros((len(raw), size), dtype="u1")
    padded[:, :width] = numpy.ascontiguousarray(raw).view("u1").reshape(len(raw), width)
    return padded.view(f"<u{size}").reshape(len(raw))
