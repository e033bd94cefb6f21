/*
 * A door for tests of the keeper: a test program that links this is a door itself when it is
 * started with the argument "run". The policy that it is given says how it behaves.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "door/config.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static struct buf door_out;

static void door_flush(void)
{
	if (fd_write_full(DOOR_LINK_FD, buf_data(&door_out), buf_len(&door_out)) < 0)
		_exit(0);
	buf_clear(&door_out);
}

static void door_say(enum wire_type type, uint8_t stream, uint32_t id, const void *p, size_t n)
{
	if (wire_encode(&door_out, type, stream, id, p, n) < 0)
		_exit(3);
	door_flush();
}

/* Its environment, the names of its descriptors, and what it was told. */
static void door_tell_all(uint32_t id, const struct door_config *c)
{
	char text[4096];
	int n = snprintf(text, sizeof(text),
			 "box=%s created=%" PRIu64 " max=%" PRIu64 "/%" PRIu64 " used=%" PRIu64
			 " pids=%d/%d %30s",
			 c->box, c->created_ms, c->bytes_max, c->conns_max, c->bytes_used,
			 (int)getpid(), (int)getppid(), "");

	for (char **v = environ; *v; v++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " env:%.100s", *v);
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			n += snprintf(text + n, sizeof(text) - (size_t)n, " fd:%d", fd);
	if (wire_say_encode(&door_out, id, 0, &(struct wire_say){.text = text}) < 0)
		_exit(3);
	door_say(WIRE_OK, 0, id, NULL, 0);
}

static void door_hear(const struct door_config *c, const struct wire_frame *f)
{
	static char zeros[WIRE_DATA_MAX];
	struct wire_name name;

	if (f->type == WIRE_DOOR) {
		door_tell_all(f->id, c);
	} else if (f->type == WIRE_NAME) {
		struct wire_error no = {.kind = ERR_DENIED, .code = EACCES, .msg = "denied"};

		if (wire_name_decode(f, &name) < 0)
			_exit(3);
		if (strcmp(name.name, "no.example") != 0)
			door_say(WIRE_OK, 0, f->id, NULL, 0);
		else if (wire_error_encode(&door_out, f->id, 0, &no) == 0)
			door_flush();
	} else if (f->type == WIRE_CONNECT) {
		door_say(WIRE_OK, 0, f->id, NULL, 0);
		for (int i = 0; i < 5 && strcmp(c->policy, "rude") == 0; i++)
			door_say(WIRE_DATA, WIRE_STDIN, f->id, zeros, sizeof(zeros));
		if (strcmp(c->policy, "deaf") == 0)
			for (;;)
				pause();
	} else if (f->type == WIRE_DATA) {
		struct wire_credit credit = {.bytes = f->len};

		if (strcmp(c->policy, "crash") == 0)
			kill(getpid(), SIGKILL);
		if (strcmp(c->policy, "cut") == 0) {
			door_say(WIRE_CANCEL, 0, f->id, NULL, 0);
			return;
		}
		if (wire_credit_encode(&door_out, f->id, WIRE_STDOUT, &credit) == 0)
			door_say(WIRE_DATA, WIRE_STDIN, f->id, f->payload, f->len);
	} else if (f->type == WIRE_EOF) {
		door_say(WIRE_EOF, WIRE_STDIN, f->id, NULL, 0);
	}
}

static void door_run(void)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN};
	struct wire_error no = {.kind = ERR_INVALID, .code = EINVAL, .msg = "policy.yaml:3: what?"};
	struct wire_decoder in;
	struct door_config c;
	struct wire_frame f;
	uint8_t *space;
	size_t room;
	ssize_t n;

	if (door_config_read(&c, DOOR_CONFIG_FD, NULL) < 0)
		_exit(2);
	buf_init(&door_out, 8 << 20);
	wire_decoder_init(&in);
	if (strcmp(c.policy, "dies") == 0)
		_exit(7);
	if (strcmp(c.policy, "refuse") == 0) {
		if (wire_error_encode(&door_out, 0, 0, &no) == 0)
			door_flush();
		_exit(1);
	}
	if (strcmp(c.policy, "mute") != 0 && wire_hello_encode(&door_out, 0, 0, &hello) == 0)
		door_flush();
	for (;;) {
		while (wire_decoder_next(&in, &f) > 0)
			door_hear(&c, &f);
		space = wire_decoder_space(&in, &room);
		n = read(DOOR_LINK_FD, space, room);
		if (n <= 0 && strcmp(c.policy, "killed") == 0)
			kill(getpid(), SIGKILL);
		if (n <= 0 && strcmp(c.policy, "stuck") == 0)
			pause();
		if (n <= 0 && strcmp(c.policy, "late") == 0)
			(void)poll(NULL, 0, 100);
		if (n <= 0)
			_exit(0);
		wire_decoder_fill(&in, (size_t)n);
	}
}

__attribute__((constructor)) static void maybe_door(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "run") == 0)
		door_run();
}
