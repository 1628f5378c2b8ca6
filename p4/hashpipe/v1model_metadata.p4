/* HashPipe's part of a packet's metadata: the pair that it carries from stage to stage (Algorithm 3: cKey, cVal). */

struct key4_t {
    bit<32> src;
    bit<32> dst;
    bit<32> ports;
    bit<8> proto;
}

struct key6_t {
    bit<128> src;
    bit<128> dst;
    bit<32> ports;
    bit<8> proto;
}

struct hashpipe_t {
#ifdef HASHPIPE_KEY_DIGEST32
    bit<32> digest;
#else
    key4_t key4;
    key6_t key6;
#endif
    /* A count of 0 ends the processing. */
    bit<32> count;
}
