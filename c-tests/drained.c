/* A wheel that was drained: every call says what the header says. */
#include "ktap.h"

static struct hwheel *drained(uint32_t clock)
{
	struct hwheel_options o = { .size = sizeof o, .clock = clock };
	struct hwheel_event e;
	struct hwheel *w = NULL;

	CHECK_EQ(hwheel_create(&o, &w), 0);
	CHECK_EQ(hwheel_key_set(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	return w;
}

static void it_cannot_be_started(void)
{
	struct hwheel *w = drained(HWHEEL_CLOCK_MONOTONIC);

	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
	/* and is as before: still driven by nobody */
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void its_keys_cannot_be_set_or_moved(void)
{
	struct hwheel *w = drained(HWHEEL_CLOCK_MANUAL);

	CHECK_EQ(hwheel_key_set(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 0), -ESHUTDOWN);
	/* to look and to delete remain */
	CHECK_EQ(hwheel_key_pending(w, &(uint64_t){ 7 }, sizeof(uint64_t)), 0);
	CHECK_EQ(hwheel_key_delete(w, &(uint64_t){ 7 }, sizeof(uint64_t)), 0);
	/* an argument that is wrong is that first of all */
	CHECK_EQ(hwheel_key_mod(w, NULL, 1, SEC, 0), -EINVAL);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 8), -EINVAL);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static const struct ktap_test tests[] = {
	TEST(it_cannot_be_started),
	TEST(its_keys_cannot_be_set_or_moved),
};

KTAP_MAIN(tests)
