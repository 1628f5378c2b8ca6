/* HashPipe (Sivaraman et al., SOSR 2017, Algorithm 3) for Tofino 2, without recirculation. The
 * arrays are those of src/program/hashpipe with `key = "digest32"` or `key = "src"`: a stateful
 * ALU holds a pair of 32-bit words, so a key has 32 bits.
 *
 * Tofino 1 has no room for it: its stateful ALUs give back one word, and a stage gives back the
 * evicted key and its count. */

#if HASHPIPE_IPV4_0_CELLS != 4096
#error "the slot has 12 bits: 4096 cells a stage"
#endif

struct pair_t {
    bit<32> key;
    bit<32> count;
}

/* A later stage keeps the larger of the carried and the stored pair. The stateful ALU gives back
 * what it had, and a one-hot number of its two comparisons, as a gateway cannot compare two
 * fields of 32 bits. By that number a table carries on what was evicted, keeps what is carried,
 * or stops. The hash of the next stage's slot is computed in the same action, of the key that
 * this action carries on: an action takes 32 bits of hash, and the register's own action takes
 * none that is concatenated with a field. */
#define HASHPIPE_MERGE(N, NEXT) \
    Register<pair_t, bit<13>>(WITH_COPIES(HASHPIPE_IPV4_##N##_CELLS)) ipv4_##N; \
    RegisterAction3<pair_t, bit<13>, bit<32>, bit<32>, bit<16>>(ipv4_##N) merge_pair_##N = { \
        void apply(inout pair_t stored, out bit<32> key, out bit<32> count, out bit<16> comparison) { \
            key = stored.key; \
            count = stored.count; \
            comparison = this.predicate<bit<16>>(stored.key == meta.hashpipe.key, stored.count < meta.hashpipe.count); \
            if (stored.key == meta.hashpipe.key) { \
                stored.count = stored.count |+| meta.hashpipe.count; \
            } \
            if (stored.key != meta.hashpipe.key && stored.count < meta.hashpipe.count) { \
                stored.key = meta.hashpipe.key; \
                stored.count = meta.hashpipe.count; \
            } \
        } \
    }; \
    action merge_##N() { \
        meta.hashpipe.stored_key = \
            merge_pair_##N.execute(meta.hashpipe.slot, meta.hashpipe.stored_count, meta.hashpipe.comparison); \
    } \
    NEXT

/* The number of the comparisons (same key, smaller count): bit i is 1 for the outcome i, whose lowest
 * bit is the first comparison. */
#define NEITHER 1
#define LESS 4

/* Between two stages: the slot in stage TO of the key that goes on. */
#define HASHPIPE_CARRY(N, TO) \
    CRC(evicted_crc_##TO, CRC_HASHPIPE_IPV4_##TO, 12) \
    CRC(kept_crc_##TO, CRC_HASHPIPE_IPV4_##TO, 12) \
    action evict_##N() { \
        meta.hashpipe.key = meta.hashpipe.stored_key; \
        meta.hashpipe.count = meta.hashpipe.stored_count; \
        meta.hashpipe.slot[11:0] = evicted_crc_##TO.get({ meta.hashpipe.stored_key }); \
    } \
    action keep_##N() { \
        meta.hashpipe.slot[11:0] = kept_crc_##TO.get({ meta.hashpipe.key }); \
    } \
    table carried_##N { \
        key = { meta.hashpipe.comparison : exact @name("comparison"); } \
        actions = { stop; evict_##N; keep_##N; } \
        default_action = stop(); \
        const entries = { \
            NEITHER: keep_##N(); \
            LESS: evict_##N(); \
        } \
        size = 2; \
    }

/* Behind the last stage the pair is lost. */
#define HASHPIPE_END

#define HASHPIPE_STEP(N) \
    if (meta.hashpipe.count != 0) { \
        merge_##N(); \
        carried_##N.apply(); \
    }
#define HASHPIPE_MERGE_LAST(N) \
    if (meta.hashpipe.count != 0) { \
        merge_##N(); \
    }
#if HASHPIPE_STAGES == 2
#define HASHPIPE_LAST HASHPIPE_MERGE_LAST(1)
#elif HASHPIPE_STAGES == 3
#define HASHPIPE_LAST HASHPIPE_MERGE_LAST(2)
#elif HASHPIPE_STAGES == 4
#define HASHPIPE_LAST HASHPIPE_MERGE_LAST(3)
#elif HASHPIPE_STAGES == 5
#define HASHPIPE_LAST HASHPIPE_MERGE_LAST(4)
#else
#define HASHPIPE_LAST HASHPIPE_MERGE_LAST(5)
#endif

control HashPipe(inout headers_t hdr, inout ingress_meta_t meta) {
    CRC(digest_crc, CRC_HASHPIPE_DIGEST, 32)
    CRC(crc_0, CRC_HASHPIPE_IPV4_0, 12)
    CRC(crc_1, CRC_HASHPIPE_IPV4_1, 12)

    /* The key, and its slot in the first stage. */
#ifdef HASHPIPE_KEY_DIGEST32
    action load_key() {
        meta.hashpipe.key = digest_crc.get(FIVE_TUPLE);
    }
    action first_slot() {
        meta.hashpipe.slot[11:0] = crc_0.get({ meta.hashpipe.key });
    }
#else
    action load_key() {
        meta.hashpipe.key = hdr.ipv4.src;
    }
    action first_slot() {
        meta.hashpipe.slot[11:0] = crc_0.get({ hdr.ipv4.src });
    }
#endif
    /* The copy stands in the slot from the beginning: hash and field in one index do not
     * compile. */
    action load_copy() {
        meta.hashpipe.slot[12:12] = meta.copy;
    }

    /* The first stage always takes the packet's key in. An empty slot needs no case of its own:
     * its count is 0, which ends the processing. */
    Register<pair_t, bit<13>>(WITH_COPIES(HASHPIPE_IPV4_0_CELLS)) ipv4_0;
    RegisterAction2<pair_t, bit<13>, bit<32>, bit<32>>(ipv4_0) insert_pair = {
        void apply(inout pair_t stored, out bit<32> key, out bit<32> count) {
            key = 0;
            count = 0;
            if (stored.key == meta.hashpipe.key) {
                stored.count = stored.count |+| 1;
            } else {
                key = stored.key;
                count = stored.count;
                stored.key = meta.hashpipe.key;
                stored.count = 1;
            }
        }
    };
    action insert() {
        meta.hashpipe.stored_key = insert_pair.execute(meta.hashpipe.slot, meta.hashpipe.count);
    }
    action second_slot() {
        meta.hashpipe.key = meta.hashpipe.stored_key;
        meta.hashpipe.slot[11:0] = crc_1.get({ meta.hashpipe.stored_key });
    }
    action stop() {
        meta.hashpipe.count = 0;
    }

#if HASHPIPE_STAGES > 2
    HASHPIPE_MERGE(1, HASHPIPE_CARRY(1, 2))
#else
    HASHPIPE_MERGE(1, HASHPIPE_END)
#endif
#if HASHPIPE_STAGES > 3
    HASHPIPE_MERGE(2, HASHPIPE_CARRY(2, 3))
#elif HASHPIPE_STAGES > 2
    HASHPIPE_MERGE(2, HASHPIPE_END)
#endif
#if HASHPIPE_STAGES > 4
    HASHPIPE_MERGE(3, HASHPIPE_CARRY(3, 4))
#elif HASHPIPE_STAGES > 3
    HASHPIPE_MERGE(3, HASHPIPE_END)
#endif
#if HASHPIPE_STAGES > 5
    HASHPIPE_MERGE(4, HASHPIPE_CARRY(4, 5))
    HASHPIPE_MERGE(5, HASHPIPE_END)
#elif HASHPIPE_STAGES > 4
    HASHPIPE_MERGE(4, HASHPIPE_END)
#endif

    apply {
        load_key();
        first_slot();
        load_copy();
#if HASHPIPE_SCOPE_NETWORK
        if (meta.is_flow == 1 && meta.is_measured == 1 && meta.is_taken == 1 && meta.enters == 1) {
#else
        if (meta.is_flow == 1 && meta.is_measured == 1 && meta.is_taken == 1) {
#endif
            insert();
            second_slot();
#if HASHPIPE_STAGES > 2
            HASHPIPE_STEP(1)
#endif
#if HASHPIPE_STAGES > 3
            HASHPIPE_STEP(2)
#endif
#if HASHPIPE_STAGES > 4
            HASHPIPE_STEP(3)
#endif
#if HASHPIPE_STAGES > 5
            HASHPIPE_STEP(4)
#endif
            HASHPIPE_LAST
        }
    }
}
