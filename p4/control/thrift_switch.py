"""A running BMv2 switch over one Thrift connection: simple_switch_CLI's commands without a process for each, registers cell by
cell, and the switch's clock.

It uses the Python modules that BMv2 installs beside simple_switch_CLI (runtime_CLI, sswitch_CLI, bm_runtime, sswitch_runtime).
"""

import contextlib
import io
import time

import bmv2
import runtime_CLI
import sswitch_CLI
from thrift.protocol import TBinaryProtocol, TMultiplexedProtocol
from thrift.transport import TSocket, TTransport

CLOCK_READS = 20
SwitchLost = TTransport.TTransportException


class ThriftSwitch(bmv2.Switch):
    """A switch whose clock is set to the wall clock of its machine."""

    def __init__(self, compiled, thrift_port=9090, host="127.0.0.1"):
        super().__init__(compiled, thrift_port)
        pre = runtime_CLI.PreType.SimplePreLAG
        services = runtime_CLI.RuntimeAPI.get_thrift_services(pre) + sswitch_CLI.SimpleSwitchAPI.get_thrift_services()
        transport = TTransport.TBufferedTransport(TSocket.TSocket(host, thrift_port))
        protocol = TBinaryProtocol.TBinaryProtocolAccelerated(transport, fallback=True)
        clients = [client(TMultiplexedProtocol.TMultiplexedProtocol(protocol, name)) for name, client in services]
        transport.open()
        self.standard, _, self.simple_switch = clients
        runtime_CLI.load_json_str(self.standard.bm_get_config())
        self.cli = sswitch_CLI.SimpleSwitchAPI(pre, *clients)
        self.offset_ns = 0

    def commands(self, lines):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for line in lines:
                self.cli.onecmd(line)
        return bmv2.checked(printed.getvalue())

    def read_registers(self, names):
        return {name: self.standard.bm_register_read_all(0, self.registers[name]) for name in names}

    def write_register(self, name, cells, value):
        """Writes a value into a range of cells."""
        self.standard.bm_register_write_range(0, self.registers[name], cells.start, cells.stop, value)

    def set_clock(self):
        """Makes the switch number epochs by its machine's wall clock, and returns by how many nanoseconds it may be off.

        BMv2 reads one clock, and counts it once from 1970 and once from its own start. Both are read several times, and the
        closest three readings count."""
        wall, elapsed = self.simple_switch.get_time_since_epoch_us, self.simple_switch.get_time_elapsed_us
        before, own, after = min(
            ((wall(), elapsed(), wall()) for _ in range(CLOCK_READS)), key=lambda read: read[2] - read[0]
        )
        self.offset_ns = (before + after) // 2 * 1000 - own * 1000
        self.write_register("epoch.clock_offset", range(1), self.offset_ns)
        # Readings are whole microseconds.
        return (after - before) * 500 + 1000

    def now(self):
        """The clock by which it numbers epochs, in nanoseconds."""
        return self.simple_switch.get_time_elapsed_us() * 1000 + self.offset_ns

    def wait(self, until_ns):
        time.sleep(max(until_ns - self.now(), 0) / 1e9)
