/* ChameleMon (Yang et al., SIGCOMM 2023): which flows lost how many packets. The arrays are those
 * of src/program/chamelemon. */

#include "chamelemon/flow_hashes.p4"
#include "chamelemon/tower_sketch.p4"
#include "chamelemon/class_table.p4"
#include "chamelemon/fermat_sketch.p4"

/* Where a packet enters the network: it is counted in the classifier, and its class says which part
 * of the upstream encoder takes it, and what it carries on. */
control ChameleMonIngress(inout headers_t hdr, inout metadata_t meta) {
    FlowHashes() hashes;
    TowerSketch() tower;
    ClassTable() classes;
    FermatSketch(CHAMELEMON_UPSTREAM_CELLS, CHAMELEMON_UPSTREAM_SMALL_CELLS) upstream;
    /* Packets of IPv6 flows that were encoded: their digests have no names here. */
    register<bit<32>>(WITH_COPIES(1)) unnamed;
    bit<32> packets = 0;

    /* The part of a class, and the class that its packets carry on: none where no part of the
     * downstream encoder takes them. */
    action encode(bit<2> carried, bit<32> offset, bit<8> shift, bit<32> slots,
                  bit<32> small_offset, bit<8> small_shift, bit<32> small_slots) {
        meta.class = carried;
        meta.chamelemon.part.full = { offset, shift, slots };
        meta.chamelemon.part.small = { small_offset, small_shift, small_slots };
    }
    table upstream_parts {
        key = {
            meta.epoch.number[15:0] : exact @name("epoch");
            meta.chamelemon.class : exact @name("class");
        }
        actions = { encode; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        bool is_counted = meta.port.enters == 1 && meta.epoch.measured == 1;
        /* The hashes go along to egress, for packets that leave. */
        if (meta.net != NET_OTHER && (is_counted || meta.class != CLASS_NONE)) {
            hashes.apply(meta);
            if (is_counted) {
                tower.apply(meta);
                classes.apply(meta);
                if (upstream_parts.apply().hit) {
                    upstream.apply(meta.chamelemon, meta.epoch.copy);
                    if (meta.net == NET_IPV6) {
                        unnamed.read(packets, meta.epoch.copy);
                        unnamed.write(meta.epoch.copy, packets + 1);
                    }
                }
            }
        }
    }
}

/* Where a packet leaves the network: the downstream encoder takes it by the class and the epoch
 * that it carries. The copies of the arrays are those of the epoch in which it entered, so that the
 * encoders of both switches hold the same packets. */
control ChameleMonEgress(inout headers_t hdr, inout metadata_t meta) {
    FermatSketch(CHAMELEMON_DOWNSTREAM_CELLS, CHAMELEMON_DOWNSTREAM_SMALL_CELLS) downstream;
    /* Packets that left in an epoch that is not open, and those that are one of several (class 3),
     * by the epoch in which they entered. */
    register<bit<32>>(WITH_COPIES(1)) strays;
    register<bit<32>>(WITH_COPIES(1)) unfollowed;
    bit<32> copy;
    bit<32> packets;

    action encode(bit<32> offset, bit<8> shift, bit<32> slots,
                  bit<32> small_offset, bit<8> small_shift, bit<32> small_slots) {
        meta.chamelemon.part.full = { offset, shift, slots };
        meta.chamelemon.part.small = { small_offset, small_shift, small_slots };
    }
    action count_unfollowed() {
        unfollowed.read(packets, copy);
        unfollowed.write(copy, packets + 1);
    }
    action count_stray() {
        strays.read(packets, copy);
        strays.write(copy, packets + 1);
    }
    table downstream_parts {
        key = {
            meta.epoch.entered : exact @name("epoch");
            meta.class : exact @name("class");
        }
        actions = { encode; count_unfollowed; count_stray; }
        default_action = count_stray();
        size = 256;
    }

    apply {
        if (meta.net != NET_OTHER && meta.class != CLASS_NONE && meta.port.disposition == TO_HOST) {
            copy = (bit<32>) meta.epoch.entered[EPOCH_COPY_BITS - 1:0];
            switch (downstream_parts.apply().action_run) {
                encode: {
                    downstream.apply(meta.chamelemon, copy);
                }
                default: { }
            }
        }
    }
}
