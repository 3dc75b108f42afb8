/* errno is left alone, also where the system refuses what the library asks for. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "child.h"
#include "ktap.h"

enum { OURS = 1234 };

static struct hwheel_options o = { .size = sizeof o };
static struct hwheel *w;

static void prepare(void)
{
	o.workers = 0;
	EXPECT(hwheel_create(&o, &w), 0);
	EXPECT(hwheel_fd(w) >= 0, 1);
}

#define LEAVES_ERRNO(call, want) do { \
	int result_; \
	errno = OURS; \
	result_ = (call); \
	EXPECT(errno, OURS); \
	EXPECT(result_, want); \
} while (0)

static void refuse_threads(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN)
	};
	struct sock_fprog program = { sizeof code / sizeof *code, code };

	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77);
}

/* Limits the address space to its present size and the given bytes more. */
static void limit_space(unsigned long more)
{
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *file = fopen("/proc/self/statm", "r");
	pthread_attr_t stack;

	/* glibc's; musl's is smaller than what is left. */
	EXPECT(pthread_attr_init(&stack), 0);
	EXPECT(pthread_attr_setstacksize(&stack, 8 << 20), 0);
	EXPECT(pthread_setattr_default_np(&stack), 0);
	EXPECT(file != NULL && fscanf(file, "%lu", &pages) == 1, 1);
	fclose(file);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + more;
	EXPECT(setrlimit(RLIMIT_AS, &limit), 0);
}

static void no_thread(void)
{
	prepare();
	refuse_threads();
	LEAVES_ERRNO(hwheel_start(w), -EAGAIN);
}

static void no_stack(void)
{
	prepare();
	limit_space(1 << 20);
	LEAVES_ERRNO(hwheel_start(w), -EAGAIN);
}

static void no_stacks_for_workers(void)
{
	prepare();
	o.workers = 4;
	limit_space(16 << 20);
	LEAVES_ERRNO(hwheel_create(&o, &w), -EAGAIN);
}

static void no_descriptor_for_the_name(void)
{
	prepare();
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	LEAVES_ERRNO(hwheel_start(w), 0);
	LEAVES_ERRNO(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	LEAVES_ERRNO(hwheel_stop(w), 0);
	LEAVES_ERRNO(hwheel_destroy(w), 0);
}

static void no_descriptor(void)
{
	EXPECT(hwheel_create(&o, &w), 0);
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	LEAVES_ERRNO(hwheel_fd(w), -EMFILE);
	LEAVES_ERRNO(hwheel_start(w), -EMFILE);
}

static void no_space_at_all(void)
{
	int made = 0, r = 0;

	EXPECT(hwheel_create(&o, &w), 0);
	limit_space(8 << 20);
	while (made < 100000 && r == 0) {
		errno = OURS;
		r = hwheel_create(&o, &w);
		EXPECT(errno, OURS);
		made++;
	}
	EXPECT(r, -ENOMEM);
	LEAVES_ERRNO(hwheel_once(w, 0, NULL, 0, 0, NULL), -ENOMEM);
}

static void check(void (*run)(void))
{
	int status = status_of(start_child(run));

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no seccomp here");
	CHECK_EQ(status, 0);
}

TEST(start_without_a_thread) { check(no_thread); }
TEST(start_without_a_stack) { check(no_stack); }
TEST(workers_without_stacks) { check(no_stacks_for_workers); }
TEST(start_without_a_descriptor_for_the_name) { check(no_descriptor_for_the_name); }
TEST(descriptor_without_one) { check(no_descriptor); }
TEST(create_without_space) { check(no_space_at_all); }
