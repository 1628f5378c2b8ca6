/* The query engine (§3.4): a global hash of the packet chooses the set of queries that it carries,
 * and the plan, which the controller made, says where each of them stands in the digest. */

control QueryEngine(inout metadata_t meta) {
    bit<32> chosen = 0;
#if PINT_SETS > 1
    GlobalHash() set_hash;
    addends_t argument = { 0, 0 };

    action choose_by(bit<32> inner, bit<32> outer) {
        argument = { inner, outer };
    }
    /* One entry, for all packets. */
    table arguments {
        key = { meta.hop : ternary @name("hop"); }
        actions = { choose_by; NoAction; }
        default_action = NoAction();
        size = 1;
    }
#endif

    action carry(
        bit<4> path_shift, bit<16> path_mask
#if PINT_VALUES > 0
        , bit<4> value_0_shift, bit<16> value_0_mask
#endif
#if PINT_VALUES > 1
        , bit<4> value_1_shift, bit<16> value_1_mask
#endif
#if PINT_VALUES > 2
        , bit<4> value_2_shift, bit<16> value_2_mask
#endif
#if PINT_VALUES > 3
        , bit<4> value_3_shift, bit<16> value_3_mask
#endif
    ) {
        meta.pint.path = { path_shift, path_mask };
#if PINT_VALUES > 0
        meta.pint.value_0 = { value_0_shift, value_0_mask };
#endif
#if PINT_VALUES > 1
        meta.pint.value_1 = { value_1_shift, value_1_mask };
#endif
#if PINT_VALUES > 2
        meta.pint.value_2 = { value_2_shift, value_2_mask };
#endif
#if PINT_VALUES > 3
        meta.pint.value_3 = { value_3_shift, value_3_mask };
#endif
    }
    table plan {
        key = { chosen : range; }
        actions = { carry; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
#if PINT_SETS > 1
        arguments.apply();
        set_hash.apply(meta.pint.identity, argument, chosen);
#endif
        plan.apply();
    }
}
