/* A switch for BMv2's simple_switch. constants.p4, which `weir p4` writes, says which programs it runs. */

#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "common/headers.p4"
#ifdef HASHPIPE
#include "hashpipe/v1model_metadata.p4"
#endif
#ifdef CHAMELEMON
#include "chamelemon/v1model_metadata.p4"
#endif
#ifdef PINT
#include "pint/v1model_metadata.p4"
#endif
#ifdef DISKETCH
#include "disketch/v1model_metadata.p4"
#endif
#ifdef HOPCOUNTERS
#include "hopcounters/v1model_metadata.p4"
#endif
#include "common/v1model/metadata.p4"
#include "common/v1model/parser.p4"
#include "common/v1model/crc.p4"
#include "common/v1model/network.p4"
#include "common/v1model/forward.p4"
#ifdef HASHPIPE
#include "hashpipe/v1model.p4"
#endif
#ifdef CHAMELEMON
#include "chamelemon/v1model.p4"
#endif
#ifdef PINT
#include "pint/v1model.p4"
#endif
#ifdef DISKETCH
#include "disketch/v1model.p4"
#endif
#ifdef HOPCOUNTERS
#include "hopcounters/v1model.p4"
#endif

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Arrival() arrival;
    Epoch() epoch;
    Forward() forward;
#ifdef CHAMELEMON
    ChameleMonIngress() chamelemon;
#endif
#ifdef HASHPIPE
    HashPipe() hashpipe;
#endif
#if defined(DISKETCH) && !DISKETCH_SINGLE_HOP
    DiSketch() disketch;
#endif
#ifdef HOPCOUNTERS
    HopCountersIngress() hopcounters;
#endif

    apply {
        arrival.apply(hdr, meta);
        if (meta.port.is_rejected == 1) {
            mark_to_drop(standard);
        } else {
            epoch.apply(hdr, meta);
#ifdef CHAMELEMON
            /* Packets that leave count in the epoch in which they entered, even if nobody prepared this one. */
            chamelemon.apply(hdr, meta);
#endif
            if (meta.epoch.measured == 1) {
#ifdef HASHPIPE
                hashpipe.apply(hdr, meta);
#endif
#if defined(DISKETCH) && !DISKETCH_SINGLE_HOP
                disketch.apply(hdr, meta);
#endif
            }
#ifdef HOPCOUNTERS
            hopcounters.apply(meta);
#endif
            forward.apply(hdr, meta, standard);
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Departure() departure;
    Shim() shim;
#ifdef CHAMELEMON
    ChameleMonEgress() chamelemon;
#endif
#ifdef PINT
    Pint() pint;
#endif
#if defined(DISKETCH) && DISKETCH_SINGLE_HOP
    DiSketch() disketch;
#endif
#ifdef HOPCOUNTERS
    HopCountersEgress() hopcounters;
#endif

    apply {
        departure.apply(hdr, meta, standard.egress_port);
#ifndef TEST_CLOCK
        meta.clock.held_ns = (bit<32>) (standard.egress_global_timestamp - standard.ingress_global_timestamp) * 1000;
#endif
#ifdef CHAMELEMON
        chamelemon.apply(hdr, meta);
#endif
#ifdef PINT
        pint.apply(hdr, meta, standard);
#endif
#if defined(DISKETCH) && DISKETCH_SINGLE_HOP
        if (meta.epoch.measured == 1) {
            disketch.apply(hdr, meta);
        }
#endif
#ifdef HOPCOUNTERS
        hopcounters.apply(meta, standard.egress_port);
#endif
        shim.apply(hdr, meta);
#ifdef TEST_CLOCK
        hdr.clock.setInvalid();
#endif
    }
}

V1Switch(SwitchParser(), VerifyNothing(), SwitchIngress(), SwitchEgress(), UpdateNothing(), SwitchDeparser()) main;
