/* ChameleMon's part of a packet's metadata. */

/* The four fragments of an ID (Figure 13), or their additive inverses modulo p. */
struct fragments_t {
    bit<32> source;
    bit<32> destination;
    bit<32> ports;
    bit<32> rest;
}

struct chamelemon_ingress_t {
    /* The CRC that all index hashes share, and the sums of it and the CRC of each. */
    bit<32> shared;
    bit<32> level_0;
    bit<32> level_1;
    bit<32> row_0;
    bit<32> row_1;
    bit<32> row_2;
    bit<32> fingerprint;
    bit<32> sample;
    /* The highest 16 bits of the index hashes: the halves of the sums, joined. */
    bit<16> row_0_index;
    bit<16> row_1_index;
    bit<16> row_2_index;
    bit<16> sample_index;
    bit<16> sample_seed;
    /* The counters of the classifier. */
    bit<8> counter_0;
    bit<16> counter_1;
    fragments_t fragments;
    fragments_t inverses;
    /* The buckets in the rows, with the copy of the registers in the highest bit. */
    bit<1> is_encoded;
    bit<13> bucket_0;
    bit<13> bucket_1;
    bit<13> bucket_2;
}

struct chamelemon_egress_t {
    fragments_t fragments;
    fragments_t inverses;
    bit<1> is_encoded;
    bit<1> is_stray;
    bit<13> bucket_0;
    bit<13> bucket_1;
    bit<13> bucket_2;
}
