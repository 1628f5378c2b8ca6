/* The hashes of a flow, of its key's CRCs and the constants a, b and c of the switch and epoch:
 *
 *   index  = join((crc0 ^ a) + crc1)     counter = its highest bits
 *   sample = join((crc2 ^ b) + crc1)     sub-epoch = its highest bits; sign = bit 25
 *   cover  = join((crc2 ^ c) + crc1)     with cover: sub-epoch = the highest bits of its sum with
 *                                        the place on the path
 *   depth  = join(crc0 + crc2)           its leading ones, at most 15 */

/* Adds the low half of a sum to its high half, by exclusive or. */
#define JOIN(SUM) ((SUM) ^ ((SUM) << 16))

/* The key of a flow and its three CRCs. */
control DiSketchCrcs(inout metadata_t meta) {
    action ipv4_key() {
        meta.disketch.src4 = meta.flow.src[31:0] & DISKETCH_IPV4_SRC_MASK;
        meta.disketch.dst4 = meta.flow.dst[31:0] & DISKETCH_IPV4_DST_MASK;
    }
    action ipv6_key() {
        meta.disketch.src6 = meta.flow.src & (DISKETCH_IPV6_SRC_MASK_HIGH ++ DISKETCH_IPV6_SRC_MASK_LOW);
        meta.disketch.dst6 = meta.flow.dst & (DISKETCH_IPV6_DST_MASK_HIGH ++ DISKETCH_IPV6_DST_MASK_LOW);
    }
    action transport_key() {
        meta.disketch.ports = (meta.flow.sport ++ meta.flow.dport) & DISKETCH_PORTS_MASK;
        meta.disketch.proto = meta.flow.proto & DISKETCH_PROTO_MASK;
    }
    action ipv4_0() {
        CRC(meta.disketch.crc0, { meta.disketch.src4, meta.disketch.dst4, meta.disketch.ports, meta.disketch.proto });
    }
    action ipv4_1() {
        CRC(meta.disketch.crc1, { meta.disketch.src4, meta.disketch.dst4, meta.disketch.ports, meta.disketch.proto });
    }
    action ipv4_2() {
        CRC(meta.disketch.crc2, { meta.disketch.src4, meta.disketch.dst4, meta.disketch.ports, meta.disketch.proto });
    }
    action ipv6_0() {
        CRC(meta.disketch.crc0, { meta.disketch.src6, meta.disketch.dst6, meta.disketch.ports, meta.disketch.proto });
    }
    action ipv6_1() {
        CRC(meta.disketch.crc1, { meta.disketch.src6, meta.disketch.dst6, meta.disketch.ports, meta.disketch.proto });
    }
    action ipv6_2() {
        CRC(meta.disketch.crc2, { meta.disketch.src6, meta.disketch.dst6, meta.disketch.ports, meta.disketch.proto });
    }

    apply {
        transport_key();
        if (meta.net == NET_IPV4) {
            ipv4_key();
            ipv4_0();
            ipv4_1();
            ipv4_2();
        } else {
            ipv6_key();
            ipv6_0();
            ipv6_1();
            ipv6_2();
        }
    }
}
