/* Written by `weir p4 --target v1model --reproducible 7`, for p4/switch/v1model.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define DISKETCH
#define DISKETCH_COUNTERS_0_CELLS 16384
#define DISKETCH_COUNTERS_0_BITS 32
#define DISKETCH_LEVELS 1
#define DISKETCH_SIGNED 1
#define DISKETCH_COUNT_BYTES 0
#define DISKETCH_MAX_WEIGHT 2147483647
#define DISKETCH_MAX_CUTS 6
#define DISKETCH_SINGLE_HOP 0
#define DISKETCH_COVER 0
#define DISKETCH_INDEX_SHIFT 18
#define DISKETCH_INDEX_SPARE 0
#define DISKETCH_LEVEL_WORD 32w0x9e3779b9
#define DISKETCH_IPV4_SRC_MASK 32w0xffffffff
#define DISKETCH_IPV4_DST_MASK 32w0xffffffff
#define DISKETCH_IPV6_SRC_MASK_HIGH 64w0xffffffffffffffff
#define DISKETCH_IPV6_SRC_MASK_LOW 64w0xffffffffffffffff
#define DISKETCH_IPV6_DST_MASK_HIGH 64w0xffffffffffffffff
#define DISKETCH_IPV6_DST_MASK_LOW 64w0xffffffffffffffff
#define DISKETCH_PORTS_MASK 32w0xffffffff
#define DISKETCH_PROTO_MASK 8w0xff
