/* A FermatSketch (§3.1): rows of buckets, each the number of packets and the sums of their IDs'
 * fragments modulo p. Upstream minus downstream holds the lost packets alone. */

/* The largest prime of 32 bits. It is above every fragment. */
const bit<32> P = 4294967291;

/* The sum modulo p within 32 bits (Algorithm 3): sum + fragment < p, asked without a sum that could
 * overflow. */
bit<32> add_modulo_p(in bit<32> sum, in bit<32> fragment) {
    bit<32> inverse = P - fragment;
    return sum < inverse ? sum + fragment : sum - inverse;
}

/* The bucket arrays of one row. */
control FermatRow(in fragments_t fragments, in bit<32> index_hash, in part_place_t place, in bit<32> copy)(bit<32> cells) {
    register<bit<32>>(WITH_COPIES(cells)) source;
    register<bit<32>>(WITH_COPIES(cells)) destination;
    register<bit<32>>(WITH_COPIES(cells)) ports;
    register<bit<32>>(WITH_COPIES(cells)) rest;
    register<bit<32>>(WITH_COPIES(cells)) count;
    bit<32> bucket;
    bit<32> sum;

    action locate() {
        bucket = index_hash >> place.shift;
        MODULO(bucket, bucket, place.slots);
        bucket = bucket + place.offset + copy * cells;
    }
    action encode() {
        source.read(sum, bucket);
        source.write(bucket, add_modulo_p(sum, fragments.source));
        destination.read(sum, bucket);
        destination.write(bucket, add_modulo_p(sum, fragments.destination));
        ports.read(sum, bucket);
        ports.write(bucket, add_modulo_p(sum, fragments.ports));
        rest.read(sum, bucket);
        rest.write(bucket, add_modulo_p(sum, fragments.rest));
        count.read(sum, bucket);
        count.write(bucket, sum + 1);
    }

    apply {
        locate();
        encode();
    }
}

/* An encoder, of which a part takes the packet. */
control FermatSketch(in chamelemon_t packet, in bit<32> copy)(bit<32> cells, bit<32> small_cells) {
    FermatRow(cells) row_0;
    FermatRow(cells) row_1;
#if CHAMELEMON_ARRAYS > 2
    FermatRow(cells) row_2;
#endif
#if CHAMELEMON_ARRAYS > 3
    FermatRow(cells) row_3;
#endif
#if CHAMELEMON_SMALL
    FermatRow(small_cells) small_row;
#endif

    apply {
        row_0.apply(packet.fragments, packet.hashes.row_0, packet.part.full, copy);
        row_1.apply(packet.fragments, packet.hashes.row_1, packet.part.full, copy);
#if CHAMELEMON_ARRAYS > 2
        row_2.apply(packet.fragments, packet.hashes.row_2, packet.part.full, copy);
#endif
#if CHAMELEMON_ARRAYS > 3
        row_3.apply(packet.fragments, packet.hashes.row_3, packet.part.full, copy);
#endif
#if CHAMELEMON_SMALL
        small_row.apply(packet.fragments, packet.hashes.small_row, packet.part.small, copy);
#endif
    }
}
