/*
 * A program outside the tree: it arms a timer and says which library it has. With OTHER it also
 * calls a second static library that is written in Rust.
 */
#include <hwheel.h>
#include <stdio.h>

#ifdef OTHER
unsigned other(unsigned n);
#endif

int main(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_once(wheel, 1000, NULL, 7, 0, NULL) != 0)
		return 1;
#ifdef OTHER
	if (hwheel_key_set(wheel, "key", 3, 1000, NULL, 7, 0) != 0 || other(3) != 6)
		return 1;
#endif
	printf("%s\n", hwheel_version_string());
	return hwheel_destroy(wheel);
}
