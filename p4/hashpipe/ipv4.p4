/* The stages of IPv4 flows. An array of (key, count) cells is several registers with one index, since a register of BMv2 is one number
 * of at most 63 bits. */

/* Stage 1 (Algorithm 3, lines 1 to 17): always takes the packet's key in, and carries on what was there. */
control HashPipeInsert4(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) src;
    register<bit<32>>(WITH_COPIES(cells)) dst;
    register<bit<32>>(WITH_COPIES(cells)) ports;
    register<bit<8>>(WITH_COPIES(cells)) proto;
    register<bit<32>>(WITH_COPIES(cells)) count;
    key4_t stored;
    bit<32> stored_count;
    bit<32> slot;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.key4.src, meta.hashpipe.key4.dst, meta.hashpipe.key4.ports, meta.hashpipe.key4.proto });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        src.read(stored.src, slot);
        dst.read(stored.dst, slot);
        ports.read(stored.ports, slot);
        proto.read(stored.proto, slot);
        count.read(stored_count, slot);
    }
    action store() {
        src.write(slot, meta.hashpipe.key4.src);
        dst.write(slot, meta.hashpipe.key4.dst);
        ports.write(slot, meta.hashpipe.key4.ports);
        proto.write(slot, meta.hashpipe.key4.proto);
    }

    apply {
        crc();
        load();
        if (stored == meta.hashpipe.key4) {
            count.write(slot, stored_count |+| meta.hashpipe.count);
            meta.hashpipe.count = 0;
        } else {
            store();
            count.write(slot, meta.hashpipe.count);
            meta.hashpipe.key4 = stored;
            meta.hashpipe.count = stored_count;
        }
    }
}

/* Stages 2 to d (lines 18 to 35): keeps the larger of the stored and the carried pair. An empty slot needs no case of its own, since its
 * count of 0 is less than any carried count. */
control HashPipeMerge4(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) src;
    register<bit<32>>(WITH_COPIES(cells)) dst;
    register<bit<32>>(WITH_COPIES(cells)) ports;
    register<bit<8>>(WITH_COPIES(cells)) proto;
    register<bit<32>>(WITH_COPIES(cells)) count;
    key4_t stored;
    bit<32> stored_count;
    bit<32> slot;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.key4.src, meta.hashpipe.key4.dst, meta.hashpipe.key4.ports, meta.hashpipe.key4.proto });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        src.read(stored.src, slot);
        dst.read(stored.dst, slot);
        ports.read(stored.ports, slot);
        proto.read(stored.proto, slot);
        count.read(stored_count, slot);
    }
    action store() {
        src.write(slot, meta.hashpipe.key4.src);
        dst.write(slot, meta.hashpipe.key4.dst);
        ports.write(slot, meta.hashpipe.key4.ports);
        proto.write(slot, meta.hashpipe.key4.proto);
    }

    apply {
        if (meta.hashpipe.count != 0) {
            crc();
            load();
            if (stored == meta.hashpipe.key4) {
                count.write(slot, stored_count |+| meta.hashpipe.count);
                meta.hashpipe.count = 0;
            } else if (stored_count < meta.hashpipe.count) {
                store();
                count.write(slot, meta.hashpipe.count);
                meta.hashpipe.key4 = stored;
                meta.hashpipe.count = stored_count;
            }
        }
    }
}
