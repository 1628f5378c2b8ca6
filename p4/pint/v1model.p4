/* PINT (Ben Basat et al., SIGCOMM 2020): what the packets of a flow meet on their way, on 16 bits of
 * each. The hashes and codes are those of src/program/pint. */

/* Puts a query's bits into the digest. */
#define PUT_PART(DIGEST, PLACE, PART) \
    DIGEST = DIGEST & ~(PLACE.mask << PLACE.shift) | (PART & PLACE.mask) << PLACE.shift

#include "pint/global_hash.p4"
#include "pint/identity.p4"
#include "pint/query_engine.p4"
#if PINT_PATH_INSTANCES > 0
#include "pint/path.p4"
#endif
#if PINT_VALUES > 0
#include "pint/codes.p4"
#include "pint/values.p4"
#endif
#ifdef PINT_TICK_SHIFT
#include "pint/utilisation.p4"
#endif

control Pint(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Identity() identity;
#ifdef PINT_TICK_SHIFT
    LinkUtilisation() utilisation;
#endif
    QueryEngine() query_engine;
    /* Packets that left the network, by the lowest bits of the running epoch: nobody reports their digests. */
    register<bit<32>>(WITH_COPIES(1)) unreported;
    bit<32> packets = 0;
#if PINT_PATH_INSTANCES > 0
    PathEncoding() path;
#endif
#if PINT_VALUES > 0
    ValueEncoding(PINT_VALUE_0, PINT_VALUE_0_AGGREGATION, PINT_VALUE_0_LAST, PINT_VALUE_0_STEP) value_0;
#endif
#if PINT_VALUES > 1
    ValueEncoding(PINT_VALUE_1, PINT_VALUE_1_AGGREGATION, PINT_VALUE_1_LAST, PINT_VALUE_1_STEP) value_1;
#endif
#if PINT_VALUES > 2
    ValueEncoding(PINT_VALUE_2, PINT_VALUE_2_AGGREGATION, PINT_VALUE_2_LAST, PINT_VALUE_2_STEP) value_2;
#endif
#if PINT_VALUES > 3
    ValueEncoding(PINT_VALUE_3, PINT_VALUE_3_AGGREGATION, PINT_VALUE_3_LAST, PINT_VALUE_3_STEP) value_3;
#endif

#define ENCODE_VALUE(VALUE) \
    if (meta.pint.VALUE.mask != 0) { \
        bit<16> part = meta.digest >> meta.pint.VALUE.shift & meta.pint.VALUE.mask; \
        VALUE.apply(meta, standard.egress_port, part); \
        PUT_PART(meta.digest, meta.pint.VALUE, part); \
    }

    apply {
#ifdef PINT_TICK_SHIFT
        utilisation.apply(meta, standard.egress_port);
#endif
        bool is_counted = meta.port.enters == 1 || hdr.shim.isValid();
        if (!is_counted || meta.fragment != FRAGMENT_NONE) {
            /* The number of switches before this one is not known, or packets before had another
             * identity. The highest count says so to all switches behind. */
            meta.hop = MAX_HOP;
        } else {
            if (meta.port.disposition == TO_HOST && meta.epoch.measured == 1) {
                unreported.read(packets, meta.epoch.copy);
                unreported.write(meta.epoch.copy, packets + 1);
            }
            /* At the first hop nothing stands in the digest. */
            if (meta.hop == 1) {
                meta.digest = 0;
            }
            identity.apply(hdr, meta);
            query_engine.apply(meta);
#if PINT_PATH_INSTANCES > 0
            path.apply(meta);
#endif
#if PINT_VALUES > 0
            ENCODE_VALUE(value_0)
#endif
#if PINT_VALUES > 1
            ENCODE_VALUE(value_1)
#endif
#if PINT_VALUES > 2
            ENCODE_VALUE(value_2)
#endif
#if PINT_VALUES > 3
            ENCODE_VALUE(value_3)
#endif
        }
    }
}
