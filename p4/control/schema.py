"""A stand-in for BfRt that holds what is written to the compiler's description of the program: names, widths, kinds of
match, room in tables. With it the control script is tried without a switch."""

import collections
import json

KeyTuple = collections.namedtuple("KeyTuple", "name value mask low high prefix_len", defaults=[None] * 5)
DataTuple = collections.namedtuple("DataTuple", "name value")


class Table:
    def __init__(self, description):
        self.description, self.info, self.entries = description, self, {}
        self.keys = {key["name"]: key for key in description["key"]}
        self.actions = {action["name"]: action["data"] for action in description.get("action_specs", [])}

    def key_field_name_list_get(self):
        return list(self.keys)

    def data_field_name_list_get(self, action=None):
        if action is None:
            return [of["singleton"]["name"] for of in self.description["data"] if "singleton" in of]
        return [field["name"] for field in self.actions[action]]

    def make_key(self, fields):
        given = {field.name: field for field in fields}
        if set(given) != set(self.keys):
            raise ValueError(f"{self.description['name']}: key {sorted(given)} for {sorted(self.keys)}")
        for name, field in given.items():
            key = self.keys[name]
            kind = "Ternary" if field.mask is not None else "Range" if field.low is not None else "Exact"
            if name != "$MATCH_PRIORITY" and kind != key["match_type"]:
                raise ValueError(f"{self.description['name']}: {name} is {key['match_type']}, not {kind}")
            width = key["type"].get("width", 32)
            if any(value is not None and value >> width for value in field[1:5]):
                raise ValueError(f"{self.description['name']}: {name} has {width} bits: {field}")
        return tuple(sorted(given.items()))

    def make_data(self, fields, action=None):
        if action is not None:
            widths = {of["name"]: of["type"]["width"] for of in self.actions[action]}
            if wrong := [field for field in fields if field.value >> widths[field.name]]:
                raise ValueError(f"{self.description['name']}: {action}: {wrong}")
        return fields

    def entry_add(self, _target, keys, data):
        for key, fields in zip(keys, data, strict=True):
            if key in self.entries:
                raise ValueError(f"{self.description['name']}: twice: {key}")
            self.entries[key] = fields
        if len(self.entries) > self.description["size"]:
            raise ValueError(f"{self.description['name']}: more than {self.description['size']} entries")

    def default_entry_set(self, _target, _data):
        pass


class Info:
    def __init__(self, file):
        self.tables = {table["name"]: Table(table) for table in json.loads(file.read_text())["tables"]}

    def table_get(self, name):
        return self.tables[name]
