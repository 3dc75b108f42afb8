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
