/* DiSketch's part of a packet's metadata. */

struct disketch_t {
    /* The CRCs of the key, and what becomes of them: index and sample hash. */
    bit<32> index;
    bit<32> both;
    bit<32> sample;
    /* The flow's sub-epoch xor the running one, in the highest bits. */
    bit<6> away;
    bit<1> sign;
    int<32> weight;
    bit<1> is_counted;
}
