/* What a switch of a network does beside its programs: the roles of ports, the epoch, the shim. */

/* The role of the port that a packet comes in by, and what its shim says. */
control Arrival(inout headers_t hdr, inout metadata_t meta) {
    bool rejects = false;
#ifdef TEST_CLOCK
    /* All packets so far, by which a test knows that it has ended. */
    register<bit<32>>(1) packets;
    bit<32> number = 0;
#endif

    action host() {
        meta.port.enters = 1;
        /* A host sends no shims. */
        rejects = hdr.shim.isValid();
    }
    action fabric() {
        meta.port.enters = 0;
    }
    table roles {
        key = { meta.port.ingress : exact; }
        actions = { host; fabric; }
        default_action = host();
        size = 512;
    }

    apply {
#ifdef TEST_CLOCK
        packets.read(number, 0);
        packets.write(0, number + 1);
#endif
        roles.apply();
        /* A shim of a version that is not known was left as the EtherType. */
        if (!hdr.ethertype.isValid() || hdr.ethertype.value == ETHERTYPE_SHIM || rejects) {
            meta.port.is_rejected = 1;
        } else if (hdr.shim.isValid()) {
            meta.hop = hdr.shim.hop;
            if (meta.hop != MAX_HOP) {
                meta.hop = meta.hop + 1;
            }
            meta.digest = hdr.shim.low;
            meta.class = hdr.shim.class;
        } else {
            meta.hop = 1;
        }
    }
}

/* The running epoch, and the copy of the registers that counts it. The controller prepares an epoch before it begins: it clears
 * the copy, and then adds the epoch's entry. Packets of an epoch that nobody prepared are forwarded and counted, not measured. */
control Epoch(inout headers_t hdr, inout metadata_t meta) {
    register<bit<32>>(1) unprepared;
    bit<32> packets = 0;
#ifndef TEST_CLOCK
    /* The wall clock in nanoseconds at which BMv2's own clock was 0. The controller writes it; without
     * it the epochs begin with the switch. */
    register<bit<64>>(1) clock_offset;
    bit<64> offset_ns = 0;
#endif

    action measure(bit<32> copy) {
        meta.epoch.copy = copy;
        meta.epoch.measured = 1;
    }
    action unmeasured() {
        unprepared.read(packets, 0);
        unprepared.write(0, packets + 1);
    }
    table prepared {
        key = { meta.epoch.number[15:0] : exact @name("epoch"); }
        actions = { measure; unmeasured; }
        default_action = unmeasured();
        size = 64;
    }

    apply {
#ifndef TEST_CLOCK
        clock_offset.read(offset_ns, 0);
        meta.clock.received_ns = meta.clock.received_ns + offset_ns;
#endif
        meta.epoch.number = meta.clock.received_ns >> EPOCH_SHIFT;
        prepared.apply();
        if (meta.port.enters == 1) {
            meta.epoch.entered = meta.epoch.number[19:0];
        } else if (hdr.shim.isValid()) {
#ifdef SHIM_DIGEST
            /* The epoch nearest to the running one with the four bits of the shim. Of two that are equally near, the earlier one. */
            bit<4> ahead = hdr.shim.epoch - meta.epoch.number[3:0];
            meta.epoch.entered = meta.epoch.number[19:0] + (bit<20>) ahead;
            if (ahead >= 8) {
                meta.epoch.entered = meta.epoch.entered - 16;
            }
#else
            meta.epoch.entered = hdr.shim.low ++ hdr.shim.epoch;
#endif
        }
    }
}

/* The output port's role: it says whether the packet leaves the network. */
control Departure(inout headers_t hdr, inout metadata_t meta, in bit<9> egress_port) {
    action host() {
        meta.port.disposition = TO_HOST;
    }
    action fabric() {
        meta.port.disposition = TO_FABRIC;
    }
    table roles {
        key = { egress_port : exact; }
        actions = { host; fabric; }
        default_action = host();
        size = 512;
    }

    apply {
        roles.apply();
    }
}

/* A shim goes on where a packet enters the fabric, and comes off before a host. */
control Shim(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (meta.port.disposition == TO_HOST) {
            hdr.shim.setInvalid();
        } else {
            if (!hdr.shim.isValid()) {
                hdr.shim.setValid();
                hdr.shim.ethertype = ETHERTYPE_SHIM;
                hdr.shim.loops = 0;
                hdr.shim.version = SHIM_VERSION;
            }
            hdr.shim.hop = meta.hop;
            hdr.shim.class = meta.class;
            hdr.shim.epoch = meta.epoch.entered[3:0];
#ifdef SHIM_DIGEST
            hdr.shim.low = meta.digest;
#else
            hdr.shim.low = meta.epoch.entered[19:4];
#endif
        }
    }
}
