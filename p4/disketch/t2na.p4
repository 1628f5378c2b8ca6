/* DiSketch for Tofino: each switch holds one row of a Count Sketch (or Count-Min Sketch), and
 * counts a flow in one of the epoch's sub-epochs. The hashes are those of
 * src/program/disketch/hashes.rs:
 *
 *     index  = join((CRC 0 (key) ^ a) + CRC 1 (key))    counter = its highest bits
 *     sample = join((CRC 2 (key) ^ b) + CRC 1 (key))    sub-epoch = its highest bits; sign = bit 25 */

control DiSketch(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    CRC(crc_0, CRC_DISKETCH_0, 32)
    CRC(crc_1, CRC_DISKETCH_1, 32)
    CRC(crc_2, CRC_DISKETCH_2, 32)

    /* The constants of the switch in the epoch. An ALU joins a hash and a field, and not a hash
     * and a parameter. */
    action constants(bit<32> a, bit<32> b) {
        meta.disketch.index = a;
        meta.disketch.sample = b;
    }
    table epoch_constants {
        key = { meta.copy : exact @name("copy"); }
        actions = { constants; }
        default_action = constants(0, 0);
        size = 2;
    }
    action hash_index() {
        meta.disketch.index = crc_0.get(FIVE_TUPLE) ^ meta.disketch.index;
    }
    action hash_both() {
        meta.disketch.both = crc_1.get(FIVE_TUPLE);
    }
    action hash_sample() {
        meta.disketch.sample = crc_2.get(FIVE_TUPLE) ^ meta.disketch.sample;
    }
    action sum() {
        meta.disketch.index = meta.disketch.index + meta.disketch.both;
        meta.disketch.sample = meta.disketch.sample + meta.disketch.both;
    }

    /* Bits of the joined sample hash: the sub-epoch, xor that of the clock, and the sign. */
    action join_sample() {
        @in_hash {
            meta.disketch.away = meta.disketch.sample[31:26] ^ meta.disketch.sample[15:10]
                ^ intrinsic.ingress_mac_tstamp[EPOCH_SHIFT - 1 : EPOCH_SHIFT - 6];
        }
        @in_hash { meta.disketch.sign = meta.disketch.sample[25:25] ^ meta.disketch.sample[9:9]; }
    }

    /* Whether the flow is counted now, and its sign: of 2^k sub-epochs an epoch the k highest
     * bits of `away` are 0. */
    action count(int<32> weight) {
        meta.disketch.weight = weight;
        meta.disketch.is_counted = 1;
    }
    action skip() {
        meta.disketch.is_counted = 0;
    }
    table sub_epochs {
        key = {
            meta.copy : exact @name("copy");
            meta.disketch.away : ternary @name("away");
            meta.disketch.sign : ternary @name("sign");
        }
        actions = { count; skip; }
        default_action = skip();
        size = 8;
    }

    Register<int<32>, bit<15>>(WITH_COPIES(DISKETCH_COUNTERS_0_CELLS)) counters;
    RegisterAction<int<32>, bit<15>, int<32>>(counters) add_to_counter = {
        void apply(inout int<32> counter) {
            counter = counter |+| meta.disketch.weight;
        }
    };
    /* The counter is the highest bits of the index hash, joined on the way to the register. */
    action add() {
        add_to_counter.execute(meta.copy ++ (meta.disketch.index[31:18] ^ meta.disketch.index[15:2]));
    }

    apply {
        epoch_constants.apply();
        hash_index();
        hash_both();
        hash_sample();
        sum();
        join_sample();
        if (meta.is_flow == 1 && meta.is_measured == 1 && meta.is_taken == 1) {
            sub_epochs.apply();
            if (meta.disketch.is_counted == 1) {
                add();
            }
        }
    }
}
