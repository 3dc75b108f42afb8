/* A plug-in with the library in it, static or shared. */
#include <stddef.h>
#include <hwheel.h>

int plugin_call(void);
const void *plugin_function(void);

/* Each call arms a timer. */
int plugin_call(void)
{
	static struct hwheel *wheel;

	if (wheel == NULL && hwheel_create(NULL, &wheel) != 0)
		return -1;
	return hwheel_once(wheel, HWHEEL_SEC, NULL, 0, 0, NULL);
}

/* The function that it gets, if that works. */
const void *plugin_function(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_once(wheel, HWHEEL_SEC, NULL, 0, 0, NULL) != 0 ||
	    hwheel_destroy(wheel) != 0)
		return NULL;
	return (const void *)hwheel_create;
}
