/* What travels with a packet through the pipeline. */

#ifndef METADATA_P4
#define METADATA_P4

/* Most VLAN tags and extension headers that are looked behind. */
#define MAX_TAGS 4
#define MAX_EXTENSIONS 8

/* An extension header of IP whose first eight bytes are there. */
header extension_t {
    bit<8> next;
    bit<8> length;
    bit<48> body;
    varbit<16320> rest;
}

header options_t {
    varbit<320> bytes;
}

#ifdef L4_BYTES
/* Pieces of the first L4_BYTES bytes from the transport header on, without its ports. Programs that
 * read these bytes define it. */
#define L4_BITS (8 * L4_BYTES)
header l4_32_t {
    bit<256> bytes;
}

header l4_16_t {
    bit<128> bytes;
}

header l4_8_t {
    bit<64> bytes;
}

header l4_4_t {
    bit<32> bytes;
}

header l4_2_t {
    bit<16> bytes;
}

header l4_1_t {
    bit<8> bytes;
}
#endif

#ifdef TEST_CLOCK
/* In front of each frame of a test: the port that it came in by, when that was, and how long the switch holds it. */
header test_clock_t {
    bit<16> port;
    bit<16> zero;
    bit<64> received_ns;
    bit<32> held_ns;
}
#endif

struct headers_t {
#ifdef TEST_CLOCK
    test_clock_t clock;
#endif
    macs_t macs;
    shim_t shim;
    tag_t[MAX_TAGS] tags;
    ethertype_t ethertype;
    pppoe_t pppoe;
    ipv4_t ipv4;
    options_t options;
    ipv6_t ipv6;
    extension_t[MAX_EXTENSIONS] extensions;
    ports_t ports;
#ifdef L4_BYTES
    l4_32_t l4_32;
    l4_16_t l4_16;
    l4_8_t l4_8;
    l4_4_t l4_4;
    l4_2_t l4_2;
    l4_1_t l4_1;
#endif
}

const bit<2> NET_OTHER = 0;
const bit<2> NET_IPV4 = 1;
const bit<2> NET_IPV6 = 2;

const bit<2> FRAGMENT_NONE = 0;
const bit<2> FRAGMENT_FIRST = 1;
const bit<2> FRAGMENT_LATER = 2;

/* Ends of a packet in this switch. */
const bit<2> TO_NOWHERE = 0;
const bit<2> TO_HOST = 1;
const bit<2> TO_FABRIC = 2;

struct ports_meta_t {
    bit<9> ingress;
    /* It comes from a host: it enters the network here. */
    bit<1> enters;
    /* A runt, a shim from a host, or a shim that this version cannot read. */
    bit<1> is_rejected;
    bit<2> disposition;
}

struct clock_meta_t {
    bit<64> received_ns;
    bit<32> held_ns;
}

struct epoch_meta_t {
    /* The running epoch. */
    bit<64> number;
    /* The copy of the registers that counts it. */
    bit<32> copy;
    /* The controller has prepared the epoch. */
    bit<1> measured;
    /* The lowest 20 bits of the number of the epoch in which the packet entered the network. */
    bit<20> entered;
}

struct parser_meta_t {
    /* Bytes of the frame that are left. */
    bit<32> frame_left;
    /* Bytes of the IP packet that are left, without padding. */
    bit<32> left;
    bit<8> protocol;
    bit<32> length;
    bit<1> is_known;
#ifdef L4_BYTES
    /* Bytes that are in l4_bytes. */
    bit<8> l4_length;
#endif
}

/* The five-tuple. An IPv4 address stands in the low 32 bits. Ports are 0 where there are none. */
struct flow_t {
    bit<128> src;
    bit<128> dst;
    bit<16> sport;
    bit<16> dport;
    bit<8> proto;
}

struct metadata_t {
    parser_meta_t parse;
    ports_meta_t port;
    clock_meta_t clock;
    epoch_meta_t epoch;
    bit<2> net;
    bit<2> fragment;
    /* A transport header's ports, or eight bytes of an ICMP header, are there. */
    bit<1> l4;
    /* Bytes of the frame, without the shim. */
    bit<32> wire_bytes;
    flow_t flow;
#ifdef L4_BYTES
    /* The bytes from the transport header on, the first one highest, with zeros behind the frame's
     * end. */
    bit<L4_BITS> l4_bytes;
#endif
    /* Switches passed, this one as well. */
    bit<6> hop;
    /* The digest of the shim. */
    bit<16> digest;
    /* What the packet carries on of its class (ChameleMon). */
    bit<2> class;
#ifdef HASHPIPE
    hashpipe_t hashpipe;
#endif
#ifdef CHAMELEMON
    chamelemon_t chamelemon;
#endif
#ifdef PINT
    pint_t pint;
#endif
#ifdef DISKETCH
    disketch_t disketch;
#endif
#ifdef HOPCOUNTERS
    hopcounters_t hopcounters;
#endif
}

#endif
