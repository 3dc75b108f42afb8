/* A session ends 10 to 11 minutes after its last use. Most uses move nothing. */
int on_use(struct hwheel *wheel, hwheel_timer_t session)
{
	return hwheel_timer_mod_range(wheel, session, 600 * HWHEEL_SEC, 60 * HWHEEL_SEC, 0);
}
