/* ChameleMon (Yang et al., SIGCOMM 2023) for Tofino: which flows lost how many packets. The
 * arrays are those of src/program/chamelemon.
 *
 * Parts of the encoders are powers of two, since a bucket is the highest bits of a hash behind
 * the part's own bits. Which class has which part is entries of a table, so the controller moves
 * memory between classes at run time. */

/* The largest prime of 32 bits. It is above every fragment. */
#define P 32w0xfffffffb

/* One array of a row: the sum of a fragment modulo p (Algorithm 3). The paper compares sum +
 * fragment < p; the same comparison without a sum that could overflow is sum < p - fragment, the
 * fragment's inverse. Both are in the PHV, since a stateful ALU has no constant of 32 bits
 * beside a field. */
#define FERMAT_SUM(NAME, CELLS, FRAGMENT) \
    Register<bit<32>, bit<13>>(WITH_COPIES(CELLS)) NAME; \
    RegisterAction<bit<32>, bit<13>, bit<32>>(NAME) NAME##_add = { \
        void apply(inout bit<32> sum) { \
            if (sum < meta.chamelemon.inverses.FRAGMENT) { \
                sum = sum + meta.chamelemon.fragments.FRAGMENT; \
            } else { \
                sum = sum - meta.chamelemon.inverses.FRAGMENT; \
            } \
        } \
    };

#define FERMAT_COUNT(NAME, CELLS) \
    Register<bit<32>, bit<13>>(WITH_COPIES(CELLS)) NAME; \
    RegisterAction<bit<32>, bit<13>, bit<32>>(NAME) NAME##_add = { \
        void apply(inout bit<32> count) { \
            count = count + 1; \
        } \
    };

/* The bucket arrays of one row of a FermatSketch (§3.1). */
#define FERMAT_ROW(ROW, CELLS, BUCKET) \
    FERMAT_SUM(ROW##_source, CELLS, source) \
    FERMAT_SUM(ROW##_destination, CELLS, destination) \
    FERMAT_SUM(ROW##_ports, CELLS, ports) \
    FERMAT_SUM(ROW##_rest, CELLS, rest) \
    FERMAT_COUNT(ROW##_count, CELLS) \
    action encode_##ROW##_source() { ROW##_source_add.execute(meta.chamelemon.BUCKET); } \
    action encode_##ROW##_destination() { ROW##_destination_add.execute(meta.chamelemon.BUCKET); } \
    action encode_##ROW##_ports() { ROW##_ports_add.execute(meta.chamelemon.BUCKET); } \
    action encode_##ROW##_rest() { ROW##_rest_add.execute(meta.chamelemon.BUCKET); } \
    action encode_##ROW##_count() { ROW##_count_add.execute(meta.chamelemon.BUCKET); }

#define ENCODE(ROW) \
    encode_##ROW##_source(); \
    encode_##ROW##_destination(); \
    encode_##ROW##_ports(); \
    encode_##ROW##_rest(); \
    encode_##ROW##_count();

/* The index hashes of a flow's ID: the sum of the ID's CRC and of the one that all share, its
 * halves joined. The carries of the sum make it nonlinear, so that keys in a row do not share
 * slots. CRC and sum are one stage, as an ALU adds a hash to a field. The hashes of the classifier,
 * which is read first, are added in a stage of their own: their CRCs need not wait for the shared
 * one, and hash units of the first stage are free. */
control FlowHashes(inout headers_t hdr, inout ingress_meta_t meta) {
    CRC(shared, CRC_CHAMELEMON_SHARED, 32)
    CRC(level_0, CRC_CHAMELEMON_LEVEL_0, 32)
    CRC(level_1, CRC_CHAMELEMON_LEVEL_1, 32)
    CRC(row_0, CRC_CHAMELEMON_ROW_0, 32)
    CRC(row_1, CRC_CHAMELEMON_ROW_1, 32)
    CRC(row_2, CRC_CHAMELEMON_ROW_2, 32)
    CRC(fingerprint, CRC_CHAMELEMON_FINGERPRINT, 32)
    CRC(sample, CRC_CHAMELEMON_SAMPLE, 32)

    action shared_crc() {
        meta.chamelemon.shared = shared.get(FIVE_TUPLE);
    }
    action level_0_crc() {
        meta.chamelemon.level_0 = level_0.get(FIVE_TUPLE);
    }
    action level_1_crc() {
        meta.chamelemon.level_1 = level_1.get(FIVE_TUPLE);
    }
    action level_sums() {
        meta.chamelemon.level_0 = meta.chamelemon.level_0 + meta.chamelemon.shared;
        meta.chamelemon.level_1 = meta.chamelemon.level_1 + meta.chamelemon.shared;
    }
    action row_0_sum() {
        meta.chamelemon.row_0 = row_0.get(FIVE_TUPLE) + meta.chamelemon.shared;
    }
    action row_1_sum() {
        meta.chamelemon.row_1 = row_1.get(FIVE_TUPLE) + meta.chamelemon.shared;
    }
    action row_2_sum() {
        meta.chamelemon.row_2 = row_2.get(FIVE_TUPLE) + meta.chamelemon.shared;
    }
    action fingerprint_sum() {
        meta.chamelemon.fingerprint = fingerprint.get(FIVE_TUPLE) + meta.chamelemon.shared;
    }
    action sample_sum() {
        meta.chamelemon.sample = sample.get(FIVE_TUPLE) + meta.chamelemon.shared;
    }

    /* Lets epochs sample different flows. */
    action seed(bit<16> value) {
        meta.chamelemon.sample_seed = value;
    }
    table sample_seeds {
        key = { meta.copy : exact @name("copy"); }
        actions = { seed; NoAction; }
        default_action = NoAction();
        size = 2;
    }

    /* The halves, joined. An ALU cannot take two parts of one word: the hash units can. They
     * give 32 bits an action. */
    action join_rows() {
        @in_hash { meta.chamelemon.row_0_index = meta.chamelemon.row_0[31:16] ^ meta.chamelemon.row_0[15:0]; }
        @in_hash { meta.chamelemon.row_1_index = meta.chamelemon.row_1[31:16] ^ meta.chamelemon.row_1[15:0]; }
    }
    action join_row_and_sample() {
        @in_hash { meta.chamelemon.row_2_index = meta.chamelemon.row_2[31:16] ^ meta.chamelemon.row_2[15:0]; }
        @in_hash {
            meta.chamelemon.sample_index = meta.chamelemon.sample[31:16] ^ meta.chamelemon.sample[15:0]
                ^ meta.chamelemon.sample_seed;
        }
    }

    apply {
        shared_crc();
        level_0_crc();
        level_1_crc();
        level_sums();
        row_0_sum();
        row_1_sum();
        row_2_sum();
        fingerprint_sum();
        sample_sum();
        sample_seeds.apply();
        join_rows();
        join_row_and_sample();
    }
}

/* The flow classifier (§3.2.1): a TowerSketch of saturating counters. All ones is infinity, and
 * the smallest counter of a flow is its size. Infinity and the smallest are in the entries of
 * the class table. */
control TowerSketch(inout ingress_meta_t meta) {
    Register<bit<8>, bit<16>>(WITH_COPIES(CHAMELEMON_TOWER_0_CELLS)) level_0;
    RegisterAction<bit<8>, bit<16>, bit<8>>(level_0) increment_level_0 = {
        void apply(inout bit<8> counter, out bit<8> value) {
            counter = counter |+| 1;
            value = counter;
        }
    };
    Register<bit<16>, bit<15>>(WITH_COPIES(CHAMELEMON_TOWER_1_CELLS)) level_1;
    RegisterAction<bit<16>, bit<15>, bit<16>>(level_1) increment_level_1 = {
        void apply(inout bit<16> counter, out bit<16> value) {
            counter = counter |+| 1;
            value = counter;
        }
    };

    /* The slot is the highest bits of the index hash, joined on the way to the register. */
    action count_in_level_0() {
        meta.chamelemon.counter_0 =
            increment_level_0.execute(meta.copy ++ (meta.chamelemon.level_0[31:17] ^ meta.chamelemon.level_0[15:1]));
    }
    action count_in_level_1() {
        meta.chamelemon.counter_1 =
            increment_level_1.execute(meta.copy ++ (meta.chamelemon.level_1[31:18] ^ meta.chamelemon.level_1[15:2]));
    }

    apply {
        count_in_level_0();
        count_in_level_1();
    }
}

/* From a flow's size to the packet's class (§3.2.2): the part of the upstream encoder that takes
 * the packet, and the class that it carries. One table of ranges: thresholds, infinity, the
 * minimum and the rate of sampling are its entries, for each copy of the registers. */
control ClassTable(inout headers_t hdr, inout ingress_meta_t meta) {
    action skip() {
        meta.chamelemon.is_encoded = 0;
    }
    /* A part of 2^k buckets begins at a multiple of 2^k: `top` is the bits of the bucket above
     * the k of the hash, with the copy in front. An action for each size, because its place in
     * the containers is fixed. */
    action encode_2048(bit<2> carried, bit<2> top) {
        hdr.shim.class = carried;
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ meta.chamelemon.row_0_index[15:5];
        meta.chamelemon.bucket_1 = top ++ meta.chamelemon.row_1_index[15:5];
        meta.chamelemon.bucket_2 = top ++ meta.chamelemon.row_2_index[15:5];
    }
    action encode_1024(bit<2> carried, bit<3> top) {
        hdr.shim.class = carried;
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ meta.chamelemon.row_0_index[15:6];
        meta.chamelemon.bucket_1 = top ++ meta.chamelemon.row_1_index[15:6];
        meta.chamelemon.bucket_2 = top ++ meta.chamelemon.row_2_index[15:6];
    }
    action encode_512(bit<2> carried, bit<4> top) {
        hdr.shim.class = carried;
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ meta.chamelemon.row_0_index[15:7];
        meta.chamelemon.bucket_1 = top ++ meta.chamelemon.row_1_index[15:7];
        meta.chamelemon.bucket_2 = top ++ meta.chamelemon.row_2_index[15:7];
    }
    table classes {
        key = {
            meta.copy : exact @name("copy");
            meta.chamelemon.counter_0 : range @name("counter_0");
            meta.chamelemon.counter_1 : range @name("counter_1");
            meta.chamelemon.sample_index : range @name("sample");
        }
        actions = { skip; encode_2048; encode_1024; encode_512; }
        default_action = skip();
        size = 16;
    }

    apply {
        classes.apply();
    }
}

/* Where a packet enters the network: it is counted in the classifier, and its class says which
 * part of the upstream encoder takes it, and what it carries on. The hashes go along to egress,
 * of all packets, since a packet may leave here that entered elsewhere. */
control ChameleMonIngress(inout headers_t hdr, inout ingress_meta_t meta) {
    FlowHashes() hashes;
    TowerSketch() tower;
    ClassTable() classes;

    /* The lower 31 bits of source, destination and ports. */
    action fragment() {
        meta.chamelemon.fragments.source = hdr.ipv4.src & 0x7fffffff;
        meta.chamelemon.fragments.destination = hdr.ipv4.dst & 0x7fffffff;
        meta.chamelemon.fragments.ports = meta.ports & 0x7fffffff;
    }
    /* The three bits left over, the protocol and the fingerprint: bits of six fields, which the
     * hash units put together. */
    action fragment_rest() {
        @in_hash {
            meta.chamelemon.fragments.rest = 1w0 ++ hdr.ipv4.src[31:31] ++ hdr.ipv4.dst[31:31] ++ meta.ports[31:31]
                ++ hdr.ipv4.protocol ++ (meta.chamelemon.fingerprint[31:16] ^ meta.chamelemon.fingerprint[15:0])
                ++ meta.chamelemon.fingerprint[15:12];
        }
    }
    action invert() {
        meta.chamelemon.inverses.source = P - meta.chamelemon.fragments.source;
        meta.chamelemon.inverses.destination = P - meta.chamelemon.fragments.destination;
        meta.chamelemon.inverses.ports = P - meta.chamelemon.fragments.ports;
    }
    action invert_rest() {
        meta.chamelemon.inverses.rest = P - meta.chamelemon.fragments.rest;
    }

    FERMAT_ROW(upstream_row_0, CHAMELEMON_UPSTREAM_CELLS, bucket_0)
    FERMAT_ROW(upstream_row_1, CHAMELEMON_UPSTREAM_CELLS, bucket_1)
    FERMAT_ROW(upstream_row_2, CHAMELEMON_UPSTREAM_CELLS, bucket_2)

    apply {
        hashes.apply(hdr, meta);
        fragment();
        fragment_rest();
        invert();
        invert_rest();
        if (meta.is_flow == 1 && meta.is_measured == 1 && meta.is_taken == 1 && meta.enters == 1) {
            tower.apply(meta);
            classes.apply(hdr, meta);
            if (meta.chamelemon.is_encoded == 1) {
                ENCODE(upstream_row_0)
                ENCODE(upstream_row_1)
                ENCODE(upstream_row_2)
            }
        }
        hdr.bridge.row_0 = meta.chamelemon.row_0_index;
        hdr.bridge.row_1 = meta.chamelemon.row_1_index;
        hdr.bridge.row_2 = meta.chamelemon.row_2_index;
        hdr.bridge.rest = meta.chamelemon.fragments.rest;
    }
}

/* Where a packet leaves the network: the downstream encoder takes it by the class and the epoch
 * that it carries. The copies of the arrays are those of the epoch in which it entered, so that
 * the encoders of both switches hold the same packets. */
control ChameleMonEgress(inout headers_t hdr, inout egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic) {
    /* Packets of a class that left in an epoch that is not open. */
    Counter<bit<32>, bit<4>>(16, CounterType_t.PACKETS) strays;

    action fragment() {
        meta.chamelemon.fragments.source = hdr.ipv4.src & 0x7fffffff;
        meta.chamelemon.fragments.destination = hdr.ipv4.dst & 0x7fffffff;
        meta.chamelemon.fragments.ports = meta.ports & 0x7fffffff;
        meta.chamelemon.fragments.rest = hdr.bridge.rest;
    }
    action invert() {
        meta.chamelemon.inverses.source = P - meta.chamelemon.fragments.source;
        meta.chamelemon.inverses.destination = P - meta.chamelemon.fragments.destination;
        meta.chamelemon.inverses.ports = P - meta.chamelemon.fragments.ports;
        meta.chamelemon.inverses.rest = P - meta.chamelemon.fragments.rest;
    }

    action stray() {
        meta.chamelemon.is_encoded = 0;
        meta.chamelemon.is_stray = 1;
    }
    /* Counted behind the table: the counter's index passes a hash unit, which a default action
     * does not have. */
    action count_stray() {
        strays.count(hdr.shim.epoch);
    }
    /* Of class none. */
    action skip() {
        meta.chamelemon.is_encoded = 0;
    }
    action encode_2048(bit<2> top) {
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ hdr.bridge.row_0[15:5];
        meta.chamelemon.bucket_1 = top ++ hdr.bridge.row_1[15:5];
        meta.chamelemon.bucket_2 = top ++ hdr.bridge.row_2[15:5];
    }
    action encode_1024(bit<3> top) {
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ hdr.bridge.row_0[15:6];
        meta.chamelemon.bucket_1 = top ++ hdr.bridge.row_1[15:6];
        meta.chamelemon.bucket_2 = top ++ hdr.bridge.row_2[15:6];
    }
    action encode_512(bit<4> top) {
        meta.chamelemon.is_encoded = 1;
        meta.chamelemon.bucket_0 = top ++ hdr.bridge.row_0[15:7];
        meta.chamelemon.bucket_1 = top ++ hdr.bridge.row_1[15:7];
        meta.chamelemon.bucket_2 = top ++ hdr.bridge.row_2[15:7];
    }
    table downstream_parts {
        key = {
            hdr.shim.class : exact @name("class");
            hdr.shim.epoch : exact @name("epoch");
        }
        actions = { encode_2048; encode_1024; encode_512; skip; stray; }
        default_action = stray();
        size = 64;
    }

    FERMAT_ROW(downstream_row_0, CHAMELEMON_DOWNSTREAM_CELLS, bucket_0)
    FERMAT_ROW(downstream_row_1, CHAMELEMON_DOWNSTREAM_CELLS, bucket_1)
    FERMAT_ROW(downstream_row_2, CHAMELEMON_DOWNSTREAM_CELLS, bucket_2)

    apply {
        fragment();
        invert();
        if (meta.leaves == 1 && hdr.shim.isValid()) {
            downstream_parts.apply();
            if (meta.chamelemon.is_stray == 1) {
                count_stray();
            }
            if (meta.chamelemon.is_encoded == 1) {
                ENCODE(downstream_row_0)
                ENCODE(downstream_row_1)
                ENCODE(downstream_row_2)
            }
        }
    }
}
