#include "latency.h"

/* One thread writes, so a load and a store are enough. */
static void add(_Atomic uint64_t *word, uint64_t by)
{
	atomic_store_explicit(word, by +
		atomic_load_explicit(word, memory_order_relaxed),
		memory_order_relaxed);
}

static uint64_t get(_Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int high;

	if (ns < 1 << SUB_BITS)
		return ns;
	high = 63 - __builtin_clzll(ns);
	return ((high - SUB_BITS + 1) << SUB_BITS) +
		((ns >> (high - SUB_BITS)) & ((1 << SUB_BITS) - 1));
}

uint64_t bucket_low(unsigned int bucket)
{
	unsigned int group = bucket >> SUB_BITS;
	uint64_t rest = bucket & ((1 << SUB_BITS) - 1);

	if (!group)
		return rest;
	/* One past the last bucket is 2^64, which is 0 here. */
	return (rest + (1 << SUB_BITS)) << (group - 1);
}

void histogram_init(struct histogram *h)
{
	atomic_init(&h->min, UINT64_MAX);
}

void histogram_record(struct histogram *h, uint64_t deadline, uint64_t now)
{
	uint64_t ns = now - deadline;

	if (now < deadline) {
		add(&h->early, 1);
		return;
	}
	/* The ends first: a reader clips to them what it finds in buckets. */
	if (ns < get(&h->min))
		atomic_store_explicit(&h->min, ns, memory_order_relaxed);
	if (ns > get(&h->max))
		atomic_store_explicit(&h->max, ns, memory_order_relaxed);
	add(&h->sum, ns);
	add(&h->bucket[bucket_of(ns)], 1);
}

void histogram_since(struct histogram *h, struct reading *seen,
		     struct reading *part)
{
	uint64_t now = get(&h->sum);

	part->sum = now - seen->sum;
	seen->sum = now;
	for (unsigned int i = 0; i < BUCKETS; i++) {
		now = get(&h->bucket[i]);
		part->bucket[i] = now - seen->bucket[i];
		seen->bucket[i] = now;
	}
}

/* The value that @per_mille thousandths of the values do not exceed, at most @most. */
static uint64_t quantile(const struct reading *part, uint64_t count,
			 unsigned int per_mille, uint64_t most)
{
	uint64_t want = (count * per_mille + 999) / 1000, seen = 0, end;
	unsigned int i = 0;

	while (seen < want)
		seen += part->bucket[i++];
	end = bucket_low(i) - 1;
	return end < most ? end : most;
}

void histogram_summary(struct histogram *h, const struct reading *part,
		       struct summary *s)
{
	uint64_t max = get(&h->max), min = get(&h->min);
	unsigned int i;

	*s = (struct summary){ 0 };
	for (i = 0; i < BUCKETS; i++)
		s->count += part->bucket[i];
	if (!s->count)
		return;
	for (i = 0; !part->bucket[i]; i++)
		;
	s->min = bucket_low(i) > min ? bucket_low(i) : min;
	s->average = part->sum / s->count;
	s->p50 = quantile(part, s->count, 500, max);
	s->p99 = quantile(part, s->count, 990, max);
	s->p999 = quantile(part, s->count, 999, max);
	s->max = quantile(part, s->count, 1000, max);
}
