/* PINT (Ben Basat et al., SIGCOMM 2020) for Tofino: a switch writes itself, or what it measured,
 * into two bytes of a packet. The arithmetic is that of src/program/pint.
 *
 * A global hash is CRC 2 (CRC 1 (identity + A) + B), with an A and a B for each argument: the
 * hop, or the switch's identifier. The controller computes these and puts them into tables by
 * hop, since an ALU cannot add a hash to a parameter of the action. */

/* An instance of the path: its three hashes, and what the hop does with the byte. */
#define PINT_PATH(N) \
    CRC(layer_inner_##N, CRC_PINT_ACTS_##N##_INNER, 32) \
    CRC(acts_inner_##N, CRC_PINT_ACTS_##N##_INNER, 32) \
    CRC(value_inner_##N, CRC_PINT_VALUES_##N##_INNER, 32) \
    CRC(layer_outer_##N, CRC_PINT_ACTS_##N##_OUTER, 32) \
    CRC(acts_outer_##N, CRC_PINT_ACTS_##N##_OUTER, 32) \
    CRC(value_outer_##N, CRC_PINT_VALUES_##N##_OUTER, 32) \
    action first_arguments_##N(bit<32> layer, bit<32> acts, bit<32> value) { \
        meta.pint.path_##N.layer = meta.pint.identity + layer; \
        meta.pint.path_##N.acts = meta.pint.identity + acts; \
        meta.pint.path_##N.value = meta.pint.identity + value; \
    } \
    table inner_##N { \
        key = { hdr.shim.hop : exact @name("hop"); } \
        actions = { first_arguments_##N; NoAction; } \
        default_action = NoAction(); \
        size = 64; \
    } \
    action layer_inner_crc_##N() { \
        meta.pint.path_##N.layer = layer_inner_##N.get({ meta.pint.path_##N.layer }); \
    } \
    action acts_inner_crc_##N() { \
        meta.pint.path_##N.acts = acts_inner_##N.get({ meta.pint.path_##N.acts }); \
    } \
    action value_inner_crc_##N() { \
        meta.pint.path_##N.value = value_inner_##N.get({ meta.pint.path_##N.value }); \
    } \
    action second_arguments_##N(bit<32> layer, bit<32> acts, bit<32> value) { \
        meta.pint.path_##N.layer = meta.pint.path_##N.layer + layer; \
        meta.pint.path_##N.acts = meta.pint.path_##N.acts + acts; \
        meta.pint.path_##N.value = meta.pint.path_##N.value + value; \
    } \
    table outer_##N { \
        key = { hdr.shim.hop : exact @name("hop"); } \
        actions = { second_arguments_##N; NoAction; } \
        default_action = NoAction(); \
        size = 64; \
    } \
    action layer_outer_crc_##N() { \
        meta.pint.path_##N.layer_bits = (layer_outer_##N.get({ meta.pint.path_##N.layer }))[31:24]; \
    } \
    action acts_outer_crc_##N() { \
        meta.pint.path_##N.acts_bits = (acts_outer_##N.get({ meta.pint.path_##N.acts }))[31:16]; \
    } \
    action value_outer_crc_##N() { \
        meta.pint.path_##N.value_bits = (value_outer_##N.get({ meta.pint.path_##N.value }))[7:0]; \
    } \
    action write_##N() { \
        hdr.shim.DIGEST_BYTE(N) = meta.pint.path_##N.value_bits; \
    } \
    action xor_##N() { \
        hdr.shim.DIGEST_BYTE(N) = hdr.shim.DIGEST_BYTE(N) ^ meta.pint.path_##N.value_bits; \
    } \
    table layers_##N { \
        key = { \
            hdr.shim.hop : ternary @name("hop"); \
            meta.pint.path_##N.layer_bits : ternary @name("layer"); \
            meta.pint.path_##N.acts_bits : ternary @name("acts"); \
        } \
        actions = { write_##N; xor_##N; NoAction; } \
        default_action = NoAction(); \
        size = 1024; \
    }

#define PINT_ENCODE(N) \
    inner_##N.apply(); \
    layer_inner_crc_##N(); \
    acts_inner_crc_##N(); \
    value_inner_crc_##N(); \
    outer_##N.apply(); \
    layer_outer_crc_##N(); \
    acts_outer_crc_##N(); \
    value_outer_crc_##N(); \
    if (meta.is_flow == 1) { \
        layers_##N.apply(); \
    }

/* The path. A layer's share of packets, and the probability with which a hop acts, are ranges of
 * a hash's highest 8 and 16 bits, given as ternary entries: a range of 16 bits takes five times
 * as much TCAM. */
control PintIngress(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    CRC(identity, CRC_PINT_IDENTITY, 32)

    /* ip.src xor (ip.dst rotated left by 8): of IPv4 the highest 32 bits of the 40 that are not
     * 0. The parser shifted the source. */
    action join_addresses() {
        meta.pint.addresses = hdr.ipv4.dst ^ meta.pint.src_shifted;
    }
    /* The bytes that no hop changes (src/wire/identity.rs). */
    action identify() {
        meta.pint.identity = identity.get({ 88w0, meta.pint.addresses, hdr.ipv4.src[7:0], hdr.ipv4.protocol,
            meta.ports, hdr.ipv4.total_length, hdr.ipv4.identification, meta.pint.numbers_0, meta.pint.numbers_1,
            meta.pint.payload, meta.pint.payload_last });
    }

#if PINT_PATH_INSTANCES > 0
    PINT_PATH(0)
#endif
#if PINT_PATH_INSTANCES > 1
    PINT_PATH(1)
#endif

    apply {
        join_addresses();
        identify();
#if PINT_PATH_INSTANCES > 0
        PINT_ENCODE(0)
#endif
#if PINT_PATH_INSTANCES > 1
        PINT_ENCODE(1)
#endif
#ifdef PINT_AT_EGRESS
        hdr.bridge.identity = meta.pint.identity;
        hdr.bridge.received_ns = intrinsic.ingress_mac_tstamp[31:0];
#endif
    }
}

#ifdef PINT_LATENCY
/* The code of a packet's latency (§4.3): its logarithm in sixteenths of a step, by an exponent
 * and seven bits of mantissa, plus four random bits, of which the whole steps are kept. */
#define SHIFT(N) \
    action shift_##N(bit<5> exponent) { \
        meta.pint.exponent = exponent; \
        meta.pint.mantissa = meta.pint.held_ns >> N; \
    }

control PintLatency(inout headers_t hdr, inout egress_meta_t meta,
                    in egress_intrinsic_metadata_from_parser_t from_parser) {
    CRC(rounding, CRC_PINT_ROUNDING_INNER, 4)
    CRC(acts_inner, CRC_PINT_LATENCY_INNER, 32)
    CRC(acts_outer, CRC_PINT_LATENCY_OUTER, 32)

    action measure() {
        meta.pint.held_ns = from_parser.global_tstamp[31:0] - hdr.bridge.received_ns;
    }

    /* The highest bit of the time, and the mantissa behind it in the lowest seven bits of a
     * word: an action for each shift, as a shift's length is part of the instruction. */
    SHIFT(0) SHIFT(1) SHIFT(2) SHIFT(3) SHIFT(4) SHIFT(5) SHIFT(6) SHIFT(7) SHIFT(8)
    SHIFT(9) SHIFT(10) SHIFT(11) SHIFT(12) SHIFT(13) SHIFT(14) SHIFT(15) SHIFT(16) SHIFT(17)
    SHIFT(18) SHIFT(19) SHIFT(20) SHIFT(21) SHIFT(22) SHIFT(23) SHIFT(24)
    /* Of times whose exponent the exact table does not have: 31 is no exponent. */
    action logarithm(bit<16> value) {
        meta.pint.exponent = 31;
        meta.pint.part = value;
    }
    table exponents {
        key = { meta.pint.held_ns : ternary @name("held_ns"); }
        actions = {
            shift_0; shift_1; shift_2; shift_3; shift_4; shift_5; shift_6; shift_7; shift_8;
            shift_9; shift_10; shift_11; shift_12; shift_13; shift_14; shift_15; shift_16; shift_17;
            shift_18; shift_19; shift_20; shift_21; shift_22; shift_23; shift_24;
            logarithm;
        }
        default_action = logarithm(0);
        size = 32;
    }
    action part(bit<16> value) {
        meta.pint.part = value;
    }
    table parts {
        key = {
            meta.pint.exponent : exact @name("exponent");
            meta.pint.mantissa[6:0] : exact @name("mantissa");
        }
        actions = { part; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    /* The argument of the hash by which all hops of a packet round, and those of the hop. */
    action round(bit<32> argument) {
        meta.pint.rounding = hdr.bridge.identity + argument;
    }
    table rounding_argument {
        actions = { round; }
        default_action = round(0);
        size = 1;
    }
    action rounding_crc() {
        meta.pint.random = (bit<16>) rounding.get({ meta.pint.rounding });
    }
    action first_argument(bit<32> acts) {
        meta.pint.acts = hdr.bridge.identity + acts;
    }
    table inner {
        key = { hdr.shim.hop : exact @name("hop"); }
        actions = { first_argument; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    action acts_inner_crc() {
        meta.pint.acts = acts_inner.get({ meta.pint.acts });
    }
    action second_argument(bit<32> acts) {
        meta.pint.acts = meta.pint.acts + acts;
    }
    table outer {
        key = { hdr.shim.hop : exact @name("hop"); }
        actions = { second_argument; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    action acts_outer_crc() {
        meta.pint.acts_bits = (acts_outer.get({ meta.pint.acts }))[31:16];
    }

    action add_random() {
        meta.pint.part = meta.pint.part + meta.pint.random;
    }
    action whole_steps() {
        @in_hash { meta.pint.code = meta.pint.part[11:4]; }
    }

    action write() {
        hdr.shim.DIGEST_BYTE(PINT_LATENCY_BYTE) = meta.pint.code;
    }
    table hops {
        key = {
            hdr.shim.hop : exact @name("hop");
            meta.pint.acts_bits : ternary @name("acts");
        }
        actions = { write; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        measure();
        exponents.apply();
        parts.apply();
        rounding_argument.apply();
        rounding_crc();
        add_random();
        whole_steps();
        inner.apply();
        acts_inner_crc();
        outer.apply();
        acts_outer_crc();
        hops.apply();
    }
}
#endif

#ifdef PINT_UTILISATION
/* The largest utilisation of the links of a path (§4.3, example 3), as bytes that pass a
 * low-pass filter. It is not bit-equal to weir's: weir multiplies the average that it reads by a
 * factor of the packet's, which no stateful ALU does. The filter is the hardware's own. */
control PintUtilisation(inout headers_t hdr, inout egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic) {
    Lpf<bit<32>, bit<9>>(512) average;

    action weigh() {
        meta.pint.weight = (bit<32>) intrinsic.pkt_length;
    }
    action filter() {
        meta.pint.utilisation = average.execute(meta.pint.weight, intrinsic.egress_port);
    }
    action encode(bit<8> code) {
        meta.pint.utilisation_code = code;
    }
    /* Digests of utilisations in equal factors. */
    table codes {
        key = { meta.pint.utilisation : ternary @name("utilisation"); }
        actions = { encode; }
        default_action = encode(0);
        size = 1024;
    }
    action largest() {
        hdr.shim.DIGEST_BYTE(PINT_UTILISATION_BYTE) =
            max(hdr.shim.DIGEST_BYTE(PINT_UTILISATION_BYTE), meta.pint.utilisation_code);
    }

    apply {
        weigh();
        filter();
        codes.apply();
        largest();
    }
}
#endif

#ifdef PINT_AT_EGRESS
control PintEgress(inout headers_t hdr, inout egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic,
                   in egress_intrinsic_metadata_from_parser_t from_parser) {
#ifdef PINT_LATENCY
    PintLatency() latency;
#endif
#ifdef PINT_UTILISATION
    PintUtilisation() utilisation;
#endif

    apply {
#ifdef PINT_LATENCY
        latency.apply(hdr, meta, from_parser);
#endif
#ifdef PINT_UTILISATION
        utilisation.apply(hdr, meta, intrinsic);
#endif
    }
}
#endif
