/* Loads a plug-in, uses it in a thread, and closes it before the thread ends. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t used, closed;
static void *plugin;
static int result = -1;

static void *use(void *unused)
{
	int (*call)(void);

	(void)unused;
	*(void **)&call = dlsym(plugin, "plugin_call");
	if (call != NULL)
		result = call();
	pthread_barrier_wait(&used);
	pthread_barrier_wait(&closed);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (plugin == NULL) {
		puts(argc == 2 ? dlerror() : "usage: loader plugin.so");
		return 1;
	}
	pthread_barrier_init(&used, NULL, 2);
	pthread_barrier_init(&closed, NULL, 2);
	if (pthread_create(&thread, NULL, use, NULL) != 0)
		return 1;
	pthread_barrier_wait(&used);
	dlclose(plugin);
	pthread_barrier_wait(&closed);
	pthread_join(thread, NULL);
	printf("%d\n", result);
	return result != 0;
}
