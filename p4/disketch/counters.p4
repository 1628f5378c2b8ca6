/* The fragment's counters: one row of a Count Sketch or Count-Min Sketch, or one for each level of
 * UnivMon. */

typedef bit<DISKETCH_COUNTERS_0_BITS> disketch_counter_t;
#if DISKETCH_SIGNED
typedef int<DISKETCH_COUNTERS_0_BITS> disketch_signed_t;
#endif

/* A row. The packet is added to the flow's counter, or subtracted where the flow's sign is negative.
 * A counter stays at its largest and smallest number. `word` makes the index another one in each
 * level. */
control DiSketchRow(inout metadata_t meta, in bit<1> is_negative)(bit<32> cells, bit<32> word) {
    register<disketch_counter_t>(WITH_COPIES(cells << SUB_EPOCH_COPY_BITS)) counters;
    disketch_counter_t count;
    bit<32> slot;

    /* The highest bits of the index hash. */
    action index() {
        slot = (meta.disketch.crc0 ^ meta.disketch.a ^ word) + meta.disketch.crc1;
        slot = JOIN(slot) >> DISKETCH_INDEX_SHIFT;
    }
    action add() {
        counters.read(count, slot);
#if DISKETCH_SIGNED
        disketch_signed_t weight = (disketch_signed_t) (disketch_counter_t) meta.disketch.weight;
        weight = (is_negative == 1) ? -weight : weight;
        count = (disketch_counter_t) ((disketch_signed_t) count |+| weight);
#else
        count = count |+| (disketch_counter_t) meta.disketch.weight;
#endif
        counters.write(slot, count);
    }

#if DISKETCH_INDEX_SPARE
    /* For a length that is no power of two: the value's remainder, by a range for each multiple of
     * the length. Values below the length match none. */
    action less(bit<32> multiple) {
        slot = slot - multiple;
    }
    table remainder {
        key = { slot : range @name("value"); }
        actions = { less; NoAction; }
        default_action = NoAction();
        size = 32;
    }
#endif

    apply {
        index();
#if DISKETCH_INDEX_SPARE
        remainder.apply();
#endif
        slot = slot + meta.disketch.copy * cells;
        add();
    }
}

#if DISKETCH_LEVELS > 1
/* UnivMon: a flow of depth d is counted in the levels 0 to d, so that each level has half of the
 * flows of the one before. */
control DiSketchDepth(inout metadata_t meta) {
    bit<32> ones = 0;

    action deepest(bit<4> level) {
        meta.disketch.depth = level;
    }
    /* The leading ones of the hash. */
    table levels {
        key = { ones[31:17] : ternary @name("depth"); }
        actions = { deepest; }
        const entries = {
            0x0000 &&& 0x4000: deepest(0);
            0x4000 &&& 0x6000: deepest(1);
            0x6000 &&& 0x7000: deepest(2);
            0x7000 &&& 0x7800: deepest(3);
            0x7800 &&& 0x7c00: deepest(4);
            0x7c00 &&& 0x7e00: deepest(5);
            0x7e00 &&& 0x7f00: deepest(6);
            0x7f00 &&& 0x7f80: deepest(7);
            0x7f80 &&& 0x7fc0: deepest(8);
            0x7fc0 &&& 0x7fe0: deepest(9);
            0x7fe0 &&& 0x7ff0: deepest(10);
            0x7ff0 &&& 0x7ff8: deepest(11);
            0x7ff8 &&& 0x7ffc: deepest(12);
            0x7ffc &&& 0x7ffe: deepest(13);
            0x7ffe &&& 0x7fff: deepest(14);
            0x7fff &&& 0x7fff: deepest(15);
        }
    }

    apply {
        ones = meta.disketch.crc0 + meta.disketch.crc2;
        ones = JOIN(ones);
        levels.apply();
    }
}
#endif
