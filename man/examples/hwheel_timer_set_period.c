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
