/* A program with two static libraries that are written in Rust. */
#include <stddef.h>
#include <hwheel.h>

unsigned other(unsigned n);

int main(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_key_set(wheel, "key", 3, 1000, NULL, 7, 0) != 0 ||
	    other(3) != 6)
		return 1;
	return hwheel_destroy(wheel);
}
