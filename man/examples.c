// The EXAMPLES of the manual pages: a part lies between two lines with the name of its page.

//! [hwheel_advance]
/* Runs all that is due, and leaves the clock where it is. */
int run_due(struct hwheel *wheel)
{
	struct hwheel_event events[64];
	int n, sum = 0;

	do {
		n = hwheel_advance(wheel, 0, events, 64, NULL);
		sum += n;
	} while (n == 64);
	return n < 0 ? n : sum;
}
//! [hwheel_advance]

//! [hwheel_create]
/* Four threads run the callbacks, so that a slow one does not delay the rest. */
int make_wheel(struct hwheel **wheel)
{
	struct hwheel_options options = {
		.size = sizeof(options),
		.tick_ns = 100 * HWHEEL_USEC,
		.workers = 4,
	};

	return hwheel_create(&options, wheel);
}
//! [hwheel_create]

//! [hwheel_drain]
/* The end of a server: nothing fires any more, and each request gets an answer. */
int finish(struct hwheel *wheel)
{
	struct hwheel_event events[64];
	int n = hwheel_stop(wheel);

	while (n >= 0 && (n = hwheel_drain(wheel, events, 64)) > 0)
		for (int i = 0; i < n; i++)
			printf("request %u is refused\n", (unsigned int)events[i].cookie);
	return n < 0 ? n : hwheel_destroy(wheel);
}
//! [hwheel_drain]

//! [hwheel_every]
/* Once a second, somewhere in its first tenth, and no second twice. */
int start_heartbeat(struct hwheel *wheel, hwheel_fn beat, hwheel_timer_t *timer)
{
	return hwheel_every(wheel, HWHEEL_SEC, HWHEEL_SEC, HWHEEL_SEC / 10, beat, 0, 0,
			    timer);
}
//! [hwheel_every]

//! [hwheel_fd]
/* An event loop of one wheel and nothing else. */
int loop(struct hwheel *wheel)
{
	struct pollfd pfd = { .fd = hwheel_fd(wheel), .events = POLLIN };
	int n = pfd.fd;

	while (n >= 0) {
		if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
			return -errno;
		n = hwheel_poll(wheel, NULL, 0, NULL);
	}
	return n;
}
//! [hwheel_fd]

//! [hwheel_get_stats]
/* Prints the number of timers that exist, and of those that are pending. */
int show(const struct hwheel *wheel)
{
	struct hwheel_stats stats = { .size = sizeof(stats) };
	int result = hwheel_get_stats(wheel, &stats);

	if (result == 0)
		printf("%llu live, %llu pending\n", (unsigned long long)stats.live,
		       (unsigned long long)stats.pending);
	return result;
}
//! [hwheel_get_stats]

//! [hwheel_key_set]
/* A request of a user puts the end of the session off. */
int on_request(struct hwheel *wheel, const char *user, hwheel_fn expired, uint64_t cookie)
{
	return hwheel_key_set(wheel, user, (uint32_t)strlen(user), 600 * HWHEEL_SEC, expired,
			      cookie, 0);
}

/* A number is a key, too. */
int on_packet(struct hwheel *wheel, uint64_t connection, hwheel_fn expired)
{
	return hwheel_key_set(wheel, &connection, sizeof(connection), 60 * HWHEEL_SEC, expired,
			      connection, 0);
}
//! [hwheel_key_set]

//! [hwheel_list]
/* Cancels all timers with a cookie. Returns the number of timers. */
int cancel_all(struct hwheel *wheel, uint64_t cookie)
{
	struct hwheel_event events[64];
	uint64_t cursor = 0;
	int n, cancelled = 0;

	do {
		n = hwheel_list(wheel, &cursor, events, 64);
		for (int i = 0; i < n; i++)
			if (events[i].cookie == cookie)
				cancelled += hwheel_timer_delete(wheel, events[i].timer) == 1;
	} while (n == 64);
	return n < 0 ? n : cancelled;
}
//! [hwheel_list]

//! [hwheel_next_expiry]
/* A simulation jumps from timer to timer, until none is pending. */
void simulate(struct hwheel *wheel)
{
	uint64_t time_ns;

	while (hwheel_next_expiry(wheel, &time_ns) == 1)
		hwheel_advance(wheel, time_ns, NULL, 0, NULL);
}
//! [hwheel_next_expiry]

//! [hwheel_poll]
/* At most a millisecond of timers in each turn of the event loop. */
int turn(struct hwheel *wheel)
{
	struct hwheel_run run = { .size = sizeof(run), .max_ns = HWHEEL_MSEC };
	struct hwheel_event events[64];
	int n = hwheel_poll(wheel, events, 64, &run);

	for (int i = 0; i < n; i++)
		printf("%u has timed out\n", (unsigned int)events[i].cookie);
	return n < 0 ? n : (int)run.left;
}
//! [hwheel_poll]

//! [hwheel_run_queued]
/* The caller's threads sleep on a semaphore until a callback waits. */
sem_t requests;

void executor(struct hwheel *wheel, void *arg)
{
	(void)wheel;
	(void)arg;
	sem_post(&requests);
}

void *thread(void *wheel)
{
	while (sem_wait(&requests) == 0)
		hwheel_run_queued(wheel);
	return NULL;
}
//! [hwheel_run_queued]

//! [hwheel_strerror]
void complain(int result)
{
	if (result < 0)
		fprintf(stderr, "timer: %s\n", hwheel_strerror(result));
}
//! [hwheel_strerror]

//! [hwheel_timer_delete]
struct object {
	hwheel_timer_t timer; /* 0 when the object is gone */
};

/* An event of an object that has gone away since is not handled. */
void handle(struct object *objects, const struct hwheel_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		struct object *object = &objects[events[i].cookie];

		if (object->timer == events[i].timer)
			timed_out(object);
	}
}

void go_away(struct hwheel *wheel, struct object *object)
{
	hwheel_timer_delete(wheel, object->timer);
	object->timer = 0;
}
//! [hwheel_timer_delete]

//! [hwheel_timer_mod]
/* Bytes have come: the idle timeout starts again. */
void on_bytes(struct hwheel *wheel, hwheel_timer_t idle, hwheel_timer_t deadline)
{
	hwheel_timer_mod(wheel, idle, 30 * HWHEEL_SEC, 0);
	/* The deadline of the request counts from its first byte only. */
	hwheel_timer_mod(wheel, deadline, 5 * HWHEEL_SEC, HWHEEL_REDUCE);
}
//! [hwheel_timer_mod]

//! [hwheel_timer_mod_many]
/* Bytes have come on many connections: each idle timeout starts again. */
int on_many_bytes(struct hwheel *wheel, const hwheel_timer_t *idle, unsigned int n)
{
	uint64_t times_ns[64];
	int32_t results[64];
	int done;

	if (n > 64)
		return -E2BIG;
	for (unsigned int i = 0; i < n; i++)
		times_ns[i] = 30 * HWHEEL_SEC;
	done = hwheel_timer_mod_many(wheel, idle, times_ns, n, 0, results);
	for (unsigned int i = 0; done >= 0 && i < n; i++)
		if (results[i] < 0)
			fprintf(stderr, "connection %u: %s\n", i, hwheel_strerror(results[i]));
	return done;
}
//! [hwheel_timer_mod_many]

//! [hwheel_timer_mod_range]
/* A session ends 10 to 11 minutes after its last use. Most uses move nothing. */
int on_use(struct hwheel *wheel, hwheel_timer_t session)
{
	return hwheel_timer_mod_range(wheel, session, 600 * HWHEEL_SEC, 60 * HWHEEL_SEC, 0);
}
//! [hwheel_timer_mod_range]

//! [hwheel_timer_set_period]
/* A probe once a second; after the first answer once a minute. */
int start_probe(struct hwheel *wheel, hwheel_fn probe, hwheel_timer_t *timer)
{
	int result = hwheel_timer_setup(wheel, probe, 0, timer);

	if (result < 0)
		return result;
	hwheel_timer_set_period(wheel, *timer, HWHEEL_SEC);
	return hwheel_timer_mod(wheel, *timer, HWHEEL_SEC, 0);
}

int on_answer(struct hwheel *wheel, hwheel_timer_t timer)
{
	return hwheel_timer_set_period(wheel, timer, 60 * HWHEEL_SEC);
}
//! [hwheel_timer_set_period]

//! [hwheel_timer_shutdown_sync]
struct session {
	hwheel_timer_t timer; /* its callback uses the session */
};

/* The callback does not run any more, so that the session can be freed. */
void end_session(struct hwheel *wheel, struct session *session)
{
	hwheel_timer_shutdown_sync(wheel, session->timer);
	hwheel_timer_free(wheel, session->timer);
	free(session);
}
//! [hwheel_timer_shutdown_sync]
