/* ChameleMon's part of a packet's metadata. */

/* The ID of a flow (104 bits): the IPv4 five-tuple, or a digest of the IPv6 one. */
struct flow_id_t {
    bit<32> source;
    bit<32> destination;
    bit<32> ports;
    bit<8> proto;
}

/* The fragments of an ID as which buckets sum it, each below 2^31 (Figure 13). */
struct fragments_t {
    bit<32> source;
    bit<32> destination;
    bit<32> ports;
    /* The highest bits of the others, the protocol, and the fingerprint. */
    bit<32> rest;
}

/* Where a part of an encoder's row lies, and how an index hash becomes a bucket of it. */
struct part_place_t {
    bit<32> offset;
    /* Bits of the hash that do not count. */
    bit<8> shift;
    bit<32> slots;
}

/* A part of an encoder. */
struct part_t {
    part_place_t full;
    /* In the small row. */
    part_place_t small;
}

/* The index hashes of an ID. */
struct index_hashes_t {
    bit<32> level_0;
    bit<32> level_1;
    bit<32> level_2;
    bit<32> level_3;
    bit<32> row_0;
    bit<32> row_1;
    bit<32> row_2;
    bit<32> row_3;
    bit<32> small_row;
    bit<32> fingerprint;
    bit<32> sample;
}

struct chamelemon_t {
    flow_id_t id;
    index_hashes_t hashes;
    fragments_t fragments;
    /* The flow's size by the classifier. */
    bit<32> estimate;
    bit<2> class;
    /* The part of the encoder that takes the packet. */
    part_t part;
}
