/* The stages of IPv6 flows. An array of (key, count) cells is several registers with one index, since a register of BMv2 is one number
 * of at most 63 bits. */

/* Stage 1 (Algorithm 3, lines 1 to 17): always takes the packet's key in, and carries on what was there. */
control HashPipeInsert6(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) src0;
    register<bit<32>>(WITH_COPIES(cells)) src1;
    register<bit<32>>(WITH_COPIES(cells)) src2;
    register<bit<32>>(WITH_COPIES(cells)) src3;
    register<bit<32>>(WITH_COPIES(cells)) dst0;
    register<bit<32>>(WITH_COPIES(cells)) dst1;
    register<bit<32>>(WITH_COPIES(cells)) dst2;
    register<bit<32>>(WITH_COPIES(cells)) dst3;
    register<bit<32>>(WITH_COPIES(cells)) ports;
    register<bit<8>>(WITH_COPIES(cells)) proto;
    register<bit<32>>(WITH_COPIES(cells)) count;
    key6_t stored;
    bit<32> stored_count;
    bit<32> slot;
    bit<32> word;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.key6.src, meta.hashpipe.key6.dst, meta.hashpipe.key6.ports, meta.hashpipe.key6.proto });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        src0.read(word, slot);
        stored.src[127:96] = word;
        src1.read(word, slot);
        stored.src[95:64] = word;
        src2.read(word, slot);
        stored.src[63:32] = word;
        src3.read(word, slot);
        stored.src[31:0] = word;
        dst0.read(word, slot);
        stored.dst[127:96] = word;
        dst1.read(word, slot);
        stored.dst[95:64] = word;
        dst2.read(word, slot);
        stored.dst[63:32] = word;
        dst3.read(word, slot);
        stored.dst[31:0] = word;
        ports.read(stored.ports, slot);
        proto.read(stored.proto, slot);
        count.read(stored_count, slot);
    }
    action store() {
        src0.write(slot, meta.hashpipe.key6.src[127:96]);
        src1.write(slot, meta.hashpipe.key6.src[95:64]);
        src2.write(slot, meta.hashpipe.key6.src[63:32]);
        src3.write(slot, meta.hashpipe.key6.src[31:0]);
        dst0.write(slot, meta.hashpipe.key6.dst[127:96]);
        dst1.write(slot, meta.hashpipe.key6.dst[95:64]);
        dst2.write(slot, meta.hashpipe.key6.dst[63:32]);
        dst3.write(slot, meta.hashpipe.key6.dst[31:0]);
        ports.write(slot, meta.hashpipe.key6.ports);
        proto.write(slot, meta.hashpipe.key6.proto);
    }

    apply {
        crc();
        load();
        if (stored == meta.hashpipe.key6) {
            count.write(slot, stored_count |+| meta.hashpipe.count);
            meta.hashpipe.count = 0;
        } else {
            store();
            count.write(slot, meta.hashpipe.count);
            meta.hashpipe.key6 = stored;
            meta.hashpipe.count = stored_count;
        }
    }
}

/* Stages 2 to d (lines 18 to 35): keeps the larger of the stored and the carried pair. An empty slot needs no case of its own, since its
 * count of 0 is less than any carried count. */
control HashPipeMerge6(inout metadata_t meta)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) src0;
    register<bit<32>>(WITH_COPIES(cells)) src1;
    register<bit<32>>(WITH_COPIES(cells)) src2;
    register<bit<32>>(WITH_COPIES(cells)) src3;
    register<bit<32>>(WITH_COPIES(cells)) dst0;
    register<bit<32>>(WITH_COPIES(cells)) dst1;
    register<bit<32>>(WITH_COPIES(cells)) dst2;
    register<bit<32>>(WITH_COPIES(cells)) dst3;
    register<bit<32>>(WITH_COPIES(cells)) ports;
    register<bit<8>>(WITH_COPIES(cells)) proto;
    register<bit<32>>(WITH_COPIES(cells)) count;
    key6_t stored;
    bit<32> stored_count;
    bit<32> slot;
    bit<32> word;

    action crc() {
        CRC_MODULO(slot, cells, { meta.hashpipe.key6.src, meta.hashpipe.key6.dst, meta.hashpipe.key6.ports, meta.hashpipe.key6.proto });
        slot = slot + meta.epoch.copy * cells;
    }
    action load() {
        src0.read(word, slot);
        stored.src[127:96] = word;
        src1.read(word, slot);
        stored.src[95:64] = word;
        src2.read(word, slot);
        stored.src[63:32] = word;
        src3.read(word, slot);
        stored.src[31:0] = word;
        dst0.read(word, slot);
        stored.dst[127:96] = word;
        dst1.read(word, slot);
        stored.dst[95:64] = word;
        dst2.read(word, slot);
        stored.dst[63:32] = word;
        dst3.read(word, slot);
        stored.dst[31:0] = word;
        ports.read(stored.ports, slot);
        proto.read(stored.proto, slot);
        count.read(stored_count, slot);
    }
    action store() {
        src0.write(slot, meta.hashpipe.key6.src[127:96]);
        src1.write(slot, meta.hashpipe.key6.src[95:64]);
        src2.write(slot, meta.hashpipe.key6.src[63:32]);
        src3.write(slot, meta.hashpipe.key6.src[31:0]);
        dst0.write(slot, meta.hashpipe.key6.dst[127:96]);
        dst1.write(slot, meta.hashpipe.key6.dst[95:64]);
        dst2.write(slot, meta.hashpipe.key6.dst[63:32]);
        dst3.write(slot, meta.hashpipe.key6.dst[31:0]);
        ports.write(slot, meta.hashpipe.key6.ports);
        proto.write(slot, meta.hashpipe.key6.proto);
    }

    apply {
        if (meta.hashpipe.count != 0) {
            crc();
            load();
            if (stored == meta.hashpipe.key6) {
                count.write(slot, stored_count |+| meta.hashpipe.count);
                meta.hashpipe.count = 0;
            } else if (stored_count < meta.hashpipe.count) {
                store();
                count.write(slot, meta.hashpipe.count);
                meta.hashpipe.key6 = stored;
                meta.hashpipe.count = stored_count;
            }
        }
    }
}
