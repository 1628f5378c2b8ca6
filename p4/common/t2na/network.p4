/* What a switch of a network does beside its programs: the roles of ports, the epoch, the shim. */

/* The role of the port that a packet comes in by. A packet from a host gets a shim, one from the
 * fabric is a hop further.
 *
 * The controller writes two entries for each port, without and with a shim: a host's (host,
 * reject) or the fabric's (blank, fabric). One table decides, since a second one would cost all
 * programs a stage. A shim of another version is left as the EtherType, so such a packet has no
 * flow. */
control Arrival(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                inout ingress_intrinsic_metadata_for_deparser_t deparser) {
    /* The packet enters the network here. */
    action host() {
        meta.is_taken = 1;
        meta.enters = 1;
        hdr.shim.setValid();
        hdr.shim.ethertype = ETHERTYPE_SHIM;
        hdr.shim.hop = 1;
        hdr.shim.loops = 0;
        hdr.shim.version = SHIM_VERSION;
        hdr.shim.class = 0;
        hdr.shim.low = 0;
    }
    action fabric() {
        meta.is_taken = 1;
        meta.enters = 0;
    }
    /* From the fabric without a shim: it is no host's, so it is not counted as entering. */
    action blank() {
        meta.is_taken = 1;
        meta.enters = 0;
        hdr.shim.setValid();
        hdr.shim.ethertype = ETHERTYPE_SHIM;
        hdr.shim.hop = 1;
        hdr.shim.loops = 0;
        hdr.shim.version = SHIM_VERSION;
        hdr.shim.epoch = 0;
        hdr.shim.class = 0;
        hdr.shim.low = 0;
    }
    /* A host sends no shims. */
    action reject() {
        meta.is_taken = 0;
        deparser.drop_ctl = 1;
    }
    table roles {
        key = {
            intrinsic.ingress_port : exact @name("port");
            hdr.shim.isValid() : exact @name("has_shim");
        }
        actions = { host; fabric; blank; reject; }
        default_action = reject();
        size = 1024;
    }

    /* The hop count. It shares a byte with `loops`, and an ALU adds to whole containers alone,
     * so a table has the sums: n for n - 1, and 63 for 63. */
    action next_hop(bit<6> hop) {
        hdr.shim.hop = hop;
    }
    table hops {
        key = { hdr.shim.hop : exact @name("hop"); }
        actions = { next_hop; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    action reject_unreadable() {
        deparser.drop_ctl = 1;
    }

    apply {
        switch (roles.apply().action_run) {
            fabric: {
                hops.apply();
            }
        }
        if (meta.is_unreadable == 1) {
            reject_unreadable();
        }
    }
}

/* The running epoch and the copy of the registers that counts it, by the bits of the clock. The
 * controller prepares an epoch before it begins: it clears the copy, and then adds the epoch's
 * entry. Packets of an epoch that nobody prepared are forwarded and counted, not measured. A
 * Tofino cannot swap banks of registers between two packets, so each array has two copies, by
 * the epoch's lowest bit. */
control Epoch(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    Counter<bit<32>, bit<1>>(1, CounterType_t.PACKETS) unprepared;

    action measure(bit<1> copy) {
        meta.copy = copy;
        meta.is_measured = 1;
    }
    action unmeasured() {
        meta.copy = 0;
        unprepared.count(0);
    }
    table prepared {
        key = { intrinsic.ingress_mac_tstamp[EPOCH_SHIFT + 15 : EPOCH_SHIFT] : exact @name("epoch"); }
        actions = { measure; unmeasured; }
        default_action = unmeasured();
        size = 64;
    }

    /* The epoch in which a packet enters the network. Its lowest bits share a byte of the shim with other
     * fields, and go there by a table: a field moves to a part of a container from a place of the
     * same alignment alone. */
    action enter(bit<4> number) {
        hdr.shim.epoch = number;
    }
    table numbers {
        key = { intrinsic.ingress_mac_tstamp[EPOCH_SHIFT + 3 : EPOCH_SHIFT] : exact @name("epoch"); }
        actions = { enter; }
        default_action = enter(0);
        const entries = {
            0: enter(0); 1: enter(1); 2: enter(2); 3: enter(3);
            4: enter(4); 5: enter(5); 6: enter(6); 7: enter(7);
            8: enter(8); 9: enter(9); 10: enter(10); 11: enter(11);
            12: enter(12); 13: enter(13); 14: enter(14); 15: enter(15);
        }
        size = 16;
    }
#ifndef SHIM_DIGEST
    Hash<bit<16>>(HashAlgorithm_t.IDENTITY) upper;
    action enter_low() {
        hdr.shim.low = upper.get({ intrinsic.ingress_mac_tstamp[EPOCH_SHIFT + 19 : EPOCH_SHIFT + 4] });
    }
#endif

    apply {
        prepared.apply();
        if (meta.enters == 1) {
            numbers.apply();
#ifndef SHIM_DIGEST
            enter_low();
#endif
        }
    }
}

/* The output port's role: it says whether the packet leaves the network. */
control Departure(inout egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic) {
    action host() {
        meta.leaves = 1;
    }
    action fabric() {
        meta.leaves = 0;
    }
    table roles {
        key = { intrinsic.egress_port : exact @name("port"); }
        actions = { host; fabric; }
        default_action = host();
        size = 512;
    }

    apply {
        roles.apply();
    }
}
