/* Global hashes (§4.1): of the packet and an argument, a hop or a switch. All switches compute the
 * same ones, so that they agree without a word between them.
 *
 *     global(packet, argument) = CRC2(CRC1(packet + CRC0(argument)) + CRC2(argument))
 *
 * Arguments do not depend on the packet, so their CRCs are the controller's: tables give the two
 * addends. */

struct addends_t {
    bit<32> inner;
    bit<32> outer;
}

control GlobalHash(in bit<32> packet, in addends_t argument, out bit<32> value) {
    bit<32> sum = packet + argument.inner;
    bit<32> middle = 0;

    action inner() {
        CRC(middle, { sum });
    }
    action outer() {
        CRC(value, { sum });
    }

    apply {
        inner();
        sum = middle + argument.outer;
        outer();
    }
}
