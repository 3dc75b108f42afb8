/* A program outside the tree: it arms a timer and says which library it has. */
#include <hwheel.h>
#include <stdio.h>

int main(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_once(wheel, 1000, NULL, 7, 0, NULL) != 0)
		return 1;
	printf("%s\n", hwheel_version_string());
	return hwheel_destroy(wheel);
}
