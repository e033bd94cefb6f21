/* Names to addresses; see lookup.h. */
#include "server/lookup.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

struct name_lookup {
	atomic_uint users; /* the thread and who waits for it; the last one frees it */
	char name[DNS_NAME_MAX + 1];
	int done_fd; /* owned; readable when the rest is there */
	int r;	     /* getaddrinfo's */
	struct addrinfo *list;
};

/* Is there room for one more? And one has ended. */
static bool count_lookups(bool ends)
{
	static atomic_uint under_way;

	if (ends)
		atomic_fetch_sub(&under_way, 1);
	else if (atomic_fetch_add(&under_way, 1) >= LOOKUPS_MAX)
		return atomic_fetch_sub(&under_way, 1), false;
	return true;
}

static void lookup_release(struct name_lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	if (l->list)
		freeaddrinfo(l->list);
	fd_close(&l->done_fd);
	free(l);
}

static void *lookup_thread(void *arg)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	const uint64_t one = 1;
	struct name_lookup *l = arg;

	l->r = getaddrinfo(l->name, NULL, &hints, &l->list);
	/* A counter that was never read is never full. */
	ASSERT(write(l->done_fd, &one, sizeof(one)) == sizeof(one));
	lookup_release(l);
	count_lookups(true);
	return NULL;
}

static int thread_start(struct name_lookup *l)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* All signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, lookup_thread, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

/* It runs, with the caller as one of its users. */
static int lookup_start(const char *name, struct name_lookup **ret)
{
	struct name_lookup *l = calloc(1, sizeof(*l));
	int r = l ? 0 : -ENOMEM;

	if (r == 0) {
		str_copy(l->name, sizeof(l->name), name);
		atomic_init(&l->users, 2);
		r = l->done_fd = eventfd(0, EFD_CLOEXEC);
		r = r < 0 ? -errno : thread_start(l);
	}
	if (r == 0) {
		*ret = l;
		return 0;
	}
	if (l)
		fd_close(&l->done_fd);
	free(l);
	return r;
}

/* 1: it has ended; 0: the time is over; -ECANCELED. */
static int lookup_wait(const struct name_lookup *l, uint64_t until_ms, int cancel_fd)
{
	struct pollfd fds[] = {{.fd = l->done_fd, .events = POLLIN},
			       {.fd = cancel_fd, .events = POLLIN}};
	int n;

	do {
		uint64_t now_ms = clock_mono_ms();

		n = poll(fds, 2, now_ms < until_ms ? (int)(until_ms - now_ms) : 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return fds[1].revents ? -ECANCELED : n > 0;
}

int lookup_run(const char *name, uint64_t until_ms, int cancel_fd, struct addrinfo **ret,
	       struct err *e)
{
	struct name_lookup *l = NULL;
	int r;

	if (!count_lookups(false))
		return err_set(e, ERR_LIMIT, EAGAIN, "%d names are looked up already", LOOKUPS_MAX);
	r = lookup_start(name, &l);
	if (r < 0) {
		count_lookups(true);
		return err_errno(e, -r, "look up '%.100s'", name);
	}
	r = lookup_wait(l, until_ms, cancel_fd);
	if (r == -ECANCELED)
		err_set(e, ERR_INTERRUPTED, ECANCELED, "the server ends");
	else if (r < 0)
		err_errno(e, -r, "look up '%.100s'", name);
	else if (r == 0)
		r = err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			    "the address of '%.100s' was not found in time", name);
	else if (l->r != 0)
		r = err_set(e, ERR_NOT_FOUND, EHOSTUNREACH, "'%.100s' has no address: %s", name,
			    gai_strerror(l->r));
	else
		*ret = take_ptr(l->list);
	lookup_release(l);
	return r < 0 ? r : 0;
}
