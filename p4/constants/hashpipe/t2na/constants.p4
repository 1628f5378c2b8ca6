/* Written by `weir p4 --target t2na --reproducible 7`, for p4/switch/t2na.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define HASHPIPE
#define HASHPIPE_IPV4_0_CELLS 4096
#define HASHPIPE_IPV4_0_BITS 64
#define HASHPIPE_IPV4_1_CELLS 4096
#define HASHPIPE_IPV4_1_BITS 64
#define HASHPIPE_IPV4_2_CELLS 4096
#define HASHPIPE_IPV4_2_BITS 64
#define HASHPIPE_IPV4_3_CELLS 4096
#define HASHPIPE_IPV4_3_BITS 64
#define HASHPIPE_IPV4_4_CELLS 4096
#define HASHPIPE_IPV4_4_BITS 64
#define HASHPIPE_IPV4_5_CELLS 4096
#define HASHPIPE_IPV4_5_BITS 64
#define HASHPIPE_STAGES 6
#define HASHPIPE_SCOPE_NETWORK 1
#define CRC_HASHPIPE_DIGEST 32w0x4c11db7
#define CRC_HASHPIPE_IPV4_0 32w0xcdc7cd45
#define CRC_HASHPIPE_IPV4_1 32w0x527ea1
#define CRC_HASHPIPE_IPV4_2 32w0x72d54593
#define CRC_HASHPIPE_IPV4_3 32w0x6f58b671
#define CRC_HASHPIPE_IPV4_4 32w0x724b7f3d
#define CRC_HASHPIPE_IPV4_5 32w0x3b996d47
