/* HashPipe's part of a packet's metadata. */

struct hashpipe_t {
    /* The pair that is carried from stage to stage (Algorithm 3: cKey, cVal). A count of 0 ends
     * the processing. */
    bit<32> key;
    bit<32> count;
    /* What the stage had, and how it compares: a one-hot number of (same key, smaller count). */
    bit<32> stored_key;
    bit<32> stored_count;
    bit<16> comparison;
    /* The slot in the next stage, with the copy of the registers in the highest bit. */
    bit<13> slot;
}
