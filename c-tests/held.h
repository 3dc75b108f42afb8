/* A callback that does not return until the test releases it. */
#ifndef HELD_H
#define HELD_H

#include <stdatomic.h>
#include "ktap.h"

/* Whether it is inside, and whether it may go. */
static atomic_int held, release;

static void hold(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&held, 1);
	for (int i = 0; i < 20000 && !atomic_load(&release); i++)
		ktap_sleep_ms(1);
	atomic_store(&held, 0);
}

#endif
