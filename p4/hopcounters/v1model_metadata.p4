/* Hop counters' part of a packet's metadata. */

struct hopcounters_t {
    /* An IP packet that is no fragment, of an epoch that is counted. */
    bit<1> is_counted;
    /* The first cell of the epoch's copy, and the flow's group. */
    bit<32> first_cell;
    bit<32> group;
}
