/* What the server tells the load generator, in memory that both map. */
#ifndef SHARED_H
#define SHARED_H

#include "../bench.h"
#include <stdatomic.h>

/* A request, and its reply, in bytes. */
#define REQUEST 64
/* A connection may be silent, and a request may take, so long. */
#define IDLE_MS 10000
#define DEADLINE_MS 5000
#define LATES (1u << 20)

enum doing { SLEEPING, SERVING, IN_TIMERS };

struct shared {
	_Alignas(64) _Atomic int doing;
	/* Of the server: counts from its begin on. */
	_Alignas(64) _Atomic int port;
	_Atomic uint64_t accepted, requests, expired;
	/* How late the last idle timeouts were, in nanoseconds. */
	int64_t late[LATES];
};

#endif
