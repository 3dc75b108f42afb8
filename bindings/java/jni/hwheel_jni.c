/* The native methods of io.github.hwheel.Library and io.github.hwheel.Descriptor. */
#include <errno.h>
#include <jni.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <hwheel.h>

#define LIBRARY(type, name, ...) \
	JNIEXPORT type JNICALL Java_io_github_hwheel_Library_##name(JNIEnv *env, jclass class, __VA_ARGS__)
#define DESCRIPTOR(type, name, ...) \
	JNIEXPORT type JNICALL Java_io_github_hwheel_Descriptor_##name(JNIEnv *env, jclass class, __VA_ARGS__)

#define UNUSED ((void)env, (void)class)
#define WHEEL ((struct hwheel *)(intptr_t)wheel)
#define CONST_WHEEL ((const struct hwheel *)(intptr_t)wheel)

/* Throws an HwheelException if @result is negative. Returns @value. */
static jlong checked(JNIEnv *env, int result, uint64_t value)
{
	jclass type;
	jmethodID init;
	jobject thrown;

	if (result >= 0)
		return (jlong)value;
	type = (*env)->FindClass(env, "io/github/hwheel/HwheelException");
	init = type ? (*env)->GetMethodID(env, type, "<init>", "(I)V") : NULL;
	thrown = init ? (*env)->NewObject(env, type, init, -result) : NULL;
	if (thrown)
		(*env)->Throw(env, thrown);
	return 0;
}

static void *memory(JNIEnv *env, jobject buffer)
{
	return (*env)->GetDirectBufferAddress(env, buffer);
}

LIBRARY(jlong, create, jobject options)
{
	struct hwheel *wheel = NULL;
	int result = hwheel_create(memory(env, options), &wheel);

	(void)class;
	return checked(env, result, (uint64_t)(intptr_t)wheel);
}

LIBRARY(jint, destroy, jlong wheel)
{
	UNUSED;
	return hwheel_destroy(WHEEL);
}

LIBRARY(jlong, now, jlong wheel)
{
	uint64_t ns = 0;
	int result = hwheel_now(CONST_WHEEL, &ns);

	(void)class;
	return checked(env, result, ns);
}

LIBRARY(jlong, nextExpiry, jlong wheel)
{
	uint64_t ns = HWHEEL_NEVER;
	int result = hwheel_next_expiry(CONST_WHEEL, &ns);

	(void)class;
	return checked(env, result, ns);
}

LIBRARY(jint, stats, jlong wheel, jobject stats)
{
	(void)class;
	return hwheel_get_stats(CONST_WHEEL, memory(env, stats));
}

LIBRARY(jint, list, jlong wheel, jlongArray cursor, jobject events, jint max)
{
	jlong at;
	uint64_t next;
	int result;

	(void)class;
	(*env)->GetLongArrayRegion(env, cursor, 0, 1, &at);
	next = (uint64_t)at;
	result = hwheel_list(CONST_WHEEL, &next, memory(env, events), (uint32_t)max);
	at = (jlong)next;
	(*env)->SetLongArrayRegion(env, cursor, 0, 1, &at);
	return result;
}

LIBRARY(jlong, once, jlong wheel, jlong ns, jlong cookie, jint flags)
{
	hwheel_timer_t timer = 0;
	int result = hwheel_once(WHEEL, (uint64_t)ns, NULL, (uint64_t)cookie, (uint32_t)flags,
				 &timer);

	(void)class;
	return checked(env, result, timer);
}

LIBRARY(jlong, every, jlong wheel, jlong first, jlong period, jlong slack, jlong cookie,
	jint flags)
{
	hwheel_timer_t timer = 0;
	int result = hwheel_every(WHEEL, (uint64_t)first, (uint64_t)period, (uint64_t)slack, NULL,
				  (uint64_t)cookie, (uint32_t)flags, &timer);

	(void)class;
	return checked(env, result, timer);
}

LIBRARY(jlong, setup, jlong wheel, jlong cookie)
{
	hwheel_timer_t timer = 0;
	int result = hwheel_timer_setup(WHEEL, NULL, (uint64_t)cookie, &timer);

	(void)class;
	return checked(env, result, timer);
}

LIBRARY(jint, mod, jlong wheel, jlong timer, jlong ns, jint flags)
{
	UNUSED;
	return hwheel_timer_mod(WHEEL, (uint64_t)timer, (uint64_t)ns, (uint32_t)flags);
}

LIBRARY(jint, modRange, jlong wheel, jlong timer, jlong ns, jlong slack, jint flags)
{
	UNUSED;
	return hwheel_timer_mod_range(WHEEL, (uint64_t)timer, (uint64_t)ns, (uint64_t)slack,
				      (uint32_t)flags);
}

LIBRARY(jint, setPeriod, jlong wheel, jlong timer, jlong period)
{
	UNUSED;
	return hwheel_timer_set_period(WHEEL, (uint64_t)timer, (uint64_t)period);
}

/*
 * Timers for one call of C. Arrays are copied in parts of this size. To hold them would
 * keep the collector out, and other threads would run out of memory among garbage.
 */
#define PART 256

/* Moves timers; without times it deletes them. */
static jint each_part(JNIEnv *env, jlong wheel, jlongArray timers, jlongArray times, jint count,
		      jint flags, jintArray results)
{
	jint from = 0, done = 0;

	do {
		jint result, n = count - from < PART ? count - from : PART;
		jlong t[PART], ns[PART];
		jint r[PART];

		(*env)->GetLongArrayRegion(env, timers, from, n, t);
		if (times) {
			(*env)->GetLongArrayRegion(env, times, from, n, ns);
			result = hwheel_timer_mod_many(WHEEL, (uint64_t *)t, (uint64_t *)ns,
						       (uint32_t)n, (uint32_t)flags, r);
		} else {
			result = hwheel_timer_delete_many(WHEEL, (uint64_t *)t, (uint32_t)n, r);
		}
		if (result < 0)
			return result;
		if (results)
			(*env)->SetIntArrayRegion(env, results, from, n, r);
		done += result;
		from += n;
	} while (from < count);
	return done;
}

LIBRARY(jint, modMany, jlong wheel, jlongArray timers, jlongArray times, jint count,
	jint flags, jintArray results)
{
	(void)class;
	return each_part(env, wheel, timers, times, count, flags, results);
}

LIBRARY(jint, deleteMany, jlong wheel, jlongArray timers, jint count, jintArray results)
{
	(void)class;
	return each_part(env, wheel, timers, NULL, count, 0, results);
}

LIBRARY(jint, delete, jlong wheel, jlong timer)
{
	UNUSED;
	return hwheel_timer_delete(WHEEL, (uint64_t)timer);
}

LIBRARY(jint, shutdown, jlong wheel, jlong timer)
{
	UNUSED;
	return hwheel_timer_shutdown(WHEEL, (uint64_t)timer);
}

LIBRARY(jint, free, jlong wheel, jlong timer)
{
	UNUSED;
	return hwheel_timer_free(WHEEL, (uint64_t)timer);
}

LIBRARY(jint, pending, jlong wheel, jlong timer)
{
	UNUSED;
	return hwheel_timer_pending(CONST_WHEEL, (uint64_t)timer);
}

LIBRARY(jlong, remaining, jlong wheel, jlong timer)
{
	uint64_t ns = 0;
	int result = hwheel_timer_remaining(CONST_WHEEL, (uint64_t)timer, &ns);

	(void)class;
	return checked(env, result, result == 1 ? ns : HWHEEL_NEVER);
}

/* The longest key, and room for a byte more, which the library refuses. */
struct key {
	jbyte bytes[256];
	uint32_t length;
};

static void key_of(JNIEnv *env, jbyteArray array, struct key *key)
{
	jsize length = (*env)->GetArrayLength(env, array);

	if (length > (jsize)sizeof key->bytes)
		length = sizeof key->bytes;
	(*env)->GetByteArrayRegion(env, array, 0, length, key->bytes);
	key->length = (uint32_t)length;
}

LIBRARY(jint, keySet, jlong wheel, jbyteArray array, jlong ns, jlong cookie, jint flags)
{
	struct key key;

	(void)class;
	key_of(env, array, &key);
	return hwheel_key_set(WHEEL, key.bytes, key.length, (uint64_t)ns, NULL, (uint64_t)cookie,
			      (uint32_t)flags);
}

LIBRARY(jint, keyMod, jlong wheel, jbyteArray array, jlong ns, jint flags)
{
	struct key key;

	(void)class;
	key_of(env, array, &key);
	return hwheel_key_mod(WHEEL, key.bytes, key.length, (uint64_t)ns, (uint32_t)flags);
}

LIBRARY(jint, keyDelete, jlong wheel, jbyteArray array)
{
	struct key key;

	(void)class;
	key_of(env, array, &key);
	return hwheel_key_delete(WHEEL, key.bytes, key.length);
}

LIBRARY(jint, keyPending, jlong wheel, jbyteArray array)
{
	struct key key;

	(void)class;
	key_of(env, array, &key);
	return hwheel_key_pending(CONST_WHEEL, key.bytes, key.length);
}

LIBRARY(jint, poll, jlong wheel, jobject events, jint max)
{
	(void)class;
	return hwheel_poll(WHEEL, memory(env, events), (uint32_t)max, NULL);
}

LIBRARY(jint, advance, jlong wheel, jlong ns, jobject events, jint max)
{
	(void)class;
	return hwheel_advance(WHEEL, (uint64_t)ns, memory(env, events), (uint32_t)max, NULL);
}

LIBRARY(jint, drain, jlong wheel, jobject events, jint max)
{
	(void)class;
	return hwheel_drain(WHEEL, memory(env, events), (uint32_t)max);
}

LIBRARY(jint, fd, jlong wheel)
{
	UNUSED;
	return hwheel_fd(WHEEL);
}

LIBRARY(jstring, strerror, jint error)
{
	(void)class;
	return (*env)->NewStringUTF(env, hwheel_strerror(error));
}

JNIEXPORT jstring JNICALL Java_io_github_hwheel_Library_version(JNIEnv *env, jclass class)
{
	(void)class;
	return (*env)->NewStringUTF(env, hwheel_version_string());
}

DESCRIPTOR(jint, eventfd, jint value)
{
	int fd = eventfd((unsigned int)value, EFD_CLOEXEC);

	UNUSED;
	return fd < 0 ? -errno : fd;
}

DESCRIPTOR(jint, ring, jint fd)
{
	uint64_t one = 1;

	UNUSED;
	return write(fd, &one, sizeof one) < 0 ? -errno : 0;
}

DESCRIPTOR(jint, close, jint fd)
{
	UNUSED;
	return close(fd);
}

/* 1 if the first descriptor is readable. A signal is an end as good as any. */
DESCRIPTOR(jint, poll, jint fd, jint bell, jint timeout)
{
	struct pollfd both[2] = { { fd, POLLIN, 0 }, { bell, POLLIN, 0 } };

	UNUSED;
	if (poll(both, 2, timeout) < 0)
		return errno == EINTR ? 0 : -errno;
	return both[0].revents != 0;
}
