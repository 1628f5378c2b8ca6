/* The flow classifier (§3.2.1): a TowerSketch, arrays of saturating counters of several widths. All
 * ones is infinity, and the smallest counter of a flow is its size. */

const bit<32> INFINITE = 0xffffffff;

control TowerArray8(in bit<32> index_hash, in bit<32> copy, inout bit<32> estimate)(bit<32> cells, bit<8> shift) {
    register<bit<8>>(WITH_COPIES(cells)) counters;
    bit<8> counter;
    bit<32> slot;

    action locate() {
        slot = index_hash >> shift;
        MODULO(slot, slot, cells);
        slot = slot + copy * cells;
    }
    action increment() {
        counters.read(counter, slot);
        counter = counter |+| 1;
        counters.write(slot, counter);
    }

    apply {
        locate();
        increment();
        if (counter != 0xff && (bit<32>) counter < estimate) {
            estimate = (bit<32>) counter;
        }
    }
}

control TowerArray16(in bit<32> index_hash, in bit<32> copy, inout bit<32> estimate)(bit<32> cells, bit<8> shift) {
    register<bit<16>>(WITH_COPIES(cells)) counters;
    bit<16> counter;
    bit<32> slot;

    action locate() {
        slot = index_hash >> shift;
        MODULO(slot, slot, cells);
        slot = slot + copy * cells;
    }
    action increment() {
        counters.read(counter, slot);
        counter = counter |+| 1;
        counters.write(slot, counter);
    }

    apply {
        locate();
        increment();
        if (counter != 0xffff && (bit<32>) counter < estimate) {
            estimate = (bit<32>) counter;
        }
    }
}

control TowerArray32(in bit<32> index_hash, in bit<32> copy, inout bit<32> estimate)(bit<32> cells, bit<8> shift) {
    register<bit<32>>(WITH_COPIES(cells)) counters;
    bit<32> counter;
    bit<32> slot;

    action locate() {
        slot = index_hash >> shift;
        MODULO(slot, slot, cells);
        slot = slot + copy * cells;
    }
    action increment() {
        counters.read(counter, slot);
        counter = counter |+| 1;
        counters.write(slot, counter);
    }

    apply {
        locate();
        increment();
        if (counter < estimate) {
            estimate = counter;
        }
    }
}

#define TOWER_ARRAY_OF(BITS) TowerArray ## BITS
#define TOWER_ARRAY(BITS) TOWER_ARRAY_OF(BITS)

control TowerSketch(inout metadata_t meta) {
    TOWER_ARRAY(CHAMELEMON_TOWER_0_BITS)(CHAMELEMON_TOWER_0_CELLS, CHAMELEMON_TOWER_0_SHIFT) level_0;
#if CHAMELEMON_LEVELS > 1
    TOWER_ARRAY(CHAMELEMON_TOWER_1_BITS)(CHAMELEMON_TOWER_1_CELLS, CHAMELEMON_TOWER_1_SHIFT) level_1;
#endif
#if CHAMELEMON_LEVELS > 2
    TOWER_ARRAY(CHAMELEMON_TOWER_2_BITS)(CHAMELEMON_TOWER_2_CELLS, CHAMELEMON_TOWER_2_SHIFT) level_2;
#endif
#if CHAMELEMON_LEVELS > 3
    TOWER_ARRAY(CHAMELEMON_TOWER_3_BITS)(CHAMELEMON_TOWER_3_CELLS, CHAMELEMON_TOWER_3_SHIFT) level_3;
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
