/* The packet's identity: the CRC of 40 bytes that no hop changes (src/wire/identity.rs).
 *
 *     addresses    source xor (destination rotated left by 8), 128 bits
 *     protocol, ports
 *     length       IPv4: length and identification; IPv6: length and zeros
 *     numbers      TCP: sequence and acknowledgement; else bytes 8 to 15 behind the first eight
 *     payload      TCP: seven bytes of the payload; else bytes 1 to 7 behind the first eight
 *
 * What a frame does not have is zero. */

/* Bytes FIRST to LAST of l4_bytes. */
#define L4_SLICE(FIRST, LAST) meta.l4_bytes[L4_BITS - 1 - 8 * (FIRST):L4_BITS - 8 - 8 * (LAST)]

control Identity(inout headers_t hdr, inout metadata_t meta) {
    bit<128> addresses = meta.flow.src ^ (meta.flow.dst[119:0] ++ meta.flow.dst[127:120]);
    bit<32> length = 0;
    bit<64> numbers = 0;
    bit<56> payload = 0;

    action ipv4_length() {
        length = hdr.ipv4.total_length ++ hdr.ipv4.identification;
    }
    action ipv6_length() {
        length = hdr.ipv6.payload_length ++ 16w0;
    }
    action tcp() {
        /* A shift is by 255 bits at most. */
        bit<8> half_header = L4_SLICE(12, 12)[7:4] ++ 4w0;
        numbers = L4_SLICE(4, 11);
        payload = (meta.l4_bytes << half_header << half_header)[L4_BITS - 1:L4_BITS - 56];
    }
    action other_transport() {
        payload = L4_SLICE(8, 14);
        numbers = L4_SLICE(15, 22);
    }
    action crc() {
        CRC(meta.pint.identity,
            { addresses, meta.flow.proto, meta.flow.sport, meta.flow.dport, length, numbers, payload });
    }

    apply {
        if (meta.net == NET_IPV4) {
            ipv4_length();
        } else if (meta.net == NET_IPV6) {
            ipv6_length();
        }
        if (meta.flow.proto == PROTO_TCP) {
            tcp();
        } else {
            other_transport();
        }
        crc();
    }
}
