/* Written by `weir p4 --target t2na --reproducible 7`, for p4/switch/t2na.p4. Do not edit. */

#define EPOCH_SHIFT 26
/* Copies of each register array, by the lowest bits of an epoch's number. */
#ifndef EPOCH_COPY_BITS
#define EPOCH_COPY_BITS 1
#endif

#define PINT
#define PINT_PATH_INSTANCES 1
#define PINT_LATENCY 1
#define PINT_LATENCY_BYTE 1
#define CRC_PINT_IDENTITY 32w0x4c11db7
#define CRC_PINT_ACTS_0_INNER 32w0xf58ba83d
#define CRC_PINT_ACTS_0_OUTER 32w0xee400f4f
#define CRC_PINT_VALUES_0_INNER 32w0x4259398d
#define CRC_PINT_VALUES_0_OUTER 32w0x1f4a4c31
#define CRC_PINT_ROUNDING_INNER 32w0x912b83c3
#define CRC_PINT_LATENCY_INNER 32w0x9d627597
#define CRC_PINT_LATENCY_OUTER 32w0xf4fa4b31
