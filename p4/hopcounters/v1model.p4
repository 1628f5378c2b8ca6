/* Hop counters: packets that came in by each port and packets that left by it, by group of flows and by
 * the epoch that they carry. Counters at both ends of a link differ by what the link lost. The arrays
 * are those of src/program/hopcounters. */

/* The group of a flow: the highest bits of its index hash, the same in all switches of a network. */
control HopGroup(inout metadata_t meta) {
    bit<32> shared = 0;
    bit<32> sum = 0;

    action ipv4_shared() {
        CRC(shared, { meta.flow.src[31:0], meta.flow.dst[31:0], meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
    action ipv4_group() {
        CRC(sum, { meta.flow.src[31:0], meta.flow.dst[31:0], meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
    action ipv6_shared() {
        CRC(shared, { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
    action ipv6_group() {
        CRC(sum, { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }

    apply {
        if (meta.net == NET_IPV4) {
            ipv4_shared();
            ipv4_group();
        } else {
            ipv6_shared();
            ipv6_group();
        }
        sum = sum + shared;
        meta.hopcounters.group = (sum ^ (sum << 16)) >> HOPCOUNTERS_GROUP_SHIFT;
    }
}

/* Where a packet comes in, after its port's role and its epoch are known. */
control HopCountersIngress(inout metadata_t meta) {
    HopGroup() group;
    register<bit<32>>(WITH_COPIES(HOPCOUNTERS_PORTS * HOPCOUNTERS_GROUPS)) received;
    /* Packets of epochs that are not counted, by the lowest bits of the epoch that they carry. */
    register<bit<32>>(WITH_COPIES(1)) late;
    bit<32> copy = 0;
    bit<32> cell = 0;
    bit<32> packets = 0;

    action count() {
        meta.hopcounters.is_counted = 1;
        meta.hopcounters.first_cell = copy * (HOPCOUNTERS_PORTS * HOPCOUNTERS_GROUPS);
    }
    action count_late() {
        late.read(packets, copy);
        late.write(copy, packets |+| 1);
    }
    /* The epochs that are counted. A packet counts in the epoch that it carries, at each hop in the
     * same one. */
    table epochs {
        key = { meta.epoch.entered : exact @name("epoch"); }
        actions = { count; count_late; }
        default_action = count_late();
        size = 64;
    }

    apply {
        copy = (bit<32>) meta.epoch.entered[EPOCH_COPY_BITS - 1:0];
        /* Other packets have not the same five-tuple at each hop. */
        if (meta.net != NET_OTHER && meta.fragment == FRAGMENT_NONE && epochs.apply().hit) {
            group.apply(meta);
            if (meta.port.ingress < HOPCOUNTERS_PORTS) {
                cell = meta.hopcounters.first_cell + (bit<32>) meta.port.ingress * HOPCOUNTERS_GROUPS
                    + meta.hopcounters.group;
                received.read(packets, cell);
                received.write(cell, packets |+| 1);
            }
        }
    }
}

/* Where it leaves, to a host or to another switch. */
control HopCountersEgress(inout metadata_t meta, in bit<9> port) {
    register<bit<32>>(WITH_COPIES(HOPCOUNTERS_PORTS * HOPCOUNTERS_GROUPS)) sent;
    bit<32> cell = 0;
    bit<32> packets = 0;

    apply {
        if (meta.hopcounters.is_counted == 1 && port < HOPCOUNTERS_PORTS) {
            cell = meta.hopcounters.first_cell + (bit<32>) port * HOPCOUNTERS_GROUPS + meta.hopcounters.group;
            sent.read(packets, cell);
            sent.write(cell, packets |+| 1);
        }
    }
}
