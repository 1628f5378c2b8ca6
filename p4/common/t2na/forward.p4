/* Forwarding: pairs of ports, L2 by MAC address and VLAN, or L3 by the longest prefix. */

control Forward(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t manager) {
    action drop() {
        deparser.drop_ctl = 1;
    }
    action forward(PortId_t port) {
        manager.ucast_egress_port = port;
    }
    action flood(MulticastGroupId_t group) {
        manager.mcast_grp_a = group;
    }
    /* To the router itself. */
    action to_router() {
        meta.is_routed = 1;
    }
    /* The next hop's MAC address and the router's own. */
    action route(PortId_t port, bit<48> next_hop, bit<48> own) {
        hdr.macs.dst = next_hop;
        hdr.macs.src = own;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        manager.ucast_egress_port = port;
    }

    /* What comes in at one port of a pair goes out at the other. */
    table pairs {
        key = { intrinsic.ingress_port : exact @name("port"); }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 512;
    }
    table l2 {
        key = {
            meta.tci[11:0] : exact @name("vlan");
            hdr.macs.dst : exact @name("dst");
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

    apply {
        if (!pairs.apply().hit) {
            l2.apply();
            if (meta.is_routed == 1) {
                /* Options would lengthen the checksum, which the deparser computes over fixed
                 * fields. */
                if (hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 && hdr.ipv4.ttl > 1) {
                    ipv4_routes.apply();
                } else {
                    drop();
                }
            }
        }
    }
}
