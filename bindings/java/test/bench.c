/* One callback of the library for each timer, into Java: the seconds it takes to fire. */
#include <jni.h>
#include <time.h>

#include <hwheel.h>

struct target {
	JNIEnv *env;
	jclass class;
	jmethodID fired;
};

static struct target target;

static void fired(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	(*target.env)->CallStaticVoidMethod(target.env, target.class, target.fired,
					    (jlong)event->cookie);
}

static jlong now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The nanoseconds that it took, or a negative errno. */
JNIEXPORT jlong JNICALL Java_Bench_callbacks(JNIEnv *env, jclass class, jint timers, jlong tick,
					     jlong end)
{
	struct hwheel_options options = { 0 };
	struct hwheel *wheel;
	hwheel_timer_t timer;
	jlong took;
	jlong i;
	int result;

	target.env = env;
	target.class = class;
	target.fired = (*env)->GetStaticMethodID(env, class, "fired", "(J)V");
	if (!target.fired)
		return -1;
	options.size = sizeof options;
	options.clock = HWHEEL_CLOCK_MANUAL;
	result = hwheel_create(&options, &wheel);
	if (result < 0)
		return result;
	for (i = 0; i < timers && result >= 0; i++)
		result = hwheel_once(wheel, (uint64_t)(i % 1000 * tick), fired, (uint64_t)i,
				     HWHEEL_ABS, &timer);
	took = now();
	if (result >= 0)
		result = hwheel_advance(wheel, (uint64_t)end, NULL, 0, NULL);
	took = now() - took;
	hwheel_destroy(wheel);
	return result < 0 ? result : took;
}
