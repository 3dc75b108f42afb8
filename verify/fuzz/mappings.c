/*
 * The library's mappings, under the fuzzer. Small ones come from the heap, where
 * the tool knows their bounds and finds what is used after it was unmapped, or
 * never is. The others bypass the tool, which would clear its notes of them each
 * time. Linked with --wrap.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SMALL = 1 << 16, PAGE = 4096 };

void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *p;

	if (bytes > SMALL)
		return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
	return posix_memalign(&p, PAGE, bytes) == 0 ? memset(p, 0, bytes) : MAP_FAILED;
}

int __wrap_munmap(void *at, size_t bytes)
{
	if (bytes > SMALL)
		return (int)syscall(SYS_munmap, at, bytes);
	free(at);
	return 0;
}
