/* PINT's part of a packet's metadata. */

/* The shim's last two bytes are the digest. */
#define SHIM_DIGEST
/* The identity reads up to seven bytes behind the longest TCP header. */
#define L4_BYTES 67

/* A query's place in the digest: the number of its lowest bit, and as many ones as it has bits. No
 * ones: the packet does not carry the query. */
struct digest_place_t {
    bit<4> shift;
    bit<16> mask;
}

struct pint_t {
    /* A CRC of what no hop changes of the packet: all switches have the same one. */
    bit<32> identity;
#ifdef PINT_TICK_SHIFT
    /* Of the link that the packet leaves by, in bytes of a period with eight bits behind the point. */
    bit<32> utilisation;
#endif
    digest_place_t path;
    digest_place_t value_0;
    digest_place_t value_1;
    digest_place_t value_2;
    digest_place_t value_3;
}
