/*
 * Sessions by name: each request of a user puts the end of the session off, and
 * no handle is kept anywhere.
 */
#define _DEFAULT_SOURCE
#include <hwheel.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const users[] = { "ada", "grace", "edsger" };

static void expired(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	printf("the session of %s has expired\n", users[event->cookie]);
}

static int request(struct hwheel *wheel, int user)
{
	const char *name = users[user];
	int n = hwheel_key_set(wheel, name, (uint32_t)strlen(name), 50 * HWHEEL_MSEC, expired,
			       (uint64_t)user, 0);

	if (n >= 0)
		printf("%s: %s\n", name, n ? "welcome back" : "a new session");
	return n;
}

int main(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) < 0 || hwheel_start(wheel) < 0)
		return 1;
	for (int user = 0; user < 3; user++)
		if (request(wheel, user) < 0)
			return 1;
	usleep(30000);
	/* ada stays, edsger logs out, grace is heard of no more */
	if (request(wheel, 0) < 0 || hwheel_key_delete(wheel, "edsger", 6) < 0)
		return 1;
	usleep(100000);
	return hwheel_destroy(wheel) != 0;
}
