/* What bindgen reads. Structures whose members move between DPDK releases, or sit in unnamed unions, are
 * touched here only, so that the Rust side is the same for 22.11, 23.11 and 24.11. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Where the fields of an mbuf are: lets Rust read them inline without a view of its unnamed unions. */
enum weir_mbuf_offset {
	WEIR_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	WEIR_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	WEIR_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	WEIR_MBUF_NEXT = offsetof(struct rte_mbuf, next),
	WEIR_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	WEIR_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	WEIR_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	WEIR_MBUF_VLAN_TCI = offsetof(struct rte_mbuf, vlan_tci),
	WEIR_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	WEIR_MBUF_POOL = offsetof(struct rte_mbuf, pool),
	WEIR_MBUF_SIZE = sizeof(struct rte_mbuf),
	WEIR_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
};

static const uint64_t WEIR_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const uint64_t WEIR_RX_L4_CKSUM_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t WEIR_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;

/* rte_errno is a thread-local variable, which stable Rust cannot name. */
static inline int weir_errno(void)
{
	return rte_errno;
}

/* Without huge pages a pool that asks for IOVA-contiguous objects gets one mbuf on each 4 KB page, and all their
 * headers fall into the same few L1 sets. rte_pktmbuf_pool_create takes no flags, hence its steps one by one. */
static inline struct rte_mempool *weir_pktmbuf_pool_create(const char *name, unsigned int n, unsigned int cache,
	uint16_t data_room, int socket, unsigned int flags)
{
	struct rte_pktmbuf_pool_private private_data;
	struct rte_mempool *pool;
	int err;

	memset(&private_data, 0, sizeof(private_data));
	private_data.mbuf_data_room_size = data_room;
	pool = rte_mempool_create_empty(name, n, sizeof(struct rte_mbuf) + data_room, cache, sizeof(private_data),
		socket, flags);
	if (pool == NULL)
		return NULL;
	err = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL);
	if (err == 0) {
		rte_pktmbuf_pool_init(pool, &private_data);
		err = rte_mempool_populate_default(pool);
	}
	if (err < 0) {
		rte_mempool_free(pool);
		rte_errno = -err;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

static inline struct rte_mbuf *weir_pktmbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

/* As DPDK does it, for pools that weir made: their mbufs have buffers of their own with room for the
 * headroom, and as they lie in the pool one reference and one segment. */
static inline int weir_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	int err = rte_mempool_get_bulk(pool, (void **)mbufs, n);
	unsigned int i;

	for (i = 0; err == 0 && i < n; i++) {
		struct rte_mbuf *mbuf = mbufs[i];

		mbuf->data_off = RTE_PKTMBUF_HEADROOM;
		mbuf->port = RTE_MBUF_PORT_INVALID;
		mbuf->ol_flags = 0;
		mbuf->packet_type = 0;
		mbuf->pkt_len = 0;
		mbuf->data_len = 0;
		mbuf->vlan_tci = 0;
		mbuf->vlan_tci_outer = 0;
		mbuf->tx_offload = 0;
	}
	return err;
}

/* A field of 32 bits of each mbuf, and a flag that says whether it is set: for how long weir held the packet back.
 * Registering them again gives the same. Negative with rte_errno set when there is no room. */
static inline int weir_held_field(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "weir_dynfield_held", .size = sizeof(uint32_t), .align = sizeof(uint32_t),
	};

	return rte_mbuf_dynfield_register(&field);
}

static inline int weir_held_flag(void)
{
	static const struct rte_mbuf_dynflag flag = { .name = "weir_dynflag_held" };

	return rte_mbuf_dynflag_register(&flag);
}

static inline void weir_pktmbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

/* Returns packets to their pools. Those of one buffer each, of one pool, that nothing else refers to
 * go back as they are. A packet of one segment has no next one, so its references, segments and next
 * are as a pool wants them; next lies in the second cache line and is not read. */
static inline void weir_pktmbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int n)
{
	struct rte_mempool *pool;
	unsigned int i;

	if (n == 0)
		return;
	pool = mbufs[0]->pool;
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *mbuf = mbufs[i];

		if (mbuf->pool != pool || mbuf->nb_segs != 1 || !RTE_MBUF_DIRECT(mbuf) || rte_mbuf_refcnt_read(mbuf) != 1) {
			rte_pktmbuf_free_bulk(mbufs, n);
			return;
		}
	}
	rte_mempool_put_bulk(pool, (void **)mbufs, n);
}

static inline int weir_pktmbuf_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

/* Appends a part of another buffer's data to a frame without a copy: a segment of its own that refers to that buffer,
 * which lives as long as the segment does. -1 when the pool has no mbuf for it. */
static inline int weir_pktmbuf_append_part(struct rte_mbuf *frame, struct rte_mbuf *whole, struct rte_mempool *pool,
	uint16_t offset, uint16_t length)
{
	struct rte_mbuf *part = rte_pktmbuf_alloc(pool);

	if (part == NULL)
		return -1;
	rte_pktmbuf_attach(part, whole);
	part->data_off = whole->data_off + offset;
	part->data_len = length;
	part->pkt_len = length;
	if (rte_pktmbuf_chain(frame, part) != 0) {
		rte_pktmbuf_free(part);
		return -1;
	}
	return 0;
}

static inline uint16_t weir_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

static inline uint16_t weir_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

static inline uint64_t weir_rdtsc(void)
{
	return rte_rdtsc();
}

#define WEIR_RSS_TYPES (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)
#define WEIR_RSS_KEY_MOST 64

struct weir_eth_info {
	const char *driver;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint16_t max_mtu;
	int strips_vlan;
	/* Spreads flows over its receive queues. */
	int has_rss;
};

static inline int weir_eth_info(uint16_t port, struct weir_eth_info *out)
{
	struct rte_eth_dev_info info;
	int err = rte_eth_dev_info_get(port, &info);

	if (err == 0) {
		out->driver = info.driver_name;
		out->max_rx_queues = info.max_rx_queues;
		out->max_tx_queues = info.max_tx_queues;
		out->max_mtu = info.max_mtu;
		out->strips_vlan = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
		out->has_rss = (info.flow_type_rss_offloads & WEIR_RSS_TYPES) != 0;
	}
	return err;
}

/* With this key a Toeplitz hash is the same for both directions of a flow (Woo and Park, 2012), so that one worker sees
 * both. */
static inline void weir_rss_key(uint8_t *key)
{
	int i;

	for (i = 0; i < WEIR_RSS_KEY_MOST; i += 2) {
		key[i] = 0x6d;
		key[i + 1] = 0x5a;
	}
}

static inline int weir_eth_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	uint8_t key[WEIR_RSS_KEY_MOST];
	int err = rte_eth_dev_info_get(port, &info);

	if (err != 0)
		return err;
	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	if (rx_queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & WEIR_RSS_TYPES;
		if (info.hash_key_size != 0 && info.hash_key_size <= WEIR_RSS_KEY_MOST) {
			weir_rss_key(key);
			conf.rx_adv_conf.rss_conf.rss_key = key;
			conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
		}
	}
	return rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
}

/* The mbuf that net_af_xdp lent to the kernel under an address, in a ring of its socket; null if it is none of
 * the pool's. */
static inline struct rte_mbuf *weir_lent_mbuf(struct rte_mempool *pool, uint64_t addr)
{
	struct rte_mempool_memhdr *first = STAILQ_FIRST(&pool->mem_list);
	uintptr_t page = sysconf(_SC_PAGESIZE), start, at;
	struct rte_mbuf *mbuf;

	if (first == NULL || addr >= first->len)
		return NULL;
	start = (uintptr_t)first->addr;
	at = (start & ~(page - 1)) + (uintptr_t)addr + pool->header_size;
	if (at < start || at + sizeof(*mbuf) > start + first->len || at % RTE_MBUF_PRIV_ALIGN != 0)
		return NULL;
	mbuf = (struct rte_mbuf *)at;
	return mbuf->pool == pool && rte_mbuf_refcnt_read(mbuf) == 1 ? mbuf : NULL;
}

/* 1 up, 0 down, negative errno. */
static inline int weir_eth_link_up(uint16_t port)
{
	struct rte_eth_link link;
	int err;

	memset(&link, 0, sizeof(link));
	err = rte_eth_link_get_nowait(port, &link);
	return err < 0 ? err : link.link_status;
}
