/* CRC-32 in zlib's form: reflected, all ones before and after. A hash unit's polynomial is fixed
 * when the program is compiled, so a new secret of the network is a new program.
 *
 * NAME is a hash unit that gives the lowest BITS bits. Actions without a match take at most 32
 * bits of hash, hence one action a CRC. */

#ifndef CRC_P4
#define CRC_P4

#define CRC(NAME, POLYNOMIAL, BITS) \
    CRCPolynomial<bit<32>>(POLYNOMIAL, true, false, false, 32w0xffffffff, 32w0xffffffff) NAME##_polynomial; \
    Hash<bit<BITS>>(HashAlgorithm_t.CUSTOM, NAME##_polynomial) NAME;

/* Cells of a register array with all of its copies. */
#define WITH_COPIES(CELLS) ((CELLS) << EPOCH_COPY_BITS)

/* The five-tuple of a flow, as all programs hash it. */
#define FIVE_TUPLE { hdr.ipv4.src, hdr.ipv4.dst, meta.ports, hdr.ipv4.protocol }

#endif
