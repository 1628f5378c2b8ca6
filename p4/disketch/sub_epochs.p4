/* Subepoching (section 4.1): each flow is counted in one of the n sub-epochs of an epoch. */

/* Copies of the counters by sub-epoch, as a number of bits. By default each sub-epoch has one. With
 * fewer, neighbouring sub-epochs share a copy, and are told apart by reading it between them. */
#ifndef SUB_EPOCH_COPY_BITS
#define SUB_EPOCH_COPY_BITS DISKETCH_MAX_CUTS
#endif

/* The running sub-epoch, from the time (section 5, method 2), and whether it is the flow's. Numbers
 * of sub-epochs are the highest log2 n of six bits. */
control DiSketchSubEpoch(inout headers_t hdr, inout metadata_t meta) {
    bit<6> kept = 0;
    bit<32> place = 0;

    action cut(bit<6> mask) {
        kept = mask;
    }
    /* The mask of log2 n bits. The controller computes n from the error of an earlier epoch (section
     * 4.2) and adds the entry before this one begins. Without an entry the epoch is not cut. */
    table cuts {
        key = { meta.epoch.number[15:0] : exact @name("epoch"); }
        actions = { cut; }
        default_action = cut(0);
        size = 64;
    }

#if DISKETCH_COVER
    /* By how many eighths of an epoch a flow is counted later than in the first switch of its path. */
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
        meta.disketch.copy = (bit<32>) meta.disketch.sub_epoch >> (6 - SUB_EPOCH_COPY_BITS);
        meta.disketch.copy = meta.disketch.copy + (meta.epoch.copy << SUB_EPOCH_COPY_BITS);
        bit<6> away = (place[31:26] & kept) ^ meta.disketch.sub_epoch;
        if (away == 0) {
            meta.disketch.is_sampled = 1;
        }
#if DISKETCH_SINGLE_HOP
        /* Single-hop flows are counted half an epoch later as well (section 4.4). */
        if (away == (0x20 & kept) && meta.port.enters == 1 && meta.port.disposition == TO_HOST) {
            meta.disketch.is_sampled = 1;
        }
#endif
    }
}
