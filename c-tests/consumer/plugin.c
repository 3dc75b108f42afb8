/* A plug-in that carries the static library: each call arms a timer. */
#include <stddef.h>
#include <hwheel.h>

int plugin_call(void);

int plugin_call(void)
{
	static struct hwheel *wheel;

	if (wheel == NULL && hwheel_create(NULL, &wheel) != 0)
		return -1;
	return hwheel_once(wheel, HWHEEL_SEC, NULL, 0, 0, NULL);
}
