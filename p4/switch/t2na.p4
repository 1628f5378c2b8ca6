/* A switch for Tofino 2, or for Tofino 1 where its programs fit there. constants.p4 says which
 * programs it runs. */

#include <core.p4>
#if __TARGET_TOFINO__ == 1
#include <tna.p4>
#else
#include <t2na.p4>
#endif

#include "constants.p4"
#include "common/headers.p4"
#include "common/t2na/crc.p4"
#ifdef HASHPIPE
#include "hashpipe/t2na_metadata.p4"
#endif
#ifdef CHAMELEMON
#include "chamelemon/t2na_metadata.p4"
#endif
#ifdef PINT
#include "pint/t2na_metadata.p4"
#endif
#ifdef DISKETCH
#include "disketch/t2na_metadata.p4"
#endif
#include "common/t2na/metadata.p4"
#include "common/t2na/parser.p4"
#include "common/t2na/network.p4"
#include "common/t2na/forward.p4"
#ifdef HASHPIPE
#include "hashpipe/t2na.p4"
#endif
#ifdef CHAMELEMON
#include "chamelemon/t2na.p4"
#endif
#ifdef PINT
#include "pint/t2na.p4"
#endif
#ifdef DISKETCH
#include "disketch/t2na.p4"
#endif

control Ingress(inout headers_t hdr, inout ingress_meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t manager) {
    Arrival() arrival;
    Epoch() epoch;
    Forward() forward;
#ifdef CHAMELEMON
    ChameleMonIngress() chamelemon;
#endif
#ifdef HASHPIPE
    HashPipe() hashpipe;
#endif
#ifdef PINT
    PintIngress() pint;
#endif
#ifdef DISKETCH
    DiSketch() disketch;
#endif

    apply {
        arrival.apply(hdr, meta, intrinsic, deparser);
        epoch.apply(hdr, meta, intrinsic);
        forward.apply(hdr, meta, intrinsic, deparser, manager);
        hdr.bridge.setValid();
        hdr.bridge.is_flow = meta.is_flow;
        hdr.bridge.zero = 0;
        /* Hashes are computed of all packets: no stage of them waits for a condition. Each
         * program asks itself which packets it counts. */
#ifdef CHAMELEMON
        chamelemon.apply(hdr, meta);
#endif
#ifdef HASHPIPE
        hashpipe.apply(hdr, meta);
#endif
#ifdef PINT
        pint.apply(hdr, meta, intrinsic);
#endif
#ifdef DISKETCH
        disketch.apply(hdr, meta, intrinsic);
#endif
    }
}

control Egress(inout headers_t hdr, inout egress_meta_t meta, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t output_port) {
    Departure() departure;
#ifdef CHAMELEMON
    ChameleMonEgress() chamelemon;
#endif
#ifdef PINT_AT_EGRESS
    PintEgress() pint;
#endif

    apply {
        departure.apply(meta, intrinsic);
        if (hdr.bridge.is_flow == 1) {
#ifdef CHAMELEMON
            chamelemon.apply(hdr, meta, intrinsic);
#endif
#ifdef PINT_AT_EGRESS
            pint.apply(hdr, meta, intrinsic, from_parser);
#endif
        }
        /* A shim comes off before a host. */
        if (meta.leaves == 1) {
            hdr.shim.setInvalid();
        }
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
