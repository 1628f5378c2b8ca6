/* PINT's part of a packet's metadata. */

/* The shim has a digest in place of the upper bits of the epoch's number. */
#ifndef SHIM_DIGEST
#define SHIM_DIGEST
#endif

#if defined(PINT_LATENCY) || defined(PINT_UTILISATION)
#define PINT_AT_EGRESS
#endif

/* A packet's two bytes of digest stand in the shim. */
#define DIGEST_BYTE(N) low[8 * (N) + 7 : 8 * (N)]

/* The words of a global hash on the way to it: of an instance of the path its layer, whether the
 * hop acts, and what it writes. */
struct pint_path_t {
    bit<32> layer;
    bit<32> acts;
    bit<32> value;
    /* The bits of them that are compared and written. */
    bit<8> layer_bits;
    bit<16> acts_bits;
    bit<8> value_bits;
}

struct pint_ingress_t {
    /* Of TCP the sequence and acknowledgement numbers, of other transports bytes 8 to 15 of the
     * payload. */
    bit<32> numbers_0;
    bit<32> numbers_1;
    /* The first six bytes of the payload, and the seventh, which a frame of 60 bytes without TCP
     * options does not have. */
    bit<48> payload;
    bit<8> payload_last;
    bit<32> src_shifted;
    bit<32> addresses;
    bit<32> identity;
    pint_path_t path_0;
    pint_path_t path_1;
}

struct pint_egress_t {
    bit<32> acts;
    bit<32> rounding;
    bit<16> acts_bits;
    bit<32> held_ns;
    bit<5> exponent;
    bit<32> mantissa;
    bit<16> part;
    bit<16> random;
    bit<8> code;
    bit<32> time_ns;
    bit<32> gap_ns;
    bit<32> weight;
    bit<32> utilisation;
    bit<8> utilisation_code;
}
