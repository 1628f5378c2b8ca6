/*
 * Forwards from the first device to the second, and prints packets per second:
 *
 *   native EAL… -- member SAMPLE SECONDS    counts flows by librte_member's sketch
 *   native EAL… -- swx 1 SECONDS            by a software switch pipeline whose program looks up nothing
 *
 * The sketch gets the five-tuple of each IPv4 packet. It keeps the 1000 heaviest flows: a power of two would lack one place in its ring.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_member.h>
#include <rte_swx_pipeline.h>
#include <rte_swx_port_ethdev.h>

#define BURST 32
#define BUFFERS 65535
#define SECONDS_TO_WARM_UP 0.3
#define TOP 1000

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, rte_strerror(rte_errno));
	exit(1);
}

static void start_port(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {0};

	if (rte_eth_dev_configure(port, 1, 1, &conf) || rte_eth_rx_queue_setup(port, 0, 512, 0, NULL, pool) ||
	    rte_eth_tx_queue_setup(port, 0, 512, 0, NULL) || rte_eth_dev_start(port))
		fail("a port does not start");
}

/* An IPv4 five-tuple; nothing stands between its parts. */
struct tuple {
	uint32_t src, dst;
	uint16_t sport, dport;
	uint8_t proto;
} __rte_packed;

static struct rte_member_setsum *new_sketch(float sample)
{
	struct rte_member_parameters parameters = {
		.name = "bench",
		.type = RTE_MEMBER_TYPE_SKETCH,
		.key_len = sizeof(struct tuple),
		.error_rate = 0.01,
		.sample_rate = sample,
		.top_k = TOP,
		.prim_hash_seed = 1,
		.sec_hash_seed = 2,
		.socket_id = rte_socket_id(),
	};
	struct rte_member_setsum *sketch = rte_member_create(&parameters);

	if (!sketch)
		fail("rte_member_create");
	return sketch;
}

static void count(struct rte_member_setsum *sketch, struct rte_mbuf **packets, uint16_t number)
{
	for (uint16_t i = 0; i < number; i++) {
		const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(packets[i], const struct rte_ether_hdr *);
		const struct rte_ipv4_hdr *ip = (const void *)(ether + 1);
		struct tuple tuple;

		if (ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4))
			continue;
		tuple.src = ip->src_addr;
		tuple.dst = ip->dst_addr;
		tuple.proto = ip->next_proto_id;
		tuple.sport = tuple.dport = 0;
		if (tuple.proto == IPPROTO_TCP || tuple.proto == IPPROTO_UDP)
			memcpy(&tuple.sport, (const uint8_t *)ip + (ip->version_ihl & 15) * 4, 4);
		rte_member_add(sketch, &tuple, 1);
	}
}

/* Forwards until the time is over, and returns packets per second. */
static double forward(struct rte_member_setsum *sketch, double seconds)
{
	struct rte_mbuf *packets[BURST];
	uint64_t begin = rte_rdtsc(), end = begin + seconds * rte_get_tsc_hz(), total = 0;

	while (rte_rdtsc() < end) {
		uint16_t number = rte_eth_rx_burst(0, 0, packets, BURST), sent;

		count(sketch, packets, number);
		sent = rte_eth_tx_burst(1, 0, packets, number);
		if (sent < number)
			rte_pktmbuf_free_bulk(packets + sent, number - sent);
		total += sent;
	}
	return total * (double)rte_get_tsc_hz() / (rte_rdtsc() - begin);
}

/* A program for rte_swx_pipeline_build(), which interprets it. Compiled programs need a header that
 * distributions do not install. */
static struct rte_swx_pipeline *new_pipeline(void)
{
	struct rte_swx_field_params ethernet[] = {{"dst", 48}, {"src", 48}, {"type", 16}}, metadata[] = {{"port", 32}};
	const char *program[] = {"rx m.port", "extract h.ethernet", "xor m.port 1", "emit h.ethernet", "tx m.port"};
	static char names[2][RTE_ETH_NAME_MAX_LEN];
	struct rte_swx_pipeline *pipeline = NULL;

	if (rte_swx_pipeline_config(&pipeline, "bench", rte_socket_id()))
		fail("rte_swx_pipeline_config");
	for (uint16_t i = 0; i < 2; i++) {
		struct rte_swx_port_ethdev_reader_params in = {names[i], 0, BURST};
		struct rte_swx_port_ethdev_writer_params out = {names[i], 0, BURST};

		rte_eth_dev_get_name_by_port(i, names[i]);
		if (rte_swx_pipeline_port_in_config(pipeline, i, "ethdev", &in) ||
		    rte_swx_pipeline_port_out_config(pipeline, i, "ethdev", &out))
			fail("a port of the pipeline");
	}
	if (rte_swx_pipeline_struct_type_register(pipeline, "ethernet_h", ethernet, RTE_DIM(ethernet), 0) ||
	    rte_swx_pipeline_struct_type_register(pipeline, "metadata_t", metadata, RTE_DIM(metadata), 0) ||
	    rte_swx_pipeline_packet_header_register(pipeline, "ethernet", "ethernet_h") ||
	    rte_swx_pipeline_packet_metadata_register(pipeline, "metadata_t") ||
	    rte_swx_pipeline_instructions_config(pipeline, program, RTE_DIM(program)) ||
	    rte_swx_pipeline_build(pipeline))
		fail("the pipeline's program");
	return pipeline;
}

/* Runs the pipeline until the time is over, and returns packets per second. */
static double run_pipeline(struct rte_swx_pipeline *pipeline, double seconds)
{
	struct rte_eth_stats before, after;
	uint64_t begin = rte_rdtsc(), end = begin + seconds * rte_get_tsc_hz();

	rte_eth_stats_get(1, &before);
	while (rte_rdtsc() < end) {
		rte_swx_pipeline_run(pipeline, 10000);
		rte_swx_pipeline_flush(pipeline);
	}
	rte_eth_stats_get(1, &after);
	return (after.opackets - before.opackets) * (double)rte_get_tsc_hz() / (rte_rdtsc() - begin);
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	struct rte_mempool *pool;
	double seconds, rate;

	if (used < 0 || argc - used != 4)
		fail("usage: native EAL... -- member|swx SAMPLE SECONDS");
	argv += used;
	pool = rte_pktmbuf_pool_create("bench", BUFFERS, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, rte_socket_id());
	if (!pool)
		fail("no packet buffers");
	for (uint16_t port = 0; port < 2; port++)
		start_port(port, pool);
	seconds = atof(argv[3]);
	if (!strcmp(argv[1], "member")) {
		struct rte_member_setsum *sketch = new_sketch(atof(argv[2]));

		forward(sketch, SECONDS_TO_WARM_UP);
		rate = forward(sketch, seconds);
	} else {
		struct rte_swx_pipeline *pipeline = new_pipeline();

		run_pipeline(pipeline, SECONDS_TO_WARM_UP);
		rate = run_pipeline(pipeline, seconds);
	}
	printf("%.0f\n", rate);
	return 0;
}
