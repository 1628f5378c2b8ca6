/* Written by `weir p4 --target v1model --reproducible 7`, for p4/switch/v1model.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define HOPCOUNTERS
#define HOPCOUNTERS_RECEIVED_0_CELLS 8192
#define HOPCOUNTERS_RECEIVED_0_BITS 32
#define HOPCOUNTERS_SENT_0_CELLS 8192
#define HOPCOUNTERS_SENT_0_BITS 32
#define HOPCOUNTERS_BALANCE_0_CELLS 1024
#define HOPCOUNTERS_BALANCE_0_BITS 32
#define HOPCOUNTERS_PORTS 8
#define HOPCOUNTERS_GROUPS 512
#define HOPCOUNTERS_GROUP_SHIFT 23
