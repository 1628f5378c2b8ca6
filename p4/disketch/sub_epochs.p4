/* Sub-epochs (section 4.1): the packets of a flow are counted in one of the n sub-epochs of an epoch. */

/* Copies of the counters by sub-epoch, by default one for each. With fewer, sub-epochs in a row share a copy. */
#ifndef SUB_EPOCH_COPY_BITS
#define SUB_EPOCH_COPY_BITS DISKETCH_MAX_CUTS
#endif

/* The running sub-epoch, and whether it is the flow's. Numbers of sub-epochs have six bits; of these a mask keeps the highest log2 n. */
control DiSketchSubEpoch(inout headers_t hdr, inout metadata_t meta) {
    bit<6> kept = 0;
    bit<32> place = 0;

    action cut(bit<6> mask) {
        kept = mask;
    }
    /* The number of sub-epochs, which the switch decides by its error (section 4.2): the controller adds an entry before the epoch begins. */
    table cuts {
        key = { meta.epoch.number[15:0] : exact @name("epoch"); }
        actions = { cut; }
        default_action = cut(0);
        size = 64;
    }

#if DISKETCH_COVER
    /* Eighths of an epoch by which a switch counts later than the first one of the path, by its place on it. */
    action later(bit<3> eighths) {
        place = place + (eighths ++ 29w0);
    }
    table places {
        key = { hdr.shim.hop[2:0] : exact @name("hop"); }
        actions = { later; }
        const entries = {
            1: later(0);
            2: later(6);
            3: later(2);
            4: later(1);
            5: later(4);
            6: later(3);
            7: later(5);
            0: later(7);
        }
    }
#endif

    apply {
        cuts.apply();
        meta.disketch.sample = (meta.disketch.crc2 ^ meta.disketch.b) + meta.disketch.crc1;
        meta.disketch.sample = JOIN(meta.disketch.sample);
#if DISKETCH_COVER
        place = (meta.disketch.crc2 ^ meta.disketch.c) + meta.disketch.crc1;
        place = JOIN(place);
        if (hdr.shim.isValid()) {
            places.apply();
        }
#else
        place = meta.disketch.sample;
#endif
        meta.disketch.sub_epoch = meta.clock.received_ns[EPOCH_SHIFT - 1:EPOCH_SHIFT - 6] & kept;
        meta.disketch.copy = (meta.epoch.copy << SUB_EPOCH_COPY_BITS) + ((bit<32>) meta.disketch.sub_epoch >> (6 - SUB_EPOCH_COPY_BITS));
        bit<6> away = (place[31:26] & kept) ^ meta.disketch.sub_epoch;
        if (away == 0) {
            meta.disketch.is_sampled = 1;
        }
#if DISKETCH_SINGLE_HOP
        /* A flow that this switch alone sees is counted half an epoch later as well (section 4.4). */
        if (away == (0x20 & kept) && meta.port.enters == 1 && meta.port.disposition == TO_HOST) {
            meta.disketch.is_sampled = 1;
        }
#endif
    }
}
