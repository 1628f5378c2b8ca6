/* The average utilisation of the link that a packet leaves by (§4.3, appendix B), as a low-pass filter of
 * integers: every packet that leaves by a port counts, whichever query it carries.
 *
 *     U = U - (U >> s) + bytes
 *
 * U counts bytes, with eight bits behind the point. 2^-s stands for the gap as a share of the period: of a
 * gap from 2^k to 2^(k+1) - 1 ticks it is 2^k or 2^(k+1) of them, as many as the clock has passed multiples
 * of 2^k in the gap. */

control LinkUtilisation(inout metadata_t meta, in bit<9> port) {
    register<bit<32>>(512) last_sent;
    register<bit<32>>(512) average;
    bit<64> now_ns = 0;
    bit<32> now = 0;
    bit<32> last = 0;
    bit<32> gap = 0;
    bit<32> ticks = 0;
    bit<8> shift = 0;
    bit<32> utilisation = 0;
    bit<32> bytes = 0;

    /* Of a gap from 2^k ticks on: `below` is 2^k - 1. */
    action round_gap(bit<32> below) {
        ticks = gap + (last & below);
    }
    table gaps {
        key = { gap : ternary; }
        actions = { round_gap; NoAction; }
        default_action = NoAction();
        size = 32;
    }
    action fade(bit<8> bits) {
        shift = bits;
    }
    /* Nothing of U is left after a period. */
    table shifts {
        key = { ticks : ternary; }
        actions = { fade; }
        default_action = fade(0);
        size = 32;
    }

    apply {
#ifdef TEST_CLOCK
        /* The test's clock says when the packet leaves. */
        now_ns = meta.clock.received_ns;
#else
        now_ns = meta.clock.received_ns + (bit<64>) meta.clock.held_ns;
#endif
        now = (bit<32>) (now_ns >> PINT_TICK_SHIFT);
        last_sent.read(last, (bit<32>) port);
        last_sent.write((bit<32>) port, now);
        gap = now - last;
        ticks = gap;
        gaps.apply();
        shifts.apply();
        bytes = meta.wire_bytes;
        if (meta.port.disposition == TO_FABRIC) {
            bytes = bytes + SHIM_BYTES;
        }
        average.read(utilisation, (bit<32>) port);
        utilisation = (utilisation - (utilisation >> shift)) |+| (bytes << 8);
        average.write((bit<32>) port, utilisation);
        meta.pint.utilisation = utilisation;
    }
}
