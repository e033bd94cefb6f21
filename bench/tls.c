/*
 * What the door's TLS costs by itself: an upstream in one process, the door's client channel in
 * another, over a socketpair. `tls` prints one line per thing; SSL_CERT_FILE is set by itself.
 *
 *	start        time of tls_new with the host's own store, and resident memory after it
 *	handshakes   per second, full and resumed, both ends on this machine
 *	bytes        per second from the upstream to the channel, and the other way
 *	memory       of one idle connection
 */
#include "net/tls.h"
#include "base/fd.h"
#include "net/ca.h"
#include "net/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANDSHAKES = 1500, IDLE = 500, BYTES_MIB = 1024 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench tls: %s\n", what);
	exit(1);
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib = 0;

	must(f, "smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "Private_Dirty:", 14) == 0)
			kib = atol(line + 14);
	fclose(f);
	return kib;
}

/* A channel over a socket. */
struct fd_channel {
	struct channel channel;
	struct ev *ev;
	struct ev_io io;
};

static ssize_t fd_channel_read(struct channel *c, void *p, size_t n)
{
	ssize_t r = recv(container(c, struct fd_channel, channel)->io.fd, p, n, MSG_DONTWAIT);

	return r < 0 ? -errno : r;
}

static ssize_t fd_channel_write(struct channel *c, const void *p, size_t n)
{
	ssize_t r = send(container(c, struct fd_channel, channel)->io.fd, p, n,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	return r < 0 ? -errno : r;
}

static int fd_channel_finish(struct channel *c)
{
	return shutdown(container(c, struct fd_channel, channel)->io.fd, SHUT_WR) < 0 ? -errno : 0;
}

static void fd_channel_want(struct channel *channel, unsigned what)
{
	struct fd_channel *c = container(channel, struct fd_channel, channel);
	uint32_t events = (what & CHANNEL_IN ? EPOLLIN : 0) | (what & CHANNEL_OUT ? EPOLLOUT : 0);

	if (what && !c->io.added)
		ev_io_add(c->ev, &c->io, events);
	else if (what && c->io.events != events)
		ev_io_set(c->ev, &c->io, events);
	else if (!what)
		ev_io_remove(c->ev, &c->io);
}

static void fd_channel_free(struct channel *channel, bool abort)
{
	struct fd_channel *c = container(channel, struct fd_channel, channel);

	ev_io_remove(c->ev, &c->io);
	close(c->io.fd);
	free(c);
}

static void on_event(struct ev_io *io, uint32_t events)
{
	struct fd_channel *c = container(io, struct fd_channel, io);
	unsigned what = events & EPOLLOUT ? CHANNEL_OUT : 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_IN;
	if (what & c->channel.wanted)
		c->channel.on_ready(&c->channel, what & c->channel.wanted);
}

static struct channel *fd_channel_new(struct ev *ev, int fd)
{
	static const struct channel_ops ops = {.read = fd_channel_read,
					       .write = fd_channel_write,
					       .finish = fd_channel_finish,
					       .want = fd_channel_want,
					       .free = fd_channel_free};
	struct fd_channel *c = calloc(1, sizeof(*c));

	must(c, "memory");
	c->channel.ops = &ops;
	c->ev = ev;
	c->io.fd = fd;
	c->io.on_event = on_event;
	return &c->channel;
}

/* One end: sends and takes so many bytes, then it is done. */
struct end {
	struct ev *ev;
	uint64_t send, take;
};

static uint8_t block[65536];

static void on_ready(struct channel *c, unsigned what)
{
	struct end *e = c->owner;
	ssize_t r;

	if (what & CHANNEL_OUT && e->send) {
		r = channel_write(c, block, e->send < sizeof(block) ? e->send : sizeof(block));
		must(r > 0 || r == -EAGAIN, c->error.msg);
		e->send -= r > 0 ? (uint64_t)r : 0;
	}
	if (what & CHANNEL_IN && e->take) {
		r = channel_read(c, block, sizeof(block));
		must(r > 0 || r == -EAGAIN, c->error.msg);
		e->take -= r > 0 ? (uint64_t)r : 0;
	}
	channel_want(c, (e->take ? CHANNEL_IN : 0) | (e->send ? CHANNEL_OUT : 0));
	if (!e->take && !e->send)
		ev_quit(e->ev);
}

static void run_end(struct ev *ev, struct channel *c, uint64_t send, uint64_t take)
{
	struct end e = {ev, send, take};

	must(c, "a channel");
	c->owner = &e;
	c->on_ready = on_ready;
	channel_want(c, CHANNEL_IN | CHANNEL_OUT);
	ev_run(ev);
}

/* The upstream: a door's accepting side, as good a server as any, in its own process. */
struct upstream {
	int fds[2]; /* sockets come through a socketpair, as descriptors */
	pid_t pid;
};

struct job {
	uint64_t send, take;
	bool keep; /* the connection stays open */
};

static void send_fd(int to, int fd, const struct job *job)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)job, sizeof(*job)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	must(sendmsg(to, &m, 0) > 0, "sendmsg");
	close(fd);
}

static bool take_fd_job(int from, int *ret_fd, struct job *ret)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {ret, sizeof(*ret)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};

	if (recvmsg(from, &m, 0) <= 0 || !CMSG_FIRSTHDR(&m))
		return false;
	memcpy(ret_fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return true;
}

static void serve(int jobs, const char *ca_pem)
{
	struct job job;
	struct tls *t;
	struct ev *ev;
	int fd;

	must(ev_new(&ev) == 0 && tls_new(&t, ca_pem, NULL) == 0, "upstream");
	while (take_fd_job(jobs, &fd, &job)) {
		struct channel *c = fd_channel_new(ev, fd);

		c = channel_tls_accept(t, ev, c, "up.test", NULL);
		run_end(ev, c, job.send, job.take);
		if (!job.keep)
			channel_free(c, false);
	}
	_exit(0);
}

static struct channel *dial(struct tls *t, struct ev *ev, struct upstream *u, struct job job)
{
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	send_fd(u->fds[0], pair[1], &job);
	return channel_tls_connect(t, ev, fd_channel_new(ev, pair[0]),
				   &(struct tls_upstream){.host = "up.test", .port = 443}, NULL);
}

static void bench_start(const char *ca_pem)
{
	long before = resident_kib();
	double at = now();
	struct tls *t;

	must(tls_new(&t, ca_pem, NULL) == 0, "tls_new");
	printf("start %.2f ms, %ld KiB private\n", (now() - at) * 1e3, resident_kib() - before);
	tls_free(t);
}

static void bench_roots(void)
{
	long before = resident_kib();
	double at = now();
	X509_STORE *store = X509_STORE_new();
	X509 *unsigned_one = X509_new();
	struct roots *r;

	must(roots_new(&r, NULL) == 0, "roots_new");
	printf("roots read %.2f ms, ", (now() - at) * 1e3);
	at = now();
	/* The first one that is looked for makes the index. */
	must(store && unsigned_one && roots_add_issuers(r, store, unsigned_one) == 0, "index");
	printf("index %.2f ms, %ld KiB private\n", (now() - at) * 1e3, resident_kib() - before);
	roots_free(r);
	X509_free(unsigned_one);
	X509_STORE_free(store);
}

static void bench_handshakes(struct ev *ev, struct upstream *u, bool resumed)
{
	struct tls *t = NULL;
	double at, cpu, spent = 0, used = 0;

	must(tls_new(&t, NULL, NULL) == 0, "tls_new");
	for (int i = 0; i < HANDSHAKES; i++) {
		struct channel *c;

		if (!resumed && i) {
			tls_free(t);
			must(tls_new(&t, NULL, NULL) == 0, "tls_new");
		}
		at = now();
		cpu = cpu_seconds();
		c = dial(t, ev, u, (struct job){.send = 1, .take = 1});
		run_end(ev, c, 1, 1);
		channel_free(c, false);
		spent += now() - at;
		used += cpu_seconds() - cpu;
	}
	printf("handshakes %s %.0f/s, one after the other; %.0f us of our processor time each\n",
	       resumed ? "resumed" : "full", HANDSHAKES / spent, used / HANDSHAKES * 1e6);
	tls_free(t);
}

static void bench_bytes(struct tls *t, struct ev *ev, struct upstream *u)
{
	uint64_t n = (uint64_t)BYTES_MIB << 20;

	for (int down = 0; down < 2; down++) {
		struct channel *c =
			dial(t, ev, u, (struct job){.send = down ? n : 1, .take = down ? 1 : n});
		double at = now(), cpu = cpu_seconds();

		run_end(ev, c, down ? 1 : n, down ? n : 1);
		printf("%s %.0f MB/s, %.0f MB per second of our processor time\n",
		       down ? "down" : "up", (double)n / (now() - at) / 1e6,
		       (double)n / (cpu_seconds() - cpu) / 1e6);
		channel_free(c, false);
	}
}

static void bench_memory(struct tls *t, struct ev *ev, struct upstream *u)
{
	static struct channel *idle[IDLE];
	long before = resident_kib();

	for (int i = 0; i < IDLE; i++) {
		idle[i] = dial(t, ev, u, (struct job){.send = 1, .take = 1, .keep = true});
		run_end(ev, idle[i], 1, 1);
	}
	printf("idle connection %.1f KiB, %d of them\n", (double)(resident_kib() - before) / IDLE,
	       IDLE);
	for (int i = 0; i < IDLE; i++)
		channel_free(idle[i], true);
}

int main(void)
{
	char path[] = "/tmp/cove-bench-tls-XXXXXX";
	struct upstream u;
	struct tls *t;
	struct ev *ev;
	struct buf pem;
	int fd;

	buf_init(&pem, CA_PEM_MAX);
	must(ca_make(&pem, NULL) == 0 && buf_cstr(&pem), "ca_make");
	bench_start(buf_cstr(&pem));
	bench_roots();
	fd = mkstemp(path);
	must(fd >= 0 && fd_write_full(fd, buf_data(&pem), buf_len(&pem)) == 0, path);
	close(fd);
	setenv("SSL_CERT_FILE", path, 1);
	unsetenv("SSL_CERT_DIR");
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, u.fds) == 0, "socketpair");
	u.pid = fork();
	must(u.pid >= 0, "fork");
	if (u.pid == 0) {
		close(u.fds[0]);
		serve(u.fds[1], buf_cstr(&pem));
	}
	close(u.fds[1]);
	must(ev_new(&ev) == 0 && tls_new(&t, NULL, NULL) == 0, "tls_new");
	bench_handshakes(ev, &u, false);
	bench_handshakes(ev, &u, true);
	bench_bytes(t, ev, &u);
	bench_memory(t, ev, &u);
	tls_free(t);
	ev_free(ev);
	close(u.fds[0]);
	waitpid(u.pid, NULL, 0);
	unlink(path);
	buf_done(&pem);
	return 0;
}
