/* CRC-32 in zlib's form (reflected, all ones before and after) with a polynomial that the controller sets. Each CRC stands in an action
 * of its own, by whose name control.json gives its polynomial. */

#ifndef CRC_P4
#define CRC_P4

/* All 32 bits of the CRC of a list of fields. */
#define CRC(FIELD, ...) hash(FIELD, HashAlgorithm.crc32_custom, 32w0, __VA_ARGS__, 64w0x100000000)
/* The same modulo a number of slots. */
#define CRC_MODULO(FIELD, SLOTS, ...) hash(FIELD, HashAlgorithm.crc32_custom, 32w0, __VA_ARGS__, (bit<64>) (SLOTS))

/* A value modulo a number that may be known at run time alone. P4 has no such division; the identity as a hash has. */
#define MODULO(FIELD, VALUE, SLOTS) hash(FIELD, HashAlgorithm.identity, 32w0, { VALUE }, (bit<64>) (SLOTS))

/* Cells of a register array with all of its copies. */
#define WITH_COPIES(CELLS) ((CELLS) << EPOCH_COPY_BITS)

#endif
