/* Written by `weir p4 --target v1model --reproducible 7`, for p4/switch/v1model.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define PINT
#define PINT_LAST_SENT_0_CELLS 256
#define PINT_LAST_SENT_0_BITS 32
#define PINT_UTILISATION_0_CELLS 256
#define PINT_UTILISATION_0_BITS 32
#define PINT_SETS 1
#define PINT_PATH_INSTANCES 1
#define PINT_PATH_BITS 8
#define PINT_PATH_MASK 16w0xff
#define PINT_PATH_FRAGMENT_BITS 0
#define PINT_PATH_CHECKSUM_BITS 0
#define PINT_PATH_CHECKSUM_SHIFT 0
#define PINT_TICK_SHIFT 4
#define PINT_VALUES 1
#define PINT_VALUE_0 5
#define PINT_VALUE_0_AGGREGATION 2
#define PINT_VALUE_0_LAST 255
#define PINT_VALUE_0_STEP 0
