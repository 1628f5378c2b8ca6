/* Queries for values of switches (§3.1, Table 1). A packet tells of one of its hops, drawn uniformly
 * (reservoir sampling, §4.1), or of its whole way. */

/* Values, as constants.p4 has them. */
#define PINT_LATENCY 1
#define PINT_INGRESS_PORT 2
#define PINT_EGRESS_PORT 3
#define PINT_INGRESS_TIME 4
#define PINT_UTILISATION 5
/* How those of hops come together. */
#define PINT_OF_ONE_HOP 1
#define PINT_MAX 2
#define PINT_MIN 3

/* The random bits that round a code: the inner CRC of a global hash. */
control Rounding(in bit<32> packet, in bit<32> addend, out bit<32> random_bits) {
    bit<32> sum = packet + addend;

    action inner() {
        CRC(random_bits, { sum });
    }

    apply {
        inner();
    }
}

/* Whether this hop writes its own value: of the last one that does so the value stays. */
control Reservoir(inout metadata_t meta, out bit<1> writes) {
    GlobalHash() acts;
    addends_t of_hop = { 0, 0 };
    bit<32> acts_hash = 0;

    action hash_with(bit<32> inner, bit<32> outer) {
        of_hop = { inner, outer };
    }
    table arguments {
        key = { meta.hop : exact @name("hop"); }
        actions = { hash_with; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action write() {
        writes = 1;
    }
    action keep() {
        writes = 0;
    }
    table limits {
        key = {
            meta.hop : exact @name("hop");
            acts_hash[31:16] : range @name("acts");
        }
        actions = { write; keep; }
        default_action = keep();
        size = 64;
    }

    apply {
        arguments.apply();
        acts.apply(meta.pint.identity, of_hop, acts_hash);
        limits.apply();
    }
}

/* A value's part of the digest. `last` and `step` are of its code. */
control ValueEncoding(inout metadata_t meta, in bit<9> egress_port, inout bit<16> part)
        (bit<8> value, bit<8> aggregation, bit<16> last, bit<8> step) {
    Reservoir() reservoir;
    Rounding() rounding;
    LogarithmCode() logarithm;
    PortCode(last) port;
    ClockCode(step) clock;
    bit<32> addend = 0;
    bit<32> random_bits = 0;
    bit<16> own = 0;
    bit<64> came_ns = 0;
    bit<1> writes = 1;

    action round_with(bit<32> inner) {
        addend = inner;
    }
    /* One entry, for all packets: all hops round alike, so that the largest code is that of the
     * largest value. */
    table roundings {
        key = { meta.hop : ternary @name("hop"); }
        actions = { round_with; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        if (value == PINT_LATENCY || value == PINT_INGRESS_TIME || value == PINT_UTILISATION) {
            roundings.apply();
            rounding.apply(meta.pint.identity, addend, random_bits);
        }
        if (value == PINT_LATENCY) {
            logarithm.apply(meta.clock.held_ns, random_bits, own);
#ifdef PINT_TICK_SHIFT
        } else if (value == PINT_UTILISATION) {
            logarithm.apply(meta.pint.utilisation, random_bits, own);
#endif
        } else if (value == PINT_INGRESS_PORT) {
            port.apply((bit<16>) meta.port.ingress, own);
        } else if (value == PINT_EGRESS_PORT) {
            port.apply((bit<16>) egress_port, own);
        } else {
#ifdef TEST_CLOCK
            /* The test's clock says when the packet leaves. */
            came_ns = meta.clock.received_ns - (bit<64>) meta.clock.held_ns;
#else
            came_ns = meta.clock.received_ns;
#endif
            clock.apply(came_ns, random_bits, own);
        }
        if (aggregation == PINT_OF_ONE_HOP) {
            reservoir.apply(meta, writes);
        } else if (meta.hop == MAX_HOP) {
            writes = 0;
        } else if (aggregation == PINT_MAX) {
            own = own > part ? own : part;
        } else if (meta.hop != 1) {
            own = own < part ? own : part;
        }
        if (writes == 1) {
            part = own;
        }
    }
}
