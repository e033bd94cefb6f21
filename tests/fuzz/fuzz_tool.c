/*
 * The answers of file operations that read, edit, search and watch: any bytes of a box, to libcove.
 *
 * The first byte chooses the operation, the second how the rest is cut. Holds: what the caller
 * sees, and what the call returns, is the same however it is cut; paths are below, and no more is
 * found than was asked for.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "core/core.h"
#include "wire/msg.h"

#include <errno.h>
#include <sys/socket.h>

enum { STREAM_MAX = 16384, FOUND_MAX = 5, CONTEXT = 2, OPERATIONS = 5 };

static struct buf log_of[2], *log_now;
static unsigned found;

static void must_path(const char *path)
{
	MUST(path && (!*path || path_is_safe_relative(path)));
	MUST(buf_append(log_now, path, strlen(path) + 1) == 0);
}

static int on_name(void *arg, const struct cove_file_info *i)
{
	must_path(i->name);
	MUST(strchr("fdlo", i->type) && ++found <= FOUND_MAX);
	MUST(buf_printf(log_now, "%c%llu", i->type, (unsigned long long)i->size) == 0);
	return 0;
}

static int on_line(void *arg, const struct cove_match *m)
{
	must_path(m->path);
	MUST(m->line > 0 && m->text_column > 0 && strlen(m->text) <= INIT_LINE_MAX);
	MUST(m->is_context || ++found <= FOUND_MAX);
	MUST(buf_printf(log_now, "%llu %s", (unsigned long long)m->line, m->text) == 0);
	return 0;
}

static int on_event(void *arg, const struct cove_watch_event *e)
{
	must_path(e->path);
	if (e->to)
		must_path(e->to);
	MUST(buf_printf(log_now, "%d", (int)e->kind) == 0);
	return 0;
}

static int call(struct cove_box *box, unsigned operation)
{
	const struct cove_edit one = {.old_text = "a", .new_text = "b"};
	struct cove_edit_options edit = {.size = sizeof(edit), .edits = &one, .count = 1};
	struct cove_read_options read = {.size = sizeof(read), .max_bytes = 4096};
	struct cove_glob_options glob = {
		.size = sizeof(glob), .max_count = FOUND_MAX, .on_match = on_name};
	struct cove_grep_options grep = {.size = sizeof(grep),
					 .max_count = FOUND_MAX,
					 .context = CONTEXT,
					 .on_match = on_line};
	struct cove_watch_options watch = {
		.size = sizeof(watch), .stop_fd = -1, .on_event = on_event};
	struct cove_edited edited;
	struct cove_lines lines;
	struct cove_found all;
	int r;

	switch (operation) {
	case 0:
		r = cove_read_lines(box, "/x", &read, &lines, NULL);
		if (r == 0) {
			MUST(lines.text_len <= 4096 && lines.first_line <= lines.last_line);
			MUST(buf_append(log_now, lines.text, lines.text_len) == 0);
			cove_lines_done(&lines);
		}
		return r;
	case 1:
		r = cove_edit(box, "/x", &edit, &edited, NULL);
		MUST(r < 0 || (edited.occurrences > 0 && strlen(edited.sha256) == 64));
		return r;
	case 2:
		return cove_glob(box, "/x", "p", &glob, &all, NULL);
	case 3:
		return cove_grep(box, "/x", "p", &grep, &all, NULL);
	default:
		return cove_watch(box, "/x", &watch, NULL);
	}
}

/* The keeper, on the caller's own loop: says HELLO, and the rest once it was asked. */
struct fuzz_keeper {
	struct ev_io io;
	struct ev *ev;
	struct wire_decoder decoder;
	struct buf answer;
};

static void on_asked(struct ev_io *io, uint32_t events)
{
	struct fuzz_keeper *k = container(io, struct fuzz_keeper, io);
	struct wire_frame f;
	size_t room;
	uint8_t *space = wire_decoder_space(&k->decoder, &room);
	ssize_t n = recv(io->fd, space, room, MSG_DONTWAIT);

	MUST(n > 0);
	wire_decoder_fill(&k->decoder, (size_t)n);
	while (wire_decoder_next(&k->decoder, &f) > 0)
		if (f.type == WIRE_FILE) {
			MUST(f.id == 1);
			MUST(fd_write_full(io->fd, buf_data(&k->answer), buf_len(&k->answer)) == 0);
			ev_io_remove(k->ev, io);
			return;
		}
}

static int play(unsigned operation, const uint8_t *p, size_t n, size_t cut)
{
	static struct cove cove = {.state.run_fd = -1};
	struct wire_hello hello = wire_hello_ours();
	struct fuzz_keeper k = {.io.on_event = on_asked};
	struct core_conn *conn;
	struct cove_box *box;
	int pair[2], r;

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	fd_set_send_room(pair[1], 1u << 20);
	wire_decoder_init(&k.decoder);
	buf_init(&k.answer, 1u << 20);
	MUST(wire_hello_encode(&k.answer, 0, 0, &hello) == 0);
	MUST(fd_write_full(pair[1], buf_data(&k.answer), buf_len(&k.answer)) == 0);
	buf_clear(&k.answer);
	for (size_t at = 0; at < n; at += cut)
		MUST(wire_encode(&k.answer, WIRE_DATA, WIRE_STDOUT, 1, p + at,
				 n - at < cut ? n - at : cut) == 0);
	MUST(wire_encode(&k.answer, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0) == 0);
	MUST(wire_encode(&k.answer, WIRE_OK, 0, 1, NULL, 0) == 0);
	MUST(core_conn_new(NULL, pair[0], &conn, NULL) == 0);
	MUST(box_handle_take(&cove, "box", false, conn, &box, NULL) == 0);
	k.ev = conn->ev;
	k.io.fd = pair[1];
	MUST(ev_io_add(k.ev, &k.io, EPOLLIN) == 0);
	found = 0;
	r = call(box, operation);
	/* One that failed freed its connection, and the loop with it. */
	cove_box_free(box);
	wire_decoder_done(&k.decoder);
	buf_done(&k.answer);
	close(pair[1]);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int r[2];

	if (n < 2 || n > STREAM_MAX)
		return 0;
	for (int i = 0; i < 2; i++) {
		log_now = &log_of[i];
		buf_init(log_now, 64u << 20);
		r[i] = play(p[0] % OPERATIONS, p + 2, n - 2,
			    i == 0 ? STREAM_MAX : p[1] + 1u + (n >> 8));
	}
	MUST(r[0] == r[1]);
	must_equal(&log_of[0], &log_of[1]);
	buf_done(&log_of[0]);
	buf_done(&log_of[1]);
	return 0;
}
