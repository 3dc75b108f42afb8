void complain(int result)
{
	if (result < 0)
		fprintf(stderr, "timer: %s\n", hwheel_strerror(result));
}
