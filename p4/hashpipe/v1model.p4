/* HashPipe (Sivaraman et al., SOSR 2017, Algorithm 3): the heaviest flows. The arrays are those of src/program/hashpipe. */

#ifdef HASHPIPE_KEY_DIGEST32
#include "hashpipe/digest32.p4"
#define HASHPIPE_INSERT4 HashPipeInsertDigest
#define HASHPIPE_MERGE4 HashPipeMergeDigest
#define HASHPIPE_INSERT6 HashPipeInsertDigest
#define HASHPIPE_MERGE6 HashPipeMergeDigest
#else
#include "hashpipe/ipv4.p4"
#define HASHPIPE_INSERT4 HashPipeInsert4
#define HASHPIPE_MERGE4 HashPipeMerge4
#if HASHPIPE_IPV6
#include "hashpipe/ipv6.p4"
#define HASHPIPE_INSERT6 HashPipeInsert6
#define HASHPIPE_MERGE6 HashPipeMerge6
#endif
#endif

control HashPipe(inout headers_t hdr, inout metadata_t meta) {
    HASHPIPE_INSERT4(HASHPIPE_IPV4_0_CELLS) ipv4_0;
#if HASHPIPE_STAGES > 1
    HASHPIPE_MERGE4(HASHPIPE_IPV4_1_CELLS) ipv4_1;
#endif
#if HASHPIPE_STAGES > 2
    HASHPIPE_MERGE4(HASHPIPE_IPV4_2_CELLS) ipv4_2;
#endif
#if HASHPIPE_STAGES > 3
    HASHPIPE_MERGE4(HASHPIPE_IPV4_3_CELLS) ipv4_3;
#endif
#if HASHPIPE_STAGES > 4
    HASHPIPE_MERGE4(HASHPIPE_IPV4_4_CELLS) ipv4_4;
#endif
#if HASHPIPE_STAGES > 5
    HASHPIPE_MERGE4(HASHPIPE_IPV4_5_CELLS) ipv4_5;
#endif
#if HASHPIPE_IPV6
    HASHPIPE_INSERT6(HASHPIPE_IPV6_0_CELLS) ipv6_0;
#if HASHPIPE_STAGES > 1
    HASHPIPE_MERGE6(HASHPIPE_IPV6_1_CELLS) ipv6_1;
#endif
#if HASHPIPE_STAGES > 2
    HASHPIPE_MERGE6(HASHPIPE_IPV6_2_CELLS) ipv6_2;
#endif
#if HASHPIPE_STAGES > 3
    HASHPIPE_MERGE6(HASHPIPE_IPV6_3_CELLS) ipv6_3;
#endif
#if HASHPIPE_STAGES > 4
    HASHPIPE_MERGE6(HASHPIPE_IPV6_4_CELLS) ipv6_4;
#endif
#if HASHPIPE_STAGES > 5
    HASHPIPE_MERGE6(HASHPIPE_IPV6_5_CELLS) ipv6_5;
#endif
#endif

    /* The first key that a packet carries is its own. */
#ifdef HASHPIPE_KEY_DIGEST32
    action key4() {
        CRC(meta.hashpipe.digest,
            { meta.flow.src[31:0], meta.flow.dst[31:0], meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
#else
    action key4() {
        meta.hashpipe.key4.src = meta.flow.src[31:0];
        meta.hashpipe.key4.dst = meta.flow.dst[31:0];
        meta.hashpipe.key4.ports = meta.flow.sport ++ meta.flow.dport;
        meta.hashpipe.key4.proto = meta.flow.proto;
    }
#endif
#if HASHPIPE_IPV6
#ifdef HASHPIPE_KEY_DIGEST32
    action key6() {
        CRC(meta.hashpipe.digest,
            { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
#else
    action key6() {
        meta.hashpipe.key6.src = meta.flow.src;
        meta.hashpipe.key6.dst = meta.flow.dst;
        meta.hashpipe.key6.ports = meta.flow.sport ++ meta.flow.dport;
        meta.hashpipe.key6.proto = meta.flow.proto;
    }
#endif
#endif

    apply {
#if HASHPIPE_COUNT_BYTES
        meta.hashpipe.count = meta.wire_bytes;
#else
        meta.hashpipe.count = 1;
#endif
#if HASHPIPE_SCOPE_NETWORK
        if (meta.port.enters == 1) {
#else
        {
#endif
            if (meta.net == NET_IPV4) {
                key4();
                ipv4_0.apply(meta);
#if HASHPIPE_STAGES > 1
                ipv4_1.apply(meta);
#endif
#if HASHPIPE_STAGES > 2
                ipv4_2.apply(meta);
#endif
#if HASHPIPE_STAGES > 3
                ipv4_3.apply(meta);
#endif
#if HASHPIPE_STAGES > 4
                ipv4_4.apply(meta);
#endif
#if HASHPIPE_STAGES > 5
                ipv4_5.apply(meta);
#endif
            }
#if HASHPIPE_IPV6
            else if (meta.net == NET_IPV6) {
                key6();
                ipv6_0.apply(meta);
#if HASHPIPE_STAGES > 1
                ipv6_1.apply(meta);
#endif
#if HASHPIPE_STAGES > 2
                ipv6_2.apply(meta);
#endif
#if HASHPIPE_STAGES > 3
                ipv6_3.apply(meta);
#endif
#if HASHPIPE_STAGES > 4
                ipv6_4.apply(meta);
#endif
#if HASHPIPE_STAGES > 5
                ipv6_5.apply(meta);
#endif
            }
#endif
        }
    }
}
