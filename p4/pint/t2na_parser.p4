/* The bytes of the transport that identify a packet (src/wire/identity.rs). They are looked at
 * and not taken off, so that they take no room in the deparser: a state for each length of the
 * TCP options. A lookahead ends 32 bytes behind the last header, so options are read up to 20
 * bytes; longer ones, and of packets with options a payload shorter than seven bytes, count as
 * zeros. */

#define TCP_PAYLOAD(N) \
    state payload_##N { \
        meta.pint.payload = (packet.lookahead<bit<(32 * N + 48)>>())[47:0]; \
        meta.pint.payload_last = (packet.lookahead<bit<(32 * N + 56)>>())[7:0]; \
        transition accept; \
    }

    state tcp {
        meta.ports = packet.lookahead<bit<32>>();
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        meta.pint.numbers_0 = hdr.tcp.sequence;
        meta.pint.numbers_1 = hdr.tcp.acknowledgement;
        transition select(hdr.tcp.offset, hdr.ipv4.total_length) {
            /* Without options, 40 to 46 bytes: a frame has at least 60. */
            (5, 40 &&& 0xfffc): six_bytes;
            (5, 44 &&& 0xfffe): six_bytes;
            (5, 46): six_bytes;
            (5, _): payload_0;
            (6, 44 &&& 0xfffc): accept;
            (6, 48 &&& 0xfffe): accept;
            (6, 50): accept;
            (6, _): payload_1;
            (7, 48 &&& 0xfffc): accept;
            (7, 52 &&& 0xfffe): accept;
            (7, 54): accept;
            (7, _): payload_2;
            (8, 52 &&& 0xfffc): accept;
            (8, 56 &&& 0xfffe): accept;
            (8, 58): accept;
            (8, _): payload_3;
            (9, 56 &&& 0xfffc): accept;
            (9, 60 &&& 0xfffe): accept;
            (9, 62): accept;
            (9, _): payload_4;
            (10, 60 &&& 0xfffc): accept;
            (10, 64 &&& 0xfffe): accept;
            (10, 66): accept;
            (10, _): payload_5;
            default: accept;
        }
    }

    state six_bytes {
        meta.pint.payload = packet.lookahead<bit<48>>();
        transition accept;
    }
    TCP_PAYLOAD(0)
    TCP_PAYLOAD(1)
    TCP_PAYLOAD(2)
    TCP_PAYLOAD(3)
    TCP_PAYLOAD(4)
    TCP_PAYLOAD(5)

    /* Eight bytes of header, of which the first four are ports, and fifteen of payload. */
    state ports {
        meta.ports = packet.lookahead<bit<32>>();
        packet.extract(hdr.ports);
        meta.pint.payload = (packet.lookahead<bit<80>>())[47:0];
        meta.pint.payload_last = (packet.lookahead<bit<88>>())[7:0];
        meta.pint.numbers_0 = (packet.lookahead<bit<120>>())[31:0];
        meta.pint.numbers_1 = (packet.lookahead<bit<152>>())[31:0];
        transition accept;
    }

    state no_ports {
        meta.pint.payload = (packet.lookahead<bit<112>>())[47:0];
        meta.pint.payload_last = (packet.lookahead<bit<120>>())[7:0];
        meta.pint.numbers_0 = (packet.lookahead<bit<152>>())[31:0];
        meta.pint.numbers_1 = (packet.lookahead<bit<184>>())[31:0];
        transition accept;
    }
