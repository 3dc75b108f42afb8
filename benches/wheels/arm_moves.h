/* Where to arm a pending timer is to move it. */
#ifndef ARM_MOVES_H
#define ARM_MOVES_H

static inline int move(struct timer *t, uint64_t delay)
{
	return arm(t, delay);
}

static inline int refresh(struct timer *t)
{
	return arm(t, TIMEOUT);
}

#endif
