/* DiSketch (Langlet et al., "Sketch Disaggregation Across Time and Space", 2025): the fragment of a
 * sketch that this switch holds. The arrays are those of src/program/disketch. With single_hop it is
 * in the egress pipeline, where the output port's role is known. */

#include "disketch/hashes.p4"
#include "disketch/sub_epochs.p4"
#include "disketch/counters.p4"

control DiSketch(inout headers_t hdr, inout metadata_t meta) {
    DiSketchCrcs() crcs;
    DiSketchSubEpoch() sub_epoch;
    DiSketchRow(DISKETCH_COUNTERS_0_CELLS, 0) level_0;
#if DISKETCH_LEVELS > 1
    DiSketchDepth() depth;
    DiSketchRow(DISKETCH_COUNTERS_1_CELLS, 1 * DISKETCH_LEVEL_WORD) level_1;
    DiSketchRow(DISKETCH_COUNTERS_2_CELLS, 2 * DISKETCH_LEVEL_WORD) level_2;
    DiSketchRow(DISKETCH_COUNTERS_3_CELLS, 3 * DISKETCH_LEVEL_WORD) level_3;
    DiSketchRow(DISKETCH_COUNTERS_4_CELLS, 4 * DISKETCH_LEVEL_WORD) level_4;
    DiSketchRow(DISKETCH_COUNTERS_5_CELLS, 5 * DISKETCH_LEVEL_WORD) level_5;
    DiSketchRow(DISKETCH_COUNTERS_6_CELLS, 6 * DISKETCH_LEVEL_WORD) level_6;
    DiSketchRow(DISKETCH_COUNTERS_7_CELLS, 7 * DISKETCH_LEVEL_WORD) level_7;
    DiSketchRow(DISKETCH_COUNTERS_8_CELLS, 8 * DISKETCH_LEVEL_WORD) level_8;
    DiSketchRow(DISKETCH_COUNTERS_9_CELLS, 9 * DISKETCH_LEVEL_WORD) level_9;
    DiSketchRow(DISKETCH_COUNTERS_10_CELLS, 10 * DISKETCH_LEVEL_WORD) level_10;
    DiSketchRow(DISKETCH_COUNTERS_11_CELLS, 11 * DISKETCH_LEVEL_WORD) level_11;
    DiSketchRow(DISKETCH_COUNTERS_12_CELLS, 12 * DISKETCH_LEVEL_WORD) level_12;
    DiSketchRow(DISKETCH_COUNTERS_13_CELLS, 13 * DISKETCH_LEVEL_WORD) level_13;
    DiSketchRow(DISKETCH_COUNTERS_14_CELLS, 14 * DISKETCH_LEVEL_WORD) level_14;
    DiSketchRow(DISKETCH_COUNTERS_15_CELLS, 15 * DISKETCH_LEVEL_WORD) level_15;
#endif

    action constants(bit<32> a, bit<32> b, bit<32> c) {
        meta.disketch.a = a;
        meta.disketch.b = b;
        meta.disketch.c = c;
    }
    /* The constants of this switch and epoch. They replace the hash functions of each epoch and
     * fragment (section 4.1): flows that collide here and now seldom do elsewhere or later. */
    table epochs {
        key = { meta.epoch.number[15:0] : exact @name("epoch"); }
        actions = { constants; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action weigh() {
#if DISKETCH_COUNT_BYTES
        meta.disketch.weight = meta.wire_bytes;
#if DISKETCH_COUNTERS_0_BITS < 32
        meta.disketch.weight = (meta.wire_bytes > DISKETCH_MAX_WEIGHT) ? DISKETCH_MAX_WEIGHT : meta.wire_bytes;
#endif
#else
        meta.disketch.weight = 1;
#endif
    }

    apply {
        if (meta.net != NET_OTHER && epochs.apply().hit) {
            crcs.apply(meta);
            sub_epoch.apply(hdr, meta);
            if (meta.disketch.is_sampled == 1) {
                weigh();
                level_0.apply(meta, meta.disketch.sample[25:25]);
#if DISKETCH_LEVELS > 1
                depth.apply(meta);
                if (meta.disketch.depth >= 1) {
                    level_1.apply(meta, meta.disketch.sample[24:24]);
                }
                if (meta.disketch.depth >= 2) {
                    level_2.apply(meta, meta.disketch.sample[23:23]);
                }
                if (meta.disketch.depth >= 3) {
                    level_3.apply(meta, meta.disketch.sample[22:22]);
                }
                if (meta.disketch.depth >= 4) {
                    level_4.apply(meta, meta.disketch.sample[21:21]);
                }
                if (meta.disketch.depth >= 5) {
                    level_5.apply(meta, meta.disketch.sample[20:20]);
                }
                if (meta.disketch.depth >= 6) {
                    level_6.apply(meta, meta.disketch.sample[19:19]);
                }
                if (meta.disketch.depth >= 7) {
                    level_7.apply(meta, meta.disketch.sample[18:18]);
                }
                if (meta.disketch.depth >= 8) {
                    level_8.apply(meta, meta.disketch.sample[17:17]);
                }
                if (meta.disketch.depth >= 9) {
                    level_9.apply(meta, meta.disketch.sample[16:16]);
                }
                if (meta.disketch.depth >= 10) {
                    level_10.apply(meta, meta.disketch.sample[15:15]);
                }
                if (meta.disketch.depth >= 11) {
                    level_11.apply(meta, meta.disketch.sample[14:14]);
                }
                if (meta.disketch.depth >= 12) {
                    level_12.apply(meta, meta.disketch.sample[13:13]);
                }
                if (meta.disketch.depth >= 13) {
                    level_13.apply(meta, meta.disketch.sample[12:12]);
                }
                if (meta.disketch.depth >= 14) {
                    level_14.apply(meta, meta.disketch.sample[11:11]);
                }
                if (meta.disketch.depth >= 15) {
                    level_15.apply(meta, meta.disketch.sample[10:10]);
                }
#endif
            }
        }
    }
}
