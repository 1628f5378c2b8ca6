/* Codes: how the values of a switch stand in a few bits (§4.3). Random bits, a hash of the packet,
 * round them, so that they are right on average. */

/* Numbers as logarithms: the number of the highest bit and the seven bits behind it find the
 * logarithm in sixteenths of a code's step. A switch has no logarithm, and a match on all numbers would
 * take a TCAM's entries by ten thousands. */
control LogarithmCode(in bit<32> value, in bit<32> random_bits, out bit<16> code) {
    bit<16> part = 0;
    bit<5> exponent = 0;
    bit<7> mantissa = 0;

    action cut(bit<5> number, bit<5> shift) {
        exponent = number;
        mantissa = (bit<7>) (value >> shift);
    }
    action logarithm(bit<16> sixteenths) {
        part = sixteenths;
    }
    /* Numbers that are smaller or larger than those that codes tell apart have the end's logarithm. */
    table exponents {
        key = { value : ternary; }
        actions = { cut; logarithm; }
        default_action = logarithm(0);
        size = 32;
    }
    table logarithms {
        key = { exponent : exact; mantissa : exact; }
        actions = { logarithm; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        switch (exponents.apply().action_run) {
            cut: { logarithms.apply(); }
        }
        code = part + (bit<16>) random_bits[3:0] >> 4;
    }
}

/* Ports: numbers as they are, the last code for all that are larger. */
control PortCode(in bit<16> port, out bit<16> code)(bit<16> last) {
    apply {
        code = port < last ? port : last;
    }
}

/* Times of day in steps of a power of two, of which a code has the lowest bits. */
control ClockCode(in bit<64> time_ns, in bit<32> random_bits, out bit<16> code)(bit<8> step) {
    apply {
        bit<64> below = (64w1 << step) - 1;
        code = (bit<16>) (time_ns + ((bit<64>) random_bits & below) >> step);
    }
}
