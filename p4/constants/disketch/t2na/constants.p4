/* Written by `weir p4 --target t2na --reproducible 7`, for p4/switch/t2na.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define DISKETCH
#define DISKETCH_COUNTERS_0_CELLS 16384
#define DISKETCH_COUNTERS_0_BITS 32
#define CRC_DISKETCH_0 32w0x3efdedbd
#define CRC_DISKETCH_1 32w0x2f0a4a17
#define CRC_DISKETCH_2 32w0x8f0b29cd
