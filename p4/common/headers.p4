/* Headers of frames, and what the parser finds out about them. The same for all targets and programs. */

#ifndef HEADERS_P4
#define HEADERS_P4

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_QINQ = 0x88a8;
const bit<16> ETHERTYPE_QINQ_OLD = 0x9100;
const bit<16> ETHERTYPE_PPPOE_SESSION = 0x8864;
/* Local experimental EtherType 1. */
const bit<16> ETHERTYPE_SHIM = 0x88b5;

const bit<8> PROTO_HOP_BY_HOP = 0;
const bit<8> PROTO_ICMP = 1;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_DCCP = 33;
const bit<8> PROTO_ROUTING = 43;
const bit<8> PROTO_FRAGMENT = 44;
const bit<8> PROTO_AUTHENTICATION = 51;
const bit<8> PROTO_ICMPV6 = 58;
const bit<8> PROTO_NONE = 59;
const bit<8> PROTO_DESTINATION = 60;
const bit<8> PROTO_PGM = 113;
const bit<8> PROTO_SCTP = 132;
const bit<8> PROTO_MOBILITY = 135;
const bit<8> PROTO_UDP_LITE = 136;
const bit<8> PROTO_HIP = 139;
const bit<8> PROTO_SHIM6 = 140;

/* The version of the shim that this switch reads and writes. */
const bit<2> SHIM_VERSION = 2;
/* The class of one of several copies of a packet. 0: it has none. */
const bit<2> CLASS_SEVERAL = 3;
/* Largest hop count; it stays there. */
const bit<6> MAX_HOP = 63;

/* Ethernet without its EtherType: shim and tags stand between the two. */
header macs_t {
    bit<48> dst;
    bit<48> src;
}

/* The telemetry shim of a packet between two switches, from its EtherType on. */
header shim_t {
    bit<16> ethertype;
    bit<6> hop;
    bit<2> loops;
    bit<2> version;
    /* Lowest four bits of the number of the epoch in which the packet entered the network. */
    bit<4> epoch;
    bit<2> class;
    /* The next 16 bits of the number; in a network with PINT the digest instead. */
    bit<16> low;
}

/* Its length. */
#define SHIM_BYTES 6

/* A VLAN tag, from its TPID on. */
header tag_t {
    bit<16> ethertype;
    bit<16> tci;
}

header ethertype_t {
    bit<16> value;
}

/* The header of a PPPoE session, with the PPP protocol behind it. */
header pppoe_t {
    bit<16> version_type_code;
    bit<16> session;
    bit<16> length;
    bit<16> protocol;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

/* Ports, of protocols that begin with them. */
header ports_t {
    bit<16> src;
    bit<16> dst;
}

#endif
