/* Once a second, somewhere in its first tenth, and no second twice. */
int start_heartbeat(struct hwheel *wheel, hwheel_fn beat, hwheel_timer_t *timer)
{
	return hwheel_every(wheel, HWHEEL_SEC, HWHEEL_SEC, HWHEEL_SEC / 10, beat, 0, 0,
			    timer);
}
