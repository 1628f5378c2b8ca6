/* What is computed of a packet's flow: its ID, the index hashes of that, and its fragments. */

/* An index hash: the sum of the ID's CRC and of the one that all index hashes share, its halves
 * joined. The carries of the sum make it nonlinear, so that keys in a row do not share slots. */
control IndexHash(in flow_id_t id, in bit<32> shared, out bit<32> index_hash) {
    bit<32> sum;

    action crc() {
        CRC(sum, { id.source, id.destination, id.ports, id.proto });
    }

    apply {
        crc();
        sum = sum + shared;
        index_hash = sum ^ (sum << 16);
    }
}

/* The ID of an IPv6 flow: three CRCs of the five-tuple in the places of the addresses and ports,
 * with the lowest bit of the ports set, and protocol 255. No IPv4 packet has such a tuple, since
 * one of protocol 255 has no ports. */
control FlowDigest(inout metadata_t meta) {
    action crc_0() {
        CRC(meta.chamelemon.id.source,
            { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
    action crc_1() {
        CRC(meta.chamelemon.id.destination,
            { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }
    action crc_2() {
        CRC(meta.chamelemon.id.ports,
            { meta.flow.src, meta.flow.dst, meta.flow.sport, meta.flow.dport, meta.flow.proto });
    }

    apply {
        crc_0();
        crc_1();
        crc_2();
        meta.chamelemon.id.ports = meta.chamelemon.id.ports | 1;
        meta.chamelemon.id.proto = 255;
    }
}

control FlowHashes(inout metadata_t meta) {
    FlowDigest() ipv6_id;
    IndexHash() fingerprint;
    IndexHash() sample;
    IndexHash() row_0;
    IndexHash() row_1;
#if CHAMELEMON_ARRAYS > 2
    IndexHash() row_2;
#endif
#if CHAMELEMON_ARRAYS > 3
    IndexHash() row_3;
#endif
#if CHAMELEMON_SMALL
    IndexHash() small_row;
#endif
    IndexHash() level_0;
#if CHAMELEMON_LEVELS > 1
    IndexHash() level_1;
#endif
#if CHAMELEMON_LEVELS > 2
    IndexHash() level_2;
#endif
#if CHAMELEMON_LEVELS > 3
    IndexHash() level_3;
#endif
    bit<32> shared;

    action ipv4_id() {
        meta.chamelemon.id.source = meta.flow.src[31:0];
        meta.chamelemon.id.destination = meta.flow.dst[31:0];
        meta.chamelemon.id.ports = meta.flow.sport ++ meta.flow.dport;
        meta.chamelemon.id.proto = meta.flow.proto;
    }
    action shared_crc() {
        CRC(shared, { meta.chamelemon.id.source, meta.chamelemon.id.destination,
                      meta.chamelemon.id.ports, meta.chamelemon.id.proto });
    }
    action fragment() {
        flow_id_t id = meta.chamelemon.id;
        meta.chamelemon.fragments.source = 1w0 ++ id.source[30:0];
        meta.chamelemon.fragments.destination = 1w0 ++ id.destination[30:0];
        meta.chamelemon.fragments.ports = 1w0 ++ id.ports[30:0];
        meta.chamelemon.fragments.rest = 1w0 ++ id.source[31:31] ++ id.destination[31:31] ++ id.ports[31:31]
            ++ id.proto ++ meta.chamelemon.hashes.fingerprint[31:12];
    }

    apply {
        if (meta.net == NET_IPV4) {
            ipv4_id();
        } else {
            ipv6_id.apply(meta);
        }
        shared_crc();
        fingerprint.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.fingerprint);
        sample.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.sample);
        row_0.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.row_0);
        row_1.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.row_1);
#if CHAMELEMON_ARRAYS > 2
        row_2.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.row_2);
#endif
#if CHAMELEMON_ARRAYS > 3
        row_3.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.row_3);
#endif
#if CHAMELEMON_SMALL
        small_row.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.small_row);
#endif
        level_0.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.level_0);
#if CHAMELEMON_LEVELS > 1
        level_1.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.level_1);
#endif
#if CHAMELEMON_LEVELS > 2
        level_2.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.level_2);
#endif
#if CHAMELEMON_LEVELS > 3
        level_3.apply(meta.chamelemon.id, shared, meta.chamelemon.hashes.level_3);
#endif
        fragment();
    }
}
