/* From a flow's size to the packet's class (§3.2.2), by the parameters of the epoch. */

/* Not encoded: not measured, or a light-loss candidate that is not sampled. */
const bit<2> CLASS_NONE = 0;
/* A sampled light-loss candidate. */
const bit<2> CLASS_LL = 1;
/* A heavy-loss candidate. */
const bit<2> CLASS_HL = 2;
/* A heavy-hitter candidate. No packet carries it: it leaves as a heavy-loss candidate. */
const bit<2> CLASS_HH = 3;

control ClassTable(inout metadata_t meta) {
    bit<32> hh_threshold = 0;
    bit<32> hl_threshold = 0;
    bit<32> sample = 0;
    bit<16> sample_seed = 0;

    /* T_h; T_l; light-loss candidates that are sampled, of 65536; and what is xored to the sampling
     * hash, so that epochs sample different flows. */
    action set(bit<32> t_h, bit<32> t_l, bit<32> rate, bit<16> seed) {
        hh_threshold = t_h;
        hl_threshold = t_l;
        sample = rate;
        sample_seed = seed;
    }
    table parameters {
        key = { meta.epoch.number[15:0] : exact @name("epoch"); }
        actions = { set; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        meta.chamelemon.class = CLASS_NONE;
        if (parameters.apply().hit) {
            if (meta.chamelemon.estimate >= hh_threshold) {
                meta.chamelemon.class = CLASS_HH;
            } else if (meta.chamelemon.estimate >= hl_threshold) {
                meta.chamelemon.class = CLASS_HL;
            } else if ((bit<32>) (meta.chamelemon.hashes.sample[31:16] ^ sample_seed) < sample) {
                meta.chamelemon.class = CLASS_LL;
            }
        }
    }
}
