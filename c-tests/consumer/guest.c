/* A plug-in that is linked with the shared library: its functions. */
#include <stddef.h>
#include <hwheel.h>

const void *plugin_function(void);

const void *plugin_function(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_once(wheel, HWHEEL_SEC, NULL, 0, 0, NULL) != 0 ||
	    hwheel_destroy(wheel) != 0)
		return NULL;
	return (const void *)hwheel_create;
}
