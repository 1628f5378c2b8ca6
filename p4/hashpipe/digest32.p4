/* The stages where a slot holds a digest of the five-tuple: one pair of 32-bit words, as a stateful ALU of Tofino has it. Both address
 * families have these, with arrays of their own. */

/* Stage 1 (Algorithm 3, lines 1 to 17): always takes the packet's key in, and carries on what was there. */
control HashPipeInsertDigest(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) key;
    register<bit<32>>(WITH_COPIES(cells)) count;
    bit<32> stored;
    bit<32> stored_count;
    bit<32> slot;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.digest });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        key.read(stored, slot);
        count.read(stored_count, slot);
    }

    apply {
        crc();
        load();
        if (stored == meta.hashpipe.digest) {
            count.write(slot, stored_count |+| meta.hashpipe.count);
            meta.hashpipe.count = 0;
        } else {
            key.write(slot, meta.hashpipe.digest);
            count.write(slot, meta.hashpipe.count);
            meta.hashpipe.digest = stored;
            meta.hashpipe.count = stored_count;
        }
    }
}

/* Stages 2 to d (lines 18 to 35): keeps the larger of the stored and the carried pair. An empty slot needs no case of its own, since its
 * count of 0 is less than any carried count. */
control HashPipeMergeDigest(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) key;
    register<bit<32>>(WITH_COPIES(cells)) count;
    bit<32> stored;
    bit<32> stored_count;
    bit<32> slot;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.digest });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        key.read(stored, slot);
        count.read(stored_count, slot);
    }

    apply {
        if (meta.hashpipe.count != 0) {
            crc();
            load();
            if (stored == meta.hashpipe.digest) {
                count.write(slot, stored_count |+| meta.hashpipe.count);
                meta.hashpipe.count = 0;
            } else if (stored_count < meta.hashpipe.count) {
                key.write(slot, meta.hashpipe.digest);
                count.write(slot, meta.hashpipe.count);
                meta.hashpipe.digest = stored;
                meta.hashpipe.count = stored_count;
            }
        }
    }
}
