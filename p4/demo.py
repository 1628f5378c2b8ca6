#!/usr/bin/env python3
"""Two weirs with a BMv2 switch between them, and a controller that all three report to.

    left (10.9.0.1) -- weir p4-left -- BMv2 p4-middle -- weir p4-right -- right (10.9.0.2)
                                           |
                                     side (10.9.0.3)

Each host sends counted packets to the others. What the controller then answers is held against what was sent and received.
It needs root, p4c-bm2-ss, simple_switch and simple_switch_CLI on the PATH, BMv2's Python modules, and
grpcio-tools and thrift of PyPI (`make p4-demo` installs these).

    p4/demo.py
    p4/demo.py --drop 10%       # a lossy link between BMv2 and p4-right
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HOSTS = {"left": 1, "right": 2, "side": 3}
NET, LEFT, MIDDLE, RIGHT = "p4-net", "p4-left", "p4-middle", "p4-right"
PORT = 5000
# Flows from each host to each other one; the Nth has N times as many packets.
FLOWS, PACKETS = 4, 25
RATE = 200
# socket.h: UDP without a checksum, as nothing on these wires computes those that the kernel leaves to a NIC.
SO_NO_CHECK = 11

SWITCH = """[switch]
name = "{name}"
epoch = "{epoch}ns"
transit = "100ms"
"""
PORTS = """forward = "xconnect"
[[port]]
name = "host"
dev = "veth:{host}"
[[port]]
name = "fabric"
dev = "veth:{fabric}"
role = "fabric"
mtu = 1600
"""
# What a BMv2 switch reads in time, in any epoch; every other key is the network's.
PROGRAMS = {
    "hashpipe": 'scope = "network"\nstages = {stages}\nslots = {slots}',
    "chamelemon": 'tower = "8x4096+16x2048"\nupstream = 1024\ndownstream = 768\nhl = 512\nnames = 0',
    "pint": "",
    "disketch": 'memory = "8KB"\nmax_sub_epochs = {sub_epochs}',
}


def mac(host):
    return f"02:00:00:00:09:{HOSTS[host]:02x}"


def ip(host):
    return f"10.9.0.{HOSTS[host]}"


def run(*command, **options):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout[-2000:]}{ran.stderr[-4000:]}")
    return ran.stdout


def programs(**of):
    return "".join(f'[[program]]\nname = "{name}"\n{keys.format(**of)}\n' for name, keys in PROGRAMS.items())


class Bench:
    """Namespaces, switches and their controller, until it is closed."""

    def __init__(self, arguments, directory):
        self.weir, self.directory, self.arguments = arguments.weir, directory, arguments
        self.processes, self.out = [], directory / "p4"

    def __enter__(self):
        self.close()
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.close()

    def close(self):
        """Takes away what this bench has, or one that was killed left."""
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", f"p4-{host}"], capture_output=True)
        for link in ("p4-l", "p4-r", "p4-lm", "p4-mr", "p4-m"):
            subprocess.run(["ip", "link", "del", link], capture_output=True)

    def start(self, name, *command):
        log = open(self.directory / f"{name}.log", "w")
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def wire(self):
        for host, at in (("left", "p4-l"), ("right", "p4-r"), ("side", "p4-m")):
            space = f"p4-{host}"
            run("ip", "netns", "add", space)
            run(
                "ip",
                "netns",
                "exec",
                space,
                "sysctl",
                "-qw",
                "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1",
            )
            run("ip", "link", "add", at, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", space, "link", "set", "eth0", "address", mac(host))
            run("ip", "-n", space, "addr", "add", f"{ip(host)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            for other in HOSTS:
                if other != host:
                    run("ip", "-n", space, "neigh", "add", ip(other), "lladdr", mac(other), "dev", "eth0")
        for one, other in (("p4-lm", "p4-ml"), ("p4-mr", "p4-rm")):
            run("ip", "link", "add", one, "mtu", 1600, "type", "veth", "peer", "name", other, "mtu", 1600)
        for link in ("p4-l", "p4-r", "p4-m", "p4-lm", "p4-ml", "p4-mr", "p4-rm"):
            # Nothing but the hosts' packets: no neighbour discovery of this machine.
            run("sysctl", "-qw", f"net.ipv6.conf.{link}.disable_ipv6=1")
            run("ip", "link", "set", link, "up")

    def configure(self):
        epoch = 1 << self.arguments.epoch_shift
        sizes = {"stages": self.arguments.stages, "slots": self.arguments.slots}
        own = programs(sub_epochs=1, **sizes)
        (self.directory / "middle.toml").write_text(SWITCH.format(name=MIDDLE, epoch=epoch) + own)
        for name, host, fabric in ((LEFT, "p4-l", "p4-lm"), (RIGHT, "p4-r", "p4-rm")):
            ports = PORTS.format(host=host, fabric=fabric)
            text = SWITCH.format(name=name, epoch=epoch) + ports + programs(sub_epochs=64, **sizes)
            (self.directory / f"{name}.toml").write_text(text)
        expected = f'name = "{NET}"\nswitches = ["{LEFT}", "{MIDDLE}", "{RIGHT}"]\nepoch = "{epoch}ns"\ntransit = "100ms"\n'
        (self.directory / "net.toml").write_text(expected + programs(sub_epochs=64, **sizes))

    def compile(self):
        # The CRCs' polynomials are set when the controller tells its secret, so the seed does not matter.
        config = self.directory / "middle.toml"
        run(self.weir, "p4", "-c", config, "--target", "v1model", "--reproducible", 0, "--out", self.out)
        sources = ["-I", self.out, "-I", HERE, "-o", self.out / "switch.json", HERE / "switch/v1model.p4"]
        run("p4c-bm2-ss", *sources)
        fabric = {"role": "fabric"}
        ports = {"0": fabric | {"macs": [mac("left")]}, "1": fabric | {"macs": [mac("right")]}}
        ports["2"] = {"role": "host", "macs": [mac("side")]}
        (self.out / "ports.json").write_text(json.dumps(ports))

    def switches(self):
        port = ["--thrift-port", self.arguments.thrift_port]
        links = ["-i", "0@p4-ml", "-i", "1@p4-mr", "-i", "2@p4-m"]
        ipc = ["--notifications-addr", f"ipc://{self.directory}/notifications.ipc"]
        self.start("bmv2", "simple_switch", *port, *ipc, *links, self.out / "switch.json")
        self.start(
            "net", self.weir, "controller", "-c", self.directory / "net.toml", "--state", self.directory / "state.json"
        )
        time.sleep(2)
        files = [
            "--json",
            self.out / "switch.json",
            "--control",
            self.out / "control.json",
            "--ports",
            self.out / "ports.json",
        ]
        run(sys.executable, HERE / "control/bmv2.py", *port, "load", *files)
        run("simple_switch_CLI", *port, input="set_queue_depth 10000\n")
        for name in (LEFT, RIGHT):
            self.start(name, self.weir, "run", "-c", self.directory / f"{name}.toml", "--controller", NET)
        member = ["--dir", self.out, "--config", self.directory / "middle.toml", "--weir", self.weir, *port]
        # The controller's first line says where its switches reach it.
        at = (self.directory / "net.log").read_text().split("switches at ", 1)[1].split(";")[0]
        self.start(MIDDLE, sys.executable, HERE / "control/member.py", *member, "--controller", at)

    def ask(self, *words):
        return json.loads(run(self.weir, *words, "--name", NET, "--json"))

    def wait_for_switches(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self.ask("show", "switches")["switches"]
            if sum(switch["connected"] for switch in found) == 3:
                return
            time.sleep(0.5)
        sys.exit(f"not all switches have come: {json.dumps(found)[:2000]}")


def host(name):
    """A host: counts what it receives, and sends its flows when told to."""
    others = [other for other in HOSTS if other != name]
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    receiver.bind((ip(name), PORT))
    senders = {}
    for number in range(1, FLOWS + 1):
        senders[number] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        senders[number].setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        senders[number].bind((ip(name), 40000 + number))
    # The flows side by side.
    packets = [
        (other, number)
        for round in range(PACKETS * FLOWS)
        for other in others
        for number in senders
        if round < number * PACKETS
    ]
    sys.stdin.readline()
    for sequence, (other, number) in enumerate(packets):
        senders[number].sendto(struct.pack(">I", sequence) + bytes(60), (ip(other), PORT))
        time.sleep(1 / RATE)
    sent = collections.Counter(packets)
    print(json.dumps([[other, number, count] for (other, number), count in sent.items()]), flush=True)
    sys.stdin.readline()
    received = collections.Counter()
    receiver.setblocking(False)
    try:
        while True:
            _, (source, port) = receiver.recvfrom(2048)
            received[source, port] += 1
    except BlockingIOError:
        pass
    print(json.dumps([[source, port, count] for (source, port), count in received.items()]), flush=True)


def traffic(bench):
    """What each flow sent and what of it arrived."""
    hosts = {}
    for name in HOSTS:
        command = ["ip", "netns", "exec", f"p4-{name}", sys.executable, str(HERE / "demo.py"), "--host", name]
        hosts[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        bench.processes.append(hosts[name])
    time.sleep(1)
    tell = lambda process: (process.stdin.write("\n"), process.stdin.flush())
    for process in hosts.values():
        tell(process)
    sent, received = {}, collections.Counter()
    for name, process in hosts.items():
        for other, number, count in json.loads(process.stdout.readline()):
            sent[ip(name), 40000 + number, ip(other)] = count
    time.sleep(1)
    for name, process in hosts.items():
        tell(process)
        for source, port, count in json.loads(process.stdout.readline()):
            received[source, port, ip(name)] += count
    return sent, {flow: received[flow] for flow in sent}


# The gap of packets whose digests nobody reports.
UNREPORTED = "reports about single packets found no room"


class Answers:
    """What the controller answers of the last seconds, held against what hosts sent and received."""

    def __init__(self, bench, sent, received, last):
        self.bench, self.sent, self.received, self.last = bench, sent, received, last
        self.wrong = 0

    def check(self, holds, text):
        self.wrong += not holds
        print(f"{'ok   ' if holds else 'WRONG'} {text}", flush=True)

    def ask(self, task, program):
        """An answer, which must rest on all three switches, and the gaps that it must not have."""
        answer = self.bench.ask("show", task, "--program", program, "--last", self.last, "--top", 1000)
        gaps = [gap for gap in answer["gaps"] if UNREPORTED not in gap["gap"]]
        for gap in gaps:
            print(f"      {gap['start']} {gap['switch']}: {gap['gap']}")
        whole = sorted(answer["switches"]) == sorted([LEFT, MIDDLE, RIGHT]) and not gaps
        self.check(whole, f"{program}: records of {', '.join(answer['switches'])}, {len(gaps)} gaps")
        return answer

    def heavy(self):
        answer = self.ask("heavy", "hashpipe")
        counted = {key_of(found["flow"]): found["packets"] for found in answer["heavy"]}
        exact = sum(counted.get(flow) == packets for flow, packets in self.sent.items())
        text = f"{exact} of {len(self.sent)} flows have the packets that hosts sent, and {len(counted)} are named"
        self.check(exact == len(self.sent) == len(counted), f"hashpipe: {text}")

    def losses(self):
        answer = self.ask("losses", "chamelemon")
        self.check(answer["complete"], f"chamelemon: complete is {json.dumps(answer['complete'])}")
        lacking = {flow: self.sent[flow] - count for flow, count in self.received.items() if self.sent[flow] > count}
        lost = {key_of(found["flow"]): found["packets"] for found in answer["losses"]}
        text = (
            f"{sum(lost.values())} packets of {len(lost)} flows lost; hosts lack {sum(lacking.values())} of {len(lacking)}"
        )
        self.check(lost == lacking, f"chamelemon: {text}")

    def paths(self):
        answer = self.ask("paths", "pint")
        known = {key_of(found["flow"]): found["switches"] for found in answer["paths"]}
        # BMv2 reports no digests of packets that leave there, and says how many these are.
        lacking = sum(int(gap["gap"].split()[0]) for gap in answer["gaps"] if UNREPORTED in gap["gap"])
        left = sum(count for flow, count in self.received.items() if flow[2] == ip("side"))
        self.check(lacking == left, f"pint: digests of {lacking} packets are missing; {left} left at {MIDDLE}")
        expected = {flow: path_of(flow) for flow in self.sent if flow[2] != ip("side")}
        right = sum(known.get(flow) == path for flow, path in expected.items())
        such = " → ".join(path_of((ip("left"), 0, ip("right"))))
        self.check(right == len(expected), f"pint: {right} of {len(expected)} paths that end at a weir, such as {such}")
        return expected

    def frequencies(self, flows):
        off, rests = 0, set()
        for source, port, to in flows:
            flow = f"{source}:{port} → {to}:{PORT} udp"
            words = ["query", "frequency", "--program", "disketch", "--flow", flow, "--last", self.last]
            answer = self.bench.ask(*words)
            off += abs(answer["packets"]["estimate"] - self.sent[source, port, to])
            rests |= set(answer["rests_on"])
        text = f"{len(flows)} flows from records of {', '.join(sorted(rests))}; off by {off / len(flows):.1f} packets on average"
        self.check(MIDDLE in rests and off < 10 * len(flows), f"disketch: {text}")


def key_of(flow):
    """The flow of an answer as hosts know it."""
    return flow["src"], flow["sport"], flow["dst"]


def path_of(flow):
    """The switches of a flow's path."""
    ends = {ip("left"): LEFT, ip("right"): RIGHT, ip("side"): MIDDLE}
    first, last = ends[flow[0]], ends[flow[2]]
    return [first] + ([MIDDLE] if MIDDLE not in (first, last) else []) + [last]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default=HERE.parent / "target/release/weir", type=pathlib.Path)
    parser.add_argument("--epoch-shift", type=int, default=31, help="log2 of an epoch's nanoseconds")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--drop", metavar="RATE", help="packets that are lost from BMv2 to p4-right, such as 10%%")
    parser.add_argument("--thrift-port", type=int, default=9090)
    parser.add_argument("--keep", type=pathlib.Path, help="keep configurations and logs here")
    parser.add_argument("--stay", action="store_true", help="leave everything running until Enter")
    parser.add_argument("--host", choices=HOSTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.host:
        return host(arguments.host)
    if os.geteuid():
        sys.exit("network namespaces need root")
    if missing := [tool for tool in ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI") if not shutil.which(tool)]:
        sys.exit(f"not on the PATH: {', '.join(missing)}")
    arguments.weir = arguments.weir.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or pathlib.Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with Bench(arguments, directory.resolve()) as bench:
            bench.configure()
            bench.compile()
            bench.wire()
            bench.switches()
            bench.wait_for_switches()
            if arguments.drop:
                run(arguments.weir, "port", "fault", "fabric", f"rx:drop={arguments.drop}", "--name", RIGHT)
            length = (1 << arguments.epoch_shift) / 1e9
            # Final answers are of epochs some time ago. None of those in which switches came are to be among them.
            time.sleep(6 * length)
            began = time.time()
            sent, received = traffic(bench)
            # Final answers come after the horizon of two epochs.
            time.sleep(4 * length + 1)
            answers = Answers(bench, sent, received, f"{time.time() - began:.0f}s")
            answers.heavy()
            answers.losses()
            answers.frequencies(answers.paths())
            print((directory / f"{MIDDLE}.log").read_text(), end="")
            if arguments.stay:
                input("Enter ends it. ")
    sys.exit(1 if answers.wrong else 0)


if __name__ == "__main__":
    main()
