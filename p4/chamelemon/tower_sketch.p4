/* The flow classifier (§3.2.1): a TowerSketch, arrays of saturating counters of several widths. All
 * ones is infinity, and the smallest counter of a flow is its size. */

const bit<32> INFINITE = 0xffffffff;

/* Counters of one width, which `infinity` says. */
control TowerArray(in bit<32> index_hash, in bit<32> copy, inout bit<32> estimate)
                  (bit<32> cells, bit<8> shift, bit<32> infinity) {
    register<bit<32>>(WITH_COPIES(cells)) counters;
    bit<32> slot;
    bit<32> size;

    action locate() {
        slot = index_hash >> shift;
        MODULO(slot, slot, cells);
        slot = slot + copy * cells;
    }
    action increment() {
        counters.read(size, slot);
        size = size == infinity ? infinity : size + 1;
        counters.write(slot, size);
    }

    apply {
        locate();
        increment();
        if (size != infinity && size < estimate) {
            estimate = size;
        }
    }
}

control TowerSketch(inout metadata_t meta) {
    TowerArray(CHAMELEMON_TOWER_0_CELLS, CHAMELEMON_TOWER_0_SHIFT, CHAMELEMON_TOWER_0_INFINITY) level_0;
#if CHAMELEMON_LEVELS > 1
    TowerArray(CHAMELEMON_TOWER_1_CELLS, CHAMELEMON_TOWER_1_SHIFT, CHAMELEMON_TOWER_1_INFINITY) level_1;
#endif
#if CHAMELEMON_LEVELS > 2
    TowerArray(CHAMELEMON_TOWER_2_CELLS, CHAMELEMON_TOWER_2_SHIFT, CHAMELEMON_TOWER_2_INFINITY) level_2;
#endif
#if CHAMELEMON_LEVELS > 3
    TowerArray(CHAMELEMON_TOWER_3_CELLS, CHAMELEMON_TOWER_3_SHIFT, CHAMELEMON_TOWER_3_INFINITY) level_3;
#endif

    apply {
        meta.chamelemon.estimate = INFINITE;
        level_0.apply(meta.chamelemon.hashes.level_0, meta.epoch.copy, meta.chamelemon.estimate);
#if CHAMELEMON_LEVELS > 1
        level_1.apply(meta.chamelemon.hashes.level_1, meta.epoch.copy, meta.chamelemon.estimate);
#endif
#if CHAMELEMON_LEVELS > 2
        level_2.apply(meta.chamelemon.hashes.level_2, meta.epoch.copy, meta.chamelemon.estimate);
#endif
#if CHAMELEMON_LEVELS > 3
        level_3.apply(meta.chamelemon.hashes.level_3, meta.epoch.copy, meta.chamelemon.estimate);
#endif
    }
}
