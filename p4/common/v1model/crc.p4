/* CRC-32 in zlib's form (reflected, all ones before and after) with a polynomial that the controller sets. Each CRC stands in an action
 * of its own, by whose name control.json gives its polynomial. */

#ifndef CRC_P4
#define CRC_P4

/* All 32 bits. */
#define CRC(FIELD, KEY) hash(FIELD, HashAlgorithm.crc32_custom, 32w0, KEY, 64w0x100000000)
/* Modulo a number of slots. */
#define CRC_MODULO(FIELD, KEY, SLOTS) hash(FIELD, HashAlgorithm.crc32_custom, 32w0, KEY, (bit<64>) (SLOTS))

/* Cells of a register array with all of its copies. */
#define WITH_COPIES(CELLS) ((CELLS) << EPOCH_COPY_BITS)

#endif
