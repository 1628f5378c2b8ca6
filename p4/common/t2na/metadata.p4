/* What travels with a packet through ingress and egress. */

#ifndef METADATA_P4
#define METADATA_P4

/* Most VLAN tags that are looked behind. */
#define MAX_TAGS 2

/* TCP's header behind the ports. */
header tcp_t {
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4> offset;
    bit<12> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

/* From ingress to egress. */
header bridge_t {
    /* A flow of IPv4. */
    bit<1> is_flow;
    bit<7> zero;
#ifdef CHAMELEMON
    /* The joined halves of the rows' index hashes, and the last fragment of the ID. */
    bit<16> row_0;
    bit<16> row_1;
    bit<16> row_2;
    bit<32> rest;
#endif
#ifdef PINT_AT_EGRESS
    bit<32> identity;
    bit<32> received_ns;
#endif
}

struct headers_t {
    bridge_t bridge;
    macs_t macs;
    shim_t shim;
    tag_t[MAX_TAGS] tags;
    ethertype_t ethertype;
    ipv4_t ipv4;
    ports_t ports;
    tcp_t tcp;
}

struct ingress_meta_t {
    /* The port may send it. */
    bit<1> is_taken;
    /* The port is that of a host: the packet enters the network here. */
    bit<1> enters;
    /* A shim that this version cannot read. */
    bit<1> is_unreadable;
    /* The controller has prepared the running epoch, and the copy of the registers that counts
     * it. */
    bit<1> is_measured;
    bit<1> copy;
    /* A flow of IPv4. Both ports in one word, 0 where there are none. */
    bit<1> is_flow;
    bit<32> ports;
    /* The first tag's control information, 0 without one. */
    bit<16> tci;
    bit<1> is_routed;
#ifdef HASHPIPE
    hashpipe_t hashpipe;
#endif
#ifdef CHAMELEMON
    chamelemon_ingress_t chamelemon;
#endif
#ifdef PINT
    pint_ingress_t pint;
#endif
#ifdef DISKETCH
    disketch_t disketch;
#endif
}

struct egress_meta_t {
    bit<32> ports;
    /* It leaves the network. */
    bit<1> leaves;
#ifdef CHAMELEMON
    chamelemon_egress_t chamelemon;
#endif
#ifdef PINT
    pint_egress_t pint;
#endif
}

#endif
