/*
 * A kernel with pages of 16 KiB, as on some ARM machines: its mappings begin and end at
 * such a page, and what it clears in a forked child are such pages.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "child.h"

#define LARGE ((size_t)16384)

static size_t whole(size_t bytes)
{
	return (bytes + LARGE - 1) & ~(LARGE - 1);
}

static atomic_int cleared;

long sysconf(int name)
{
	return name == _SC_PAGESIZE ? (long)LARGE : name == _SC_NPROCESSORS_ONLN ? 2 : -1;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t from)
{
	size_t size = whole(bytes), wide = at ? size : size + LARGE, before;
	char *p = (char *)syscall(SYS_mmap, at, wide, prot, flags, fd, from);

	if (p == MAP_FAILED || at)
		return p;
	before = -(uintptr_t)p & (LARGE - 1);
	if (before != 0)
		syscall(SYS_munmap, p, before);
	if (wide - before > size)
		syscall(SYS_munmap, p + before + size, wide - before - size);
	return p + before;
}

int munmap(void *at, size_t bytes)
{
	CHECK_EQ((uintptr_t)at % LARGE, 0);
	CHECK(at != NULL);
	return (int)syscall(SYS_munmap, at, whole(bytes));
}

int madvise(void *at, size_t bytes, int advice)
{
	CHECK_EQ((uintptr_t)at % LARGE, 0);
	atomic_fetch_add(&cleared, advice == MADV_WIPEONFORK);
	return (int)syscall(SYS_madvise, at, whole(bytes), advice);
}

static struct hwheel *w;
static hwheel_timer_t t;

static void end_it(void)
{
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_fd(w), -ESHUTDOWN);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

TEST(a_child_destroys_its_copy)
{
	int held = dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);

	CHECK_EQ(held, STDIN_FILENO);
	atomic_store(&cleared, 0);
	w = MADE();
	CHECK(atomic_load(&cleared) > 0);
	t = ktap_timer(w);
	CHECK_EQ(hwheel_timer_mod(w, t, 3600 * SEC, 0), 0);
	CHECK(hwheel_fd(w) > 0);
	in_a_child(end_it);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}
