/* What the server tells the load generator, in memory that both map. C and C++. */
#ifndef SERVER_H
#define SERVER_H

/* How long a connection may be silent, in ticks of 1 ms. */
#define TIMEOUT 10000
/* A request, and its reply, in bytes. */
#define MESSAGE 64
#define LATES (1u << 20)
#define MOST_LOOPS 2

enum doing { SLEEPING, SERVING, IN_TIMERS };

/* Each is written by one thread, and read by the load generator. */
struct counts {
	int doing;
	uint64_t accepted, requests, expired;
} __attribute__((aligned(128)));

struct shared {
	int port;
	struct counts loops[MOST_LOOPS];
	/* How late the last idle timeouts of the first loop were, in nanoseconds. */
	int64_t late[LATES];
};

#define SEEN(word) __atomic_load_n(&(word), __ATOMIC_ACQUIRE)
#define TELL(word, value) __atomic_store_n(&(word), value, __ATOMIC_RELEASE)

#endif
