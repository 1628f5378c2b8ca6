/* The parsers. Narrower than weir's: at most MAX_TAGS tags, IPv4 alone (IPv6 is forwarded by its
 * MAC addresses and not measured), and ports of packets without IP options. A packet with
 * options is measured, as weir does a later fragment, with ports 0. */

#define SELECT_PROTOCOL(TCP, PORTS, NO_PORTS) \
    select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) { \
        (5, 0, PROTO_TCP): TCP; \
        (5, 0, PROTO_UDP): PORTS; \
        (5, 0, PROTO_DCCP): PORTS; \
        (5, 0, PROTO_PGM): PORTS; \
        (5, 0, PROTO_SCTP): PORTS; \
        (5, 0, PROTO_UDP_LITE): PORTS; \
        (5, 0, PROTO_ICMP): NO_PORTS; \
        default: accept; \
    }

/* From the MAC addresses to the EtherType. UNREADABLE says what becomes of a shim of another
 * version, which is left as the EtherType. */
#define PARSE_ETHERNET(TAG_FOUND, UNREADABLE) \
    state ethernet { \
        packet.extract(hdr.macs); \
        transition select(packet.lookahead<bit<32>>()) { \
            0x88b50080 &&& 0xffff00c0: shim; \
            0x88b50000 &&& 0xffff0000: unreadable; \
            default: ethertype_or_tag; \
        } \
    } \
    state shim { \
        packet.extract(hdr.shim); \
        transition ethertype_or_tag; \
    } \
    state unreadable { \
        UNREADABLE \
        transition ethertype; \
    } \
    state ethertype_or_tag { \
        transition select(packet.lookahead<bit<16>>()) { \
            ETHERTYPE_VLAN: tag; \
            ETHERTYPE_QINQ: tag; \
            ETHERTYPE_QINQ_OLD: tag; \
            default: ethertype; \
        } \
    } \
    state tag { \
        packet.extract(hdr.tags[0]); \
        TAG_FOUND \
        transition select(packet.lookahead<bit<16>>()) { \
            ETHERTYPE_VLAN: second_tag; \
            ETHERTYPE_QINQ: second_tag; \
            ETHERTYPE_QINQ_OLD: second_tag; \
            default: ethertype; \
        } \
    } \
    state second_tag { \
        packet.extract(hdr.tags[1]); \
        transition ethertype; \
    }

parser IngressParser(packet_in packet, out headers_t hdr, out ingress_meta_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        meta.is_taken = 0;
        meta.enters = 0;
        meta.is_unreadable = 0;
        meta.is_measured = 0;
        meta.is_flow = 0;
        meta.is_routed = 0;
        meta.ports = 0;
        meta.tci = 0;
#ifdef PINT
        meta.pint.numbers_0 = 0;
        meta.pint.numbers_1 = 0;
        meta.pint.payload = 0;
        meta.pint.payload_last = 0;
        meta.pint.src_shifted = 0;
#endif
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition ethernet;
    }

    PARSE_ETHERNET(meta.tci = hdr.tags[0].tci;, meta.is_unreadable = 1;)

    state ethertype {
        packet.extract(hdr.ethertype);
        transition select(hdr.ethertype.value) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.is_flow = 1;
#ifdef PINT
        meta.pint.src_shifted = 8w0 ++ hdr.ipv4.src[31:8];
#endif
        transition SELECT_PROTOCOL(tcp, ports, no_ports)
    }

#ifdef PINT
#include "pint/t2na_parser.p4"
#else
    state tcp {
        transition ports;
    }

    state ports {
        meta.ports = packet.lookahead<bit<32>>();
        packet.extract(hdr.ports);
        transition accept;
    }

    state no_ports {
        transition accept;
    }
#endif
}

parser EgressParser(packet_in packet, out headers_t hdr, out egress_meta_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        meta.ports = 0;
        meta.leaves = 0;
#ifdef CHAMELEMON
        meta.chamelemon.is_stray = 0;
#endif
        packet.extract(intrinsic);
        packet.extract(hdr.bridge);
        transition ethernet;
    }

    PARSE_ETHERNET(,)

    state ethertype {
        packet.extract(hdr.ethertype);
        transition select(hdr.ethertype.value) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition SELECT_PROTOCOL(ports, ports, accept)
    }

    state ports {
        meta.ports = packet.lookahead<bit<32>>();
        packet.extract(hdr.ports);
        transition accept;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in ingress_meta_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t deparser) {
    Checksum() checksum;

    apply {
        if (meta.is_routed == 1) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
                hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst
            });
        }
        packet.emit(hdr);
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in egress_meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
        packet.emit(hdr.macs);
        packet.emit(hdr.shim);
        packet.emit(hdr.tags);
        packet.emit(hdr.ethertype);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}
