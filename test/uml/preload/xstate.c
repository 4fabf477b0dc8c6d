/*
 * Loaded into linux.uml with LD_PRELOAD on CPUs whose extended register state
 * is larger than the buffer that this kernel was built with (AMX adds 8 KiB).
 * The host refuses a PTRACE_SETREGSET of NT_X86_XSTATE that is not exactly as
 * long as its own state, so the guest would die at its first process.
 *
 * GETREGSET is answered with the part that fits, and SETREGSET is padded to the
 * host's length. The components that are cut off (AMX tiles) are marked as
 * unused: no guest program may rely on them.
 *
 * linux.uml has one thread that calls ptrace, hence the static buffer; kernel
 * stacks are too small for it.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define GETREGSET 0x4204
#define SETREGSET 0x4205
#define NT_XSTATE 0x202
#define XSTATE_BV 512 /* offset of the bitmap of components in use */
#define KEEP 0x2ffULL /* x87, SSE, AVX, MPX, AVX-512, PKRU */

static char state[65536];
static size_t full; /* length of the host's state, learned from GETREGSET */

static long get(long pid)
{
	struct iovec iov = {state, sizeof state};
	long r = syscall(SYS_ptrace, GETREGSET, pid, NT_XSTATE, &iov);

	if (r == 0)
		full = iov.iov_len;
	return r;
}

static void keep(void)
{
	uint64_t bv;

	memcpy(&bv, state + XSTATE_BV, sizeof bv);
	bv &= KEEP;
	memcpy(state + XSTATE_BV, &bv, sizeof bv);
}

long ptrace(int request, ...)
{
	va_list ap;
	long pid, addr, ret;
	void *data;
	struct iovec *small;

	va_start(ap, request);
	pid = va_arg(ap, long);
	addr = va_arg(ap, long);
	data = va_arg(ap, void *);
	va_end(ap);

	if (addr != NT_XSTATE || (request != GETREGSET && request != SETREGSET)) {
		/* PEEK requests (1..3) return the word through a pointer in the raw call. */
		if (request > 0 && request < 4) {
			data = &ret;
			long r = syscall(SYS_ptrace, request, pid, addr, data);
			return r < 0 ? r : ret;
		}
		return syscall(SYS_ptrace, request, pid, addr, data);
	}

	small = data;
	if (request == GETREGSET) {
		if (get(pid) != 0)
			return -1;
		keep();
		if (small->iov_len > full)
			small->iov_len = full;
		memcpy(small->iov_base, state, small->iov_len);
		return 0;
	}
	if (full == 0 && get(pid) != 0)
		return -1;
	if (small->iov_len >= full)
		return syscall(SYS_ptrace, request, pid, addr, data);
	memset(state, 0, full);
	memcpy(state, small->iov_base, small->iov_len);
	keep();
	struct iovec iov = {state, full};
	return syscall(SYS_ptrace, request, pid, addr, &iov);
}
