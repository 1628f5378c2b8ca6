/* The path query: each packet carries hashes of some of the switches that it passes (§4.2,
 * Algorithm 1).
 *
 *     layer  = L(packet)                   the baseline, or one of the xor layers
 *     acts   = g(packet, hop) < 1 / hop    in the baseline: what the last hop that acts writes stays
 *              g(packet, hop) < p          in an xor layer
 *     value  = h(switch, packet)           written over the digest, or xored onto it
 */

/* One of the hashes that stand side by side in the digest. */
control PathInstance(inout metadata_t meta, inout bit<16> part)(bit<4> shift) {
    GlobalHash() layer;
    GlobalHash() acts;
    GlobalHash() values;
    addends_t of_layer = { 0, 0 };
    addends_t of_hop = { 0, 0 };
    addends_t of_switch = { 0, 0 };
    bit<32> layer_hash = 0;
    bit<32> acts_hash = 0;
    bit<32> value = 0;

    /* Hops beyond the last one that the shim counts have no entry, and leave the digest as it is. */
    action hash_with(
        bit<32> layer_inner, bit<32> layer_outer,
        bit<32> hop_inner, bit<32> hop_outer,
        bit<32> switch_inner, bit<32> switch_outer
    ) {
        of_layer = { layer_inner, layer_outer };
        of_hop = { hop_inner, hop_outer };
        of_switch = { switch_inner, switch_outer };
    }
    table arguments {
        key = { meta.hop : exact @name("hop"); }
        actions = { hash_with; NoAction; }
        default_action = NoAction();
        size = 64;
    }

#if PINT_PATH_FRAGMENT_BITS > 0
    /* The packet carries a fragment of the switch's identifier; the hash says which. */
    action fragment(bit<16> bits) {
        value = (bit<32>) bits;
    }
    table fragments {
        key = { value[31:32 - PINT_PATH_FRAGMENT_BITS] : exact @name("number"); }
        actions = { fragment; NoAction; }
        default_action = NoAction();
        size = 32;
    }
#endif

    action write() {
        part = part & ~((bit<16>) PINT_PATH_MASK << shift)
            | ((bit<16>) value & PINT_PATH_MASK) << shift;
    }
    action xor() {
        part = part ^ ((bit<16>) value & PINT_PATH_MASK) << shift;
    }
    table limits {
        key = {
            meta.hop : range @name("hop");
            layer_hash[31:24] : range @name("layer");
            acts_hash[31:16] : range @name("acts");
        }
        actions = { write; xor; NoAction; }
        default_action = NoAction();
        size = 128;
    }

    apply {
        if (arguments.apply().hit) {
            layer.apply(meta.pint.identity, of_layer, layer_hash);
            acts.apply(meta.pint.identity, of_hop, acts_hash);
            values.apply(meta.pint.identity, of_switch, value);
#if PINT_PATH_FRAGMENT_BITS > 0
            fragments.apply();
#endif
            limits.apply();
        }
    }
}

#if PINT_PATH_CHECKSUM_BITS > 0
/* A checksum of the path above its hashes: each switch adds a hash of its identifier and hop (§7). */
control PathChecksum(inout metadata_t meta, inout bit<16> part) {
    const bit<16> mask = (1 << PINT_PATH_CHECKSUM_BITS) - 1;

    action add(bit<16> term) {
        bit<16> sum = (part >> PINT_PATH_CHECKSUM_SHIFT) + term & mask;
        part = part & ~(mask << PINT_PATH_CHECKSUM_SHIFT) | sum << PINT_PATH_CHECKSUM_SHIFT;
    }
    table terms {
        key = { meta.hop : exact @name("hop"); }
        actions = { add; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        terms.apply();
    }
}
#endif

control PathEncoding(inout metadata_t meta) {
    PathInstance(0) instance_0;
#if PINT_PATH_INSTANCES > 1
    PathInstance(PINT_PATH_BITS) instance_1;
#endif
#if PINT_PATH_INSTANCES > 2
    PathInstance(2 * PINT_PATH_BITS) instance_2;
#endif
#if PINT_PATH_INSTANCES > 3
    PathInstance(3 * PINT_PATH_BITS) instance_3;
#endif
#if PINT_PATH_CHECKSUM_BITS > 0
    PathChecksum() checksum;
#endif
    bit<16> part = 0;

    apply {
        if (meta.pint.path.mask != 0) {
            part = meta.digest >> meta.pint.path.shift & meta.pint.path.mask;
            instance_0.apply(meta, part);
#if PINT_PATH_INSTANCES > 1
            instance_1.apply(meta, part);
#endif
#if PINT_PATH_INSTANCES > 2
            instance_2.apply(meta, part);
#endif
#if PINT_PATH_INSTANCES > 3
            instance_3.apply(meta, part);
#endif
#if PINT_PATH_CHECKSUM_BITS > 0
            checksum.apply(meta, part);
#endif
            PUT_PART(meta.digest, meta.pint.path, part);
        }
    }
}
