/* Bytes have come: the idle timeout starts again. */
void on_bytes(struct hwheel *wheel, hwheel_timer_t idle, hwheel_timer_t deadline)
{
	hwheel_timer_mod(wheel, idle, 30 * HWHEEL_SEC, 0);
	/* The deadline of the request counts from its first byte only. */
	hwheel_timer_mod(wheel, deadline, 5 * HWHEEL_SEC, HWHEEL_REDUCE);
}
