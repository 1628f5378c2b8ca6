/* The parser: one shim, up to MAX_TAGS tags, a PPPoE session header, IPv4 or IPv6 with up to MAX_EXTENSIONS extension headers, and the ports.
 *
 * A header that is unknown or truncated ends the parsing, and the packet is forwarded by the headers before it. */

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
#ifdef TEST_CLOCK
        packet.extract(hdr.clock);
        meta.port.ingress = (bit<9>) hdr.clock.port;
        meta.clock.received_ns = hdr.clock.received_ns;
        meta.clock.held_ns = hdr.clock.held_ns;
        meta.wire_bytes = standard.packet_length - 16;
#else
        meta.port.ingress = standard.ingress_port;
        meta.clock.received_ns = (bit<64>) standard.ingress_global_timestamp * 1000;
        meta.wire_bytes = standard.packet_length;
#endif
        meta.parse.frame_left = meta.wire_bytes;
        packet.extract(hdr.macs);
        meta.parse.frame_left = meta.parse.frame_left - 12;
        /* A shim has its EtherType, and another one behind it. */
        transition select(packet.lookahead<bit<16>>()) {
            ETHERTYPE_SHIM: shim_or_runt;
            default: ethertype_or_tag;
        }
    }

    /* Of a version that is not known, or without an EtherType behind it, the shim is left as the EtherType. */
    state shim_or_runt {
        meta.parse.is_known = (bit<1>) (meta.parse.frame_left >= 8);
        transition select(meta.parse.is_known) {
            1: shim_version;
            default: ethertype;
        }
    }

    state shim_version {
        transition select(packet.lookahead<bit<32>>()[7:6]) {
            SHIM_VERSION: shim;
            default: ethertype;
        }
    }

    state shim {
        packet.extract(hdr.shim);
        meta.parse.frame_left = meta.parse.frame_left - 6;
        meta.wire_bytes = meta.wire_bytes - 6;
        transition ethertype_or_tag;
    }

    /* A tag counts if its TCI and the EtherType behind it are there. */
    state ethertype_or_tag {
        meta.parse.is_known = (bit<1>) (meta.parse.frame_left >= 6);
        transition select(packet.lookahead<bit<16>>(), meta.parse.is_known, hdr.tags[MAX_TAGS - 1].isValid()) {
            (_, _, true): ethertype;
            (ETHERTYPE_VLAN, 1, _): tag;
            (ETHERTYPE_QINQ, 1, _): tag;
            (ETHERTYPE_QINQ_OLD, 1, _): tag;
            default: ethertype;
        }
    }

    state tag {
        packet.extract(hdr.tags.next);
        meta.parse.frame_left = meta.parse.frame_left - 4;
        transition ethertype_or_tag;
    }

    state ethertype {
        packet.extract(hdr.ethertype);
        meta.parse.frame_left = meta.parse.frame_left - 2;
        transition select(hdr.ethertype.value) {
            ETHERTYPE_IPV4: ipv4_if_whole;
            ETHERTYPE_IPV6: ipv6_if_whole;
            ETHERTYPE_PPPOE_SESSION: pppoe_if_whole;
            default: accept;
        }
    }

    state pppoe_if_whole {
        meta.parse.is_known = (bit<1>) (meta.parse.frame_left >= 8);
        transition select(meta.parse.is_known) {
            1: pppoe;
            default: accept;
        }
    }

    state pppoe {
        packet.extract(hdr.pppoe);
        meta.parse.frame_left = meta.parse.frame_left - 8;
        transition select(hdr.pppoe.version_type_code, hdr.pppoe.protocol) {
            (0x1100, 0x0021): ipv4_if_whole;
            (0x1100, 0x0057): ipv6_if_whole;
            default: accept;
        }
    }

    state ipv4_if_whole {
        meta.parse.is_known = (bit<1>) (meta.parse.frame_left >= 20);
        transition select(meta.parse.is_known) {
            1: ipv4_if_valid;
            default: accept;
        }
    }

    state ipv4_if_valid {
        bit<8> first = packet.lookahead<bit<8>>();
        meta.parse.length = (bit<32>) first[3:0] << 2;
        meta.parse.left = (bit<32>) packet.lookahead<bit<32>>()[15:0];
        transition select(first, meta.parse.left[15:0]) {
            (0x45 .. 0x4f, 0): ipv4_to_the_end;
            (0x45 .. 0x4f, _): ipv4_length;
            default: accept;
        }
    }

    /* A length of 0 reaches to the end of the frame: a host left segmentation to its NIC. */
    state ipv4_to_the_end {
        meta.parse.left = meta.parse.frame_left;
        transition ipv4_length;
    }

    state ipv4_length {
        meta.parse.is_known = (bit<1>) (meta.parse.left >= meta.parse.length);
        transition select(meta.parse.is_known) {
            1: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.net = NET_IPV4;
        meta.flow.src = (bit<128>) hdr.ipv4.src;
        meta.flow.dst = (bit<128>) hdr.ipv4.dst;
        meta.flow.proto = hdr.ipv4.protocol;
        /* The packet, or what the frame has of it. */
        meta.parse.left = (meta.parse.left <= meta.parse.frame_left) ? meta.parse.left : meta.parse.frame_left;
        meta.parse.is_known = (bit<1>) (meta.parse.left >= meta.parse.length);
        transition select(meta.parse.is_known, hdr.ipv4.ihl) {
            (0, _): ipv4_fragment_alone;
            (1, 5): ipv4_payload;
            default: ipv4_options;
        }
    }

    /* Its options are cut off, and with them all that is behind. */
    state ipv4_fragment_alone {
        meta.parse.left = 0;
        transition ipv4_fragment;
    }

    state ipv4_options {
        packet.extract(hdr.options, (meta.parse.length - 20) << 3);
        transition ipv4_payload;
    }

    state ipv4_payload {
        meta.parse.left = meta.parse.left - meta.parse.length;
        meta.parse.frame_left = meta.parse.frame_left - meta.parse.length;
        transition ipv4_fragment;
    }

    state ipv4_fragment {
        transition select(hdr.ipv4.flags[0:0], hdr.ipv4.fragment_offset) {
            (0, 0): ipv4_protocol;
            (1, 0): first_fragment;
            default: later_fragment;
        }
    }

    state first_fragment {
        meta.fragment = FRAGMENT_FIRST;
        transition ipv4_protocol;
    }

    state later_fragment {
        meta.fragment = FRAGMENT_LATER;
        transition accept;
    }

    state ipv4_protocol {
        transition select(meta.flow.proto) {
            PROTO_AUTHENTICATION: extension_if_whole;
            PROTO_HIP: extension_if_whole;
            default: transport;
        }
    }

    state ipv6_if_whole {
        meta.parse.is_known = (bit<1>) (meta.parse.frame_left >= 40);
        transition select(meta.parse.is_known) {
            1: ipv6_if_valid;
            default: accept;
        }
    }

    state ipv6_if_valid {
        transition select(packet.lookahead<bit<4>>()) {
            6: ipv6;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        meta.parse.frame_left = meta.parse.frame_left - 40;
        meta.net = NET_IPV6;
        meta.flow.src = hdr.ipv6.src;
        meta.flow.dst = hdr.ipv6.dst;
        meta.flow.proto = hdr.ipv6.next_header;
        meta.parse.left = (bit<32>) hdr.ipv6.payload_length;
        meta.parse.left = (meta.parse.left == 0 || meta.parse.left > meta.parse.frame_left) ? meta.parse.frame_left : meta.parse.left;
        transition ipv6_protocol;
    }

    state ipv6_protocol {
        transition select(meta.flow.proto) {
            PROTO_HOP_BY_HOP: extension_if_whole;
            PROTO_ROUTING: extension_if_whole;
            PROTO_FRAGMENT: extension_if_whole;
            PROTO_AUTHENTICATION: extension_if_whole;
            PROTO_DESTINATION: extension_if_whole;
            PROTO_MOBILITY: extension_if_whole;
            PROTO_HIP: extension_if_whole;
            PROTO_SHIM6: extension_if_whole;
            default: transport;
        }
    }

    /* Its first eight bytes are there, and it is not the ninth. */
    state extension_if_whole {
        meta.parse.is_known = (bit<1>) (meta.parse.left >= 8);
        transition select(meta.parse.is_known, hdr.extensions[MAX_EXTENSIONS - 1].isValid()) {
            (1, false): extension_length;
            default: transport;
        }
    }

    /* A header of mobility, HIP or Shim6 with nothing behind it is the protocol. */
    state extension_length {
        bit<16> head = packet.lookahead<bit<16>>();
        meta.parse.length = ((bit<32>) head[7:0] << 3) + 8;
        transition select(meta.flow.proto, head[15:8]) {
            (PROTO_MOBILITY, PROTO_NONE): transport;
            (PROTO_HIP, PROTO_NONE): transport;
            (PROTO_SHIM6, PROTO_NONE): transport;
            (PROTO_FRAGMENT, _): fragment_length;
            (PROTO_AUTHENTICATION, _): authentication_length;
            default: extension_bounds;
        }
    }

    state fragment_length {
        meta.parse.length = 8;
        transition extension_bounds;
    }

    state authentication_length {
        bit<16> head = packet.lookahead<bit<16>>();
        meta.parse.length = ((bit<32>) head[7:0] << 2) + 8;
        transition extension_bounds;
    }

    state extension_bounds {
        meta.parse.is_known = (bit<1>) (meta.parse.left >= meta.parse.length);
        transition select(meta.parse.is_known) {
            1: extension;
            default: transport;
        }
    }

    state extension {
        packet.extract(hdr.extensions.next, (meta.parse.length - 8) << 3);
        meta.parse.left = meta.parse.left - meta.parse.length;
        meta.parse.frame_left = meta.parse.frame_left - meta.parse.length;
        meta.parse.protocol = meta.flow.proto;
        meta.flow.proto = hdr.extensions.last.next;
        transition select(meta.parse.protocol) {
            PROTO_FRAGMENT: ipv6_fragment;
            default: next_extension;
        }
    }

    state ipv6_fragment {
        transition select(hdr.extensions.last.body[47:35], hdr.extensions.last.body[32:32]) {
            (0, 0): ipv6_whole;
            (0, 1): ipv6_first_fragment;
            default: later_fragment;
        }
    }

    /* Of several fragment headers the last one counts. */
    state ipv6_whole {
        meta.fragment = FRAGMENT_NONE;
        transition next_extension;
    }

    state ipv6_first_fragment {
        meta.fragment = FRAGMENT_FIRST;
        transition next_extension;
    }

    state next_extension {
        transition select(meta.net) {
            NET_IPV4: ipv4_protocol;
            default: ipv6_protocol;
        }
    }

    state transport {
        transition select(meta.flow.proto) {
            PROTO_TCP: ports_if_whole;
            PROTO_UDP: ports_if_whole;
            PROTO_DCCP: ports_if_whole;
            PROTO_PGM: ports_if_whole;
            PROTO_SCTP: ports_if_whole;
            PROTO_UDP_LITE: ports_if_whole;
            PROTO_ICMP: icmp_if_whole;
            PROTO_ICMPV6: icmp_if_whole;
            default: accept;
        }
    }

    state ports_if_whole {
        meta.l4 = (bit<1>) (meta.parse.left >= 4);
        transition select(meta.l4) {
            1: ports;
            default: accept;
        }
    }

    state ports {
        packet.extract(hdr.ports);
        meta.flow.sport = hdr.ports.src;
        meta.flow.dport = hdr.ports.dst;
#ifdef L4_BYTES
        meta.l4_bytes = (bit<L4_BITS>) (hdr.ports.src ++ hdr.ports.dst);
        meta.parse.frame_left = meta.parse.frame_left - 4;
        meta.parse.l4_length = 4;
        transition l4_bytes;
#else
        transition accept;
#endif
    }

    state icmp_if_whole {
        meta.l4 = (bit<1>) (meta.parse.left >= 8);
#ifdef L4_BYTES
        transition select(meta.l4) {
            1: l4_bytes;
            default: accept;
        }
#else
        transition accept;
#endif
    }

#ifdef L4_BYTES
    /* The transport header and what is behind it, in pieces, by the binary digits of their length.
     * They reach as far as the frame, padding and all. */
    state l4_bytes {
        meta.parse.left = (meta.parse.frame_left <= 63) ? meta.parse.frame_left : 63;
        meta.parse.l4_length = meta.parse.l4_length + (bit<8>) meta.parse.left;
        transition select(meta.parse.left[5:5]) {
            1: l4_32;
            default: l4_below_32;
        }
    }

    state l4_32 {
        packet.extract(hdr.l4_32);
        meta.l4_bytes = meta.l4_bytes << 256 | (bit<L4_BITS>) hdr.l4_32.bytes;
        transition l4_below_32;
    }

    state l4_below_32 {
        transition select(meta.parse.left[4:4]) {
            1: l4_16;
            default: l4_below_16;
        }
    }

    state l4_16 {
        packet.extract(hdr.l4_16);
        meta.l4_bytes = meta.l4_bytes << 128 | (bit<L4_BITS>) hdr.l4_16.bytes;
        transition l4_below_16;
    }

    state l4_below_16 {
        transition select(meta.parse.left[3:3]) {
            1: l4_8;
            default: l4_below_8;
        }
    }

    state l4_8 {
        packet.extract(hdr.l4_8);
        meta.l4_bytes = meta.l4_bytes << 64 | (bit<L4_BITS>) hdr.l4_8.bytes;
        transition l4_below_8;
    }

    state l4_below_8 {
        transition select(meta.parse.left[2:2]) {
            1: l4_4;
            default: l4_below_4;
        }
    }

    state l4_4 {
        packet.extract(hdr.l4_4);
        meta.l4_bytes = meta.l4_bytes << 32 | (bit<L4_BITS>) hdr.l4_4.bytes;
        transition l4_below_4;
    }

    state l4_below_4 {
        transition select(meta.parse.left[1:1]) {
            1: l4_2;
            default: l4_below_2;
        }
    }

    state l4_2 {
        packet.extract(hdr.l4_2);
        meta.l4_bytes = meta.l4_bytes << 16 | (bit<L4_BITS>) hdr.l4_2.bytes;
        transition l4_below_2;
    }

    state l4_below_2 {
        transition select(meta.parse.left[0:0]) {
            1: l4_1;
            default: l4_in_place;
        }
    }

    state l4_1 {
        packet.extract(hdr.l4_1);
        meta.l4_bytes = meta.l4_bytes << 8 | (bit<L4_BITS>) hdr.l4_1.bytes;
        transition l4_in_place;
    }

    /* The first byte stands highest. At most 63 are missing; a shift is by 255 bits at most. */
    state l4_in_place {
        meta.parse.l4_length = L4_BYTES - meta.parse.l4_length << 2;
        meta.l4_bytes = meta.l4_bytes << meta.parse.l4_length << meta.parse.l4_length;
        transition accept;
    }
#endif
}

control VerifyNothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control UpdateNothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.macs);
        packet.emit(hdr.shim);
        packet.emit(hdr.tags);
        packet.emit(hdr.ethertype);
        packet.emit(hdr.pppoe);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.extensions);
        packet.emit(hdr.ports);
#ifdef L4_BYTES
        packet.emit(hdr.l4_32);
        packet.emit(hdr.l4_16);
        packet.emit(hdr.l4_8);
        packet.emit(hdr.l4_4);
        packet.emit(hdr.l4_2);
        packet.emit(hdr.l4_1);
#endif
    }
}
