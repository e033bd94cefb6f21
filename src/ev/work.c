/* Worker threads; see work.h. */
#include "ev/work.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct job_list {
	struct ev_job *first, **last;
};

struct ev_work {
	struct ev *ev;
	struct ev_work_options options;
	struct ev_io io; /* the eventfd, owned: a job is done */
	unsigned count;	 /* the loop's own */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t has_job, has_ended;
	struct job_list urgent, waiting, done;
	unsigned waiting_count; /* of both */
	unsigned threads, idle;
	unsigned busy; /* with jobs that are not urgent */
	bool closing;
};

static void list_init(struct job_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

static void list_add(struct job_list *l, struct ev_job *j)
{
	j->next = NULL;
	*l->last = j;
	l->last = &j->next;
}

static struct ev_job *list_shift(struct job_list *l)
{
	struct ev_job *j = l->first;

	l->first = j->next;
	if (!l->first)
		l->last = &l->first;
	return j;
}

/* With the lock: those of which the first may run now; NULL: none. */
static struct job_list *next_list(struct ev_work *w)
{
	if (w->urgent.first)
		return &w->urgent;
	return w->waiting.first && w->busy < w->options.threads_max - w->options.threads_kept
		       ? &w->waiting
		       : NULL;
}

/* With the lock. False: there was none for a while, or the pool ends. */
static bool await_job(struct ev_work *w)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += w->options.idle_ms / 1000;
	until.tv_nsec += (long)(w->options.idle_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	w->idle++;
	while (!w->closing && !next_list(w))
		if (pthread_cond_timedwait(&w->has_job, &w->lock, &until) == ETIMEDOUT)
			break;
	w->idle--;
	return !w->closing && next_list(w);
}

static void *work_thread(void *arg)
{
	struct ev_work *w = arg;
	void *state = w->options.state_new ? w->options.state_new(w->options.arg) : NULL;
	const uint64_t one = 1;

	pthread_mutex_lock(&w->lock);
	while (await_job(w)) {
		struct ev_job *j = list_shift(next_list(w));
		bool urgent = j->urgent;

		w->waiting_count--;
		w->busy += !urgent;
		pthread_mutex_unlock(&w->lock);
		j->on_run(j, state);
		pthread_mutex_lock(&w->lock);
		w->busy -= !urgent;
		list_add(&w->done, j);
		/* It fails only where the count would pass 2^64. */
		if (write(w->io.fd, &one, sizeof(one)) < 0)
			ASSERT(errno == EAGAIN);
	}
	pthread_mutex_unlock(&w->lock);
	if (w->options.state_free)
		w->options.state_free(state);
	pthread_mutex_lock(&w->lock);
	w->threads--;
	pthread_cond_signal(&w->has_ended);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void on_jobs_done(struct ev_io *io, uint32_t events)
{
	struct ev_work *w = container(io, struct ev_work, io);
	struct ev_job *j, *next;
	uint64_t n;

	if (read(io->fd, &n, sizeof(n)) < 0)
		return;
	pthread_mutex_lock(&w->lock);
	j = w->done.first;
	list_init(&w->done);
	pthread_mutex_unlock(&w->lock);
	for (; j; j = next) {
		next = j->next;
		w->count--;
		j->on_done(j);
	}
}

int ev_work_new(struct ev *ev, const struct ev_work_options *options, struct ev_work **ret)
{
	struct ev_work *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int r;

	if (!w)
		return -ENOMEM;
	w->ev = ev;
	w->options = *options;
	list_init(&w->urgent);
	list_init(&w->waiting);
	list_init(&w->done);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->has_job, &attr);
	pthread_cond_init(&w->has_ended, NULL);
	pthread_condattr_destroy(&attr);
	w->io = (struct ev_io){.on_event = on_jobs_done,
			       .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	r = w->io.fd < 0 ? -errno : ev_io_add(ev, &w->io, EPOLLIN);
	if (r < 0) {
		ev_work_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void ev_work_free(struct ev_work *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->closing = true;
	pthread_cond_broadcast(&w->has_job);
	while (w->threads > 0)
		pthread_cond_wait(&w->has_ended, &w->lock);
	pthread_mutex_unlock(&w->lock);
	ev_io_remove(w->ev, &w->io);
	fd_close(&w->io.fd);
	pthread_cond_destroy(&w->has_job);
	pthread_cond_destroy(&w->has_ended);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* With the lock. All signals are the loop's. */
static int add_thread(struct ev_work *w)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, work_thread, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (r == 0)
		w->threads++;
	return -r;
}

int ev_work_push(struct ev_work *w, struct ev_job *j)
{
	int r = 0;

	pthread_mutex_lock(&w->lock);
	if (w->waiting_count >= w->options.queue_max)
		r = -EAGAIN;
	else if (w->waiting_count >= w->idle && w->threads < w->options.threads_max &&
		 add_thread(w) < 0 && w->threads == 0)
		r = -EAGAIN;
	if (r == 0) {
		list_add(j->urgent ? &w->urgent : &w->waiting, j);
		w->waiting_count++;
		w->count++;
		pthread_cond_signal(&w->has_job);
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

unsigned ev_work_count(const struct ev_work *w)
{
	return w->count;
}
