/* Forwarding: pairs of ports, L2 by MAC address and VLAN, or L3 by the longest prefix. */

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    bit<1> is_routed = 0;

    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    /* Copies of a packet with a class carry that they are one of several. */
    action flood(bit<16> group) {
        standard.mcast_grp = group;
        meta.class = meta.class == 0 ? 2w0 : CLASS_SEVERAL;
    }
    /* To the router itself: the port's packets are routed. */
    action to_router() {
        is_routed = 1;
    }
    /* The next hop's MAC address and the router's own. */
    action route(bit<9> port, bit<48> next_hop, bit<48> own) {
        hdr.macs.dst = next_hop;
        hdr.macs.src = own;
        standard.egress_spec = port;
    }

    /* What comes in at one port of a pair goes out at the other. */
    table pairs {
        key = { meta.port.ingress : exact @name("port"); }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 512;
    }
    table l2 {
        key = {
            hdr.tags[0].tci : ternary @name("tci");
            hdr.macs.dst : ternary @name("dst");
        }
        actions = { forward; flood; to_router; drop; }
        default_action = drop();
        size = 8192;
    }
    table ipv4_routes {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { route; drop; }
        default_action = drop();
        size = 12288;
    }
    table ipv6_routes {
        key = { hdr.ipv6.dst : lpm @name("dst"); }
        actions = { route; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (!pairs.apply().hit) {
            l2.apply();
            if (is_routed == 1) {
                if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
                    if (ipv4_routes.apply().hit) {
                        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                        /* RFC 1624, equation 3, for a field that falls by 0x0100. */
                        bit<17> sum = (bit<17>) hdr.ipv4.checksum + 0x0100;
                        hdr.ipv4.checksum = sum[15:0] + (bit<16>) sum[16:16];
                    }
                } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
                    if (ipv6_routes.apply().hit) {
                        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    }
                } else {
                    drop();
                }
            }
        }
    }
}
