/* DiSketch's part of a packet's metadata. */

struct disketch_t {
    /* The fields that name a flow. */
    bit<32> src4;
    bit<32> dst4;
    bit<128> src6;
    bit<128> dst6;
    bit<32> ports;
    bit<8> proto;
    /* CRCs 0, 1 and 2 of the key, the same in all switches of a network. */
    bit<32> crc0;
    bit<32> crc1;
    bit<32> crc2;
    /* The constants of this switch in the running epoch. */
    bit<32> a;
    bit<32> b;
    bit<32> c;
    /* The sample hash: the flow's sub-epoch in the highest bits, its sign in level l in bit 25 - l. */
    bit<32> sample;
    /* The running sub-epoch, in the highest bits. */
    bit<6> sub_epoch;
    /* The flow is counted now. */
    bit<1> is_sampled;
    /* The copy of the counters that counts the running sub-epoch. */
    bit<32> copy;
    /* The deepest level that counts the flow. */
    bit<4> depth;
    /* 1, or the bytes of the packet. */
    bit<32> weight;
}
