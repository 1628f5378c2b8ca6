#!/usr/bin/env python3
"""Makes a BMv2 switch a member of the network of a `weir controller`.

    member.py --dir out/p4 --config switch.toml --controller /run/weir/controller.switches.sock

The directory has what `weir p4 -c switch.toml` wrote (control.json, member.json), and switch.json, which p4c made of it. The
switch is running, and `bmv2.py load` has set its ports. This script speaks the controller's protocol
(src/network/rpc/controller.proto). In each epoch it prepares the next one, and reads, reports and clears the one before:

    epoch N   |- transit -|  read N-1, report it, clear its copy  |  entries of N+1  | epoch N+1 …

An epoch that could not be prepared before it began is not measured and not reported, so the controller's answers have a gap.
Needs grpcio-tools of PyPI, and the Python modules of BMv2.
"""

import argparse
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

import bmv2
import records

PROTOCOL = 3
# Epochs whose table entries are asked of `weir p4` at once.
ENTRIES = 64
HERE = pathlib.Path(__file__).resolve().parent


class Left(Exception):
    """The controller does not take the switch, or no longer."""


class Link:
    """The stream to a controller, of a switch that it has taken in."""

    def __init__(self, address, hello, certificates=None):
        import grpc

        sys.path.insert(0, str(HERE.parent.parent / "src/network/rpc"))
        self.messages, services = grpc.protos_and_services("controller.proto")
        self.rpc_error = grpc.RpcError
        self.outgoing = queue.SimpleQueue()
        self.updates = queue.SimpleQueue()
        self.why = None
        self.channel = channel_to(grpc, address, certificates)
        self.send(hello=self.messages.Hello(version=PROTOCOL, **hello))
        self.incoming = services.ControllerStub(self.channel).Attach(iter(self.outgoing.get, None))
        try:
            welcome = next(self.incoming).welcome
        except self.rpc_error as error:
            self.channel.close()
            raise Left(error.details()) from None
        self.secret = welcome.secret
        self.refused = {refused.program: refused.why for refused in welcome.refused}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for message in self.incoming:
                if message.HasField("update"):
                    self.updates.put((message.update.program, message.update.from_epoch, message.update.parameters))
            self.why = "the controller hung up"
        except self.rpc_error as error:
            self.why = error.details()

    def send(self, **what):
        self.outgoing.put(self.messages.FromSwitch(**what))

    def ready(self, first_epoch):
        self.send(ready=self.messages.Ready(first_epoch=first_epoch))

    def report(self, program, epoch, record, sent_ns, late_ns):
        epochs = {"first_epoch": epoch, "last_epoch": epoch}
        self.send(record=self.messages.Record(program=program, record=record, sent_ns=sent_ns, late_ns=late_ns, **epochs))

    def check(self):
        if self.why:
            raise Left(self.why)

    def close(self):
        self.outgoing.put(None)
        self.channel.close()


def channel_to(grpc, address, certificates):
    """A Unix socket by its path, or HOST:PORT with the files of CA, certificate and key."""
    alive = [("grpc.keepalive_time_ms", 2000), ("grpc.keepalive_timeout_ms", 3000)]
    if certificates is None:
        # By itself gRPC takes the path as authority, which HTTP servers refuse.
        return grpc.insecure_channel(f"unix:{address}", [*alive, ("grpc.default_authority", "controller")])
    ca, certificate, key = (pathlib.Path(file).read_bytes() for file in certificates)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate), alive)


class Weir:
    """`weir p4`: what the tables and CRCs hold, of the network's secret and the parameters of an epoch."""

    def __init__(self, command, config, secret):
        self.command, self.config, self.secret = command, config, secret
        self.written = {}

    def control(self, epoch, parameters):
        """control.json with the entries of this epoch, which is measured with these parameters of each program."""
        # Of some epochs at once: most have the parameters of the one before.
        key = (epoch // ENTRIES, tuple(sorted(parameters.items())))
        if key not in self.written:
            self.written = {key: self.write(epoch // ENTRIES * ENTRIES, parameters)}
        control = self.written[key]
        return control | {"entries": [entry for entry in control["entries"] if entry.get("epoch", epoch) == epoch]}

    def write(self, first, parameters):
        with tempfile.TemporaryDirectory() as directory:
            secret = pathlib.Path(directory) / "secret"
            secret.touch(mode=0o600)
            secret.write_text(self.secret.hex())
            command = [self.command, "p4", "-c", self.config, "--target", "v1model", "--secret", secret, "--out", directory]
            command += ["--epochs", f"{first}..{first + ENTRIES - 1}"]
            for program, given in parameters.items():
                command += ["--parameters", f"{program}={given.hex()}"]
            ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
            if ran.returncode:
                raise bmv2.Failed(ran.stderr.strip())
            return json.loads((pathlib.Path(directory) / "control.json").read_text())


class Member:
    """The switch's side of a network, from its welcome to its end."""

    def __init__(self, switch, link, weir, member, copies=2, say=print):
        self.switch, self.link, self.weir, self.copies, self.say = switch, link, weir, copies, say
        self.length, self.transit = member["epoch_ns"], member["transit_ns"]
        self.programs = member["programs"]
        # Registers that are no arrays of a program.
        self.counters = [f"{own['name']}.{name}" for own in self.programs for name in records.ENCODERS[own["name"]].counters]
        # By program: the parameters from an epoch on, the first ones first.
        self.updates = [[(0, bytes.fromhex(own["parameters"]))] for own in self.programs]
        # By epoch that is prepared: its control data, and the entries that were added for it.
        self.prepared = {}
        # Packets that were not measured, since the member began.
        self.unprepared = 0

    def run(self):
        self.begin()
        while True:
            epoch = self.switch.now() // self.length
            if self.prepare(epoch + 1):
                break
            self.switch.wait((epoch + 1) * self.length)
        epoch += 1
        self.link.ready(epoch)
        while True:
            begin = (epoch + 1) * self.length
            # Slow steps come before the parameters are looked up: an update comes a tenth of an epoch before its
            # own begins, or earlier.
            self.switch.wait(begin - self.length // 4)
            self.weir.control(epoch + 1, self.parameters(epoch + 1))
            self.switch.wait(begin - self.length // 10)
            self.link.check()
            self.prepare(epoch + 1)
            self.switch.wait(begin + self.transit)
            self.close(epoch)
            epoch += 1

    def begin(self):
        """Clears what an earlier member left, and sets clock, CRCs and the entries that stay."""
        off_by = self.switch.set_clock()
        self.say(f"clock: set to the wall clock of its machine, off by at most {off_by / 1000:.0f} µs")
        if off_by > self.transit // 2:
            raise bmv2.Failed(
                f"the switch's clock can be read to {off_by} ns alone, and the transit time is {self.transit} ns"
            )
        epoch = self.switch.now() // self.length
        control = self.weir.control(epoch, self.parameters(epoch))
        tables = {"epoch.prepared"} | {entry["table"] for entry in control["entries"]}
        self.switch.commands(f"table_clear {self.switch.tables[table]['name']}" for table in sorted(tables))
        self.switch.set_crcs(control)
        self.switch.add_entries(entry for entry in control["entries"] if "epoch" not in entry)
        for copy in range(self.copies):
            self.clear(control, copy)
        self.switch.write_register("epoch.unprepared", range(1), 0)

    def parameters(self, epoch):
        """The parameters of each program in an epoch, as far as updates have come."""
        while not self.link.updates.empty():
            program, from_epoch, parameters = self.link.updates.get()
            earlier = [update for update in self.updates[program] if update[0] < from_epoch]
            self.updates[program] = earlier + [(from_epoch, parameters)]
        at = [[update for update in updates if update[0] <= epoch][-1][1] for updates in self.updates]
        return {own["name"]: parameters for own, parameters in zip(self.programs, at)}

    def prepare(self, epoch):
        """Has the switch measure an epoch. False if the epoch began before everything was there."""
        begin = epoch * self.length
        if self.switch.now() >= begin:
            self.say(f"epoch {epoch}: not measured, as it began before it was prepared")
            return False
        parameters = self.parameters(epoch)
        control = self.weir.control(epoch, parameters)
        entries = [entry for entry in control["entries"] if "epoch" in entry]
        entries.append(
            {"table": "epoch.prepared", "action": "measure", "match": [epoch % 65536], "data": [epoch % self.copies]}
        )
        added = self.switch.add_entries(entries)
        late = self.switch.now() - begin
        if late >= 0:
            self.switch.delete_entries(added)
            # What is under way in the switch was counted by then.
            self.switch.wait(self.switch.now() + self.transit)
            self.clear(control, epoch % self.copies)
            self.say(f"epoch {epoch}: not measured, as it began {late / 1e6:.1f} ms before it was prepared")
            return False
        self.prepared[epoch] = (control, parameters, added)
        return True

    def close(self, epoch):
        """Ends an epoch: reads its copy, reports it, and clears it."""
        if epoch not in self.prepared:
            return
        control, parameters, added = self.prepared.pop(epoch)
        began = self.switch.now()
        self.switch.delete_entries(added)
        late = max(self.switch.now() - (epoch + 1) * self.length - self.transit, 0)
        names = bmv2.register_names(control)
        cells = self.switch.read_registers(names + self.counters + ["epoch.unprepared"])
        read = self.switch.now()
        # The copy is cleared before its records are made: the epoch after the next one begins soon.
        copy = epoch % self.copies
        self.clear(control, copy)
        _, next_parameters, _ = self.prepared.get(epoch + 1) or (None, self.parameters(epoch + 1), None)
        for place, own in enumerate(self.programs):
            if place not in self.link.refused:
                both = parameters[own["name"]], next_parameters[own["name"]]
                record = self.record(own, epoch, control["programs"], cells, both)
                self.link.report(place, epoch, record, self.switch.now(), late)
        self.say_unprepared(epoch, *cells["epoch.unprepared"])
        done = self.switch.now()
        took = f"read in {(read - began) / 1e6:.0f} ms, reported {(done - began) / 1e6:.0f} ms after its transit time"
        self.say(f"epoch {epoch}: {took}")

    def record(self, own, epoch, programs, cells, parameters):
        """The record of a program of an epoch that is not cut into sub-epochs."""
        name, copy = own["name"], epoch % self.copies
        of, encoder = programs[name], records.ENCODERS[name]
        [of_program] = bmv2.copies_of({"programs": programs}, cells, copy, self.copies, cut=(0, [0]))[name]
        arrays = {array["file"]: bmv2.array_of(of, array, cells, of_program) for array in of["layout"]["arrays"]}
        counters = {counter: cells[f"{name}.{counter}"][copy] for counter in encoder.counters}
        return encoder.encode(records.Epoch(epoch, own["program"], of["layout"], arrays, *parameters, counters))

    def say_unprepared(self, epoch, packets):
        if packets > self.unprepared:
            self.say(f"epoch {epoch}: {packets - self.unprepared} packets came in no prepared epoch, or too late in theirs")
            self.unprepared = packets

    def clear(self, control, copy):
        """Sets the registers of a copy to 0."""
        for program in control["programs"].values():
            for register in program["registers"]:
                size = self.switch.sizes[register["register"]] // self.copies
                self.switch.write_register(register["register"], range(copy * size, (copy + 1) * size), 0)
        for name in self.counters:
            self.switch.write_register(name, range(copy, copy + 1), 0)


def hello_of(member):
    """The fields of a hello, without the protocol's version."""
    programs = [
        {"program": json.dumps(own["program"]), "parameters": bytes.fromhex(own["parameters"])} for own in member["programs"]
    ]
    keys = ("name", "epoch_ns", "transit_ns", "dscp")
    return {key: member[key] for key in keys} | {"software": "p4/control/member.py, BMv2", "programs": programs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, required=True, help="has control.json, member.json and switch.json")
    parser.add_argument("--config", required=True, help="the configuration that `weir p4` had")
    parser.add_argument("--controller", required=True, help="path of its socket for switches, or HOST:PORT")
    parser.add_argument("--tls", nargs=3, metavar=("CA", "CERTIFICATE", "KEY"), help="files, for HOST:PORT")
    parser.add_argument("--thrift-port", type=int, default=9090)
    parser.add_argument("--copies", type=int, default=2, help="as EPOCH_COPY_BITS in the compiled program has it")
    parser.add_argument("--weir", default="weir")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    member = json.loads((arguments.dir / "member.json").read_text())
    compiled = json.loads((arguments.dir / "switch.json").read_text())
    for own in member["programs"]:
        encoder = records.ENCODERS.get(own["name"])
        if encoder is None:
            sys.exit(f"member.py: there are no records of {own['name']}")
        for key, value in encoder.needs.items():
            if own["program"].get(key) != value:
                sys.exit(f"member.py: {own['name']}: {key} = {own['program'].get(key)}: {value} in a P4 switch")
    import thrift_switch

    say = lambda text: print(f"{member['name']}: {text}", flush=True)
    while True:
        try:
            switch = thrift_switch.ThriftSwitch(compiled, arguments.thrift_port)
            link = Link(arguments.controller, hello_of(member), arguments.tls)
            for place, why in link.refused.items():
                say(f"{member['programs'][place]['name']} is not taken: {why}")
            say("joined")
            try:
                Member(
                    switch, link, Weir(arguments.weir, arguments.config, link.secret), member, arguments.copies, say
                ).run()
            finally:
                link.close()
        except Left as left:
            say(f"not a member: {left}")
            time.sleep(1)
        except bmv2.Failed as failed:
            sys.exit(f"member.py: {failed}")
        except thrift_switch.SwitchLost as lost:
            sys.exit(f"member.py: the connection to BMv2 broke: {lost}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(0)
