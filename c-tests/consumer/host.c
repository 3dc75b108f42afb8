/*
 * A program that contains the library and shows its symbols to plug-ins: a plug-in that
 * brings the shared library gets the functions of that one.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <hwheel.h>

int main(int argc, char **argv)
{
	struct hwheel *wheel;
	const void *(*function)(void);
	void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (plugin == NULL) {
		puts(argc == 2 ? dlerror() : "usage: host plugin.so");
		return 1;
	}
	*(void **)&function = dlsym(plugin, "plugin_function");
	if (hwheel_create(NULL, &wheel) != 0 ||
	    hwheel_once(wheel, 1000, NULL, 7, 0, NULL) != 0 || function == NULL)
		return 1;
	printf("%s\n", function() == (const void *)hwheel_create ? "the host's" : "its own");
	return hwheel_destroy(wheel);
}
