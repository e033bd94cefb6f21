/* Watching by the real cove-init. */
#include "tap.h"

#include "tool_client.h"

#include "base/limits.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- watch ---- */

struct watched {
	struct client *c;
	uint32_t id;
	struct wire_decoder d;
	struct wire_flow flow;
	struct buf in; /* bytes that came */
	bool ended;
	int code;
};

static struct watched watch(struct client *c, const char *path, bool recursive)
{
	struct watched w = {.c = c};

	wire_decoder_init(&w.d);
	wire_flow_init(&w.flow);
	buf_init(&w.in, WIRE_OUT_MAX);
	w.id = client_begin(
		c, &(struct wire_file){.op = FILE_WATCH, .path = path, .recursive = recursive});
	return w;
}

static void watched_done(struct watched *w)
{
	wire_decoder_done(&w->d);
	buf_done(&w->in);
}

static bool feed(struct watched *w)
{
	size_t room, n = buf_len(&w->in);
	uint8_t *space;

	if (n == 0)
		return false;
	space = wire_decoder_space(&w->d, &room);
	n = n < room ? n : room;
	memcpy(space, buf_data(&w->in), n);
	wire_decoder_fill(&w->d, n);
	buf_consume(&w->in, n);
	return true;
}

/* Waits for the next change. False at the end. */
static bool next_change(struct watched *w, struct wire_change *ret)
{
	struct wire_frame f;
	struct wire_error e;
	int r;

	while ((r = wire_decoder_next(&w->d, &f)) == 0 && !w->ended) {
		struct wire_credit credit;

		if (feed(w))
			continue;
		client_next(w->c, &f);
		if (f.type == WIRE_ERROR) {
			CHECK_EQ(wire_error_decode(&f, &e), 0);
			w->code = (int)e.code;
			w->ended = true;
			return false;
		}
		CHECK(f.type == WIRE_DATA && f.id == w->id);
		CHECK_EQ(buf_append(&w->in, f.payload, f.len), 0);
		credit.bytes = wire_flow_took(&w->flow, f.len);
		if (credit.bytes > 0) {
			CHECK_EQ(wire_credit_encode(&w->c->out, w->id, WIRE_STDOUT, &credit), 0);
			client_send(w->c, WIRE_CANCEL, 0, w->id + 1, NULL, 0); /* of none */
		}
	}
	CHECK_EQ(r, 1);
	CHECK_EQ(f.type, WIRE_CHANGE);
	CHECK_EQ(wire_change_decode(&f, ret), 0);
	return true;
}

static void expect(struct watched *w, enum wire_change_kind kind, const char *path, const char *to)
{
	struct wire_change m;

	CHECK(next_change(w, &m));
	CHECK_EQ(m.kind, kind);
	CHECK_STR(m.path ? m.path : "", path);
	CHECK_STR(m.to ? m.to : "", to);
}

/* Until one of that kind with that path. */
static void await_change(struct watched *w, enum wire_change_kind kind, const char *path)
{
	struct wire_change m;

	do {
		CHECK(next_change(w, &m));
	} while (m.kind != kind || strcmp(m.path ? m.path : "", path) != 0);
}

static void end_watch(struct watched *w)
{
	struct wire_change m;

	client_send(w->c, WIRE_CANCEL, 0, w->id, NULL, 0);
	while (next_change(w, &m))
		;
	CHECK_EQ(w->code, ECANCELED);
	watched_done(w);
}

TEST(watch_one_directory)
{
	struct client c = tool_start();
	struct watched w;

	CHECK_EQ(mkdir(tool_at("d"), 0755), 0);
	w = watch(&c, ".", false);
	expect(&w, CHANGE_READY, "", "");
	tool_write_text("f", "x");
	expect(&w, CHANGE_CREATED, "f", "");
	expect(&w, CHANGE_WRITTEN, "f", "");
	CHECK_EQ(chmod(tool_at("f"), 0600), 0);
	expect(&w, CHANGE_CHMOD, "f", "");
	CHECK_EQ(rename(tool_at("f"), tool_at("g")), 0);
	expect(&w, CHANGE_RENAMED, "f", "g");
	tool_write_text("d/deep", "x");
	CHECK_EQ(unlink(tool_at("g")), 0);
	expect(&w, CHANGE_REMOVED, "g", "");
	/* To where nobody looks, and back. */
	tool_write_text("h", "");
	expect(&w, CHANGE_CREATED, "h", "");
	CHECK_EQ(rename(tool_at("h"), tool_at("d/h")), 0);
	expect(&w, CHANGE_REMOVED, "h", "");
	CHECK_EQ(rename(tool_at("d/h"), tool_at("i")), 0);
	expect(&w, CHANGE_CREATED, "i", "");
	end_watch(&w);
	tool_finish(&c);
}

TEST(watch_a_tree)
{
	struct client c = tool_start();
	struct watched w;

	CHECK_EQ(mkdir(tool_at("a"), 0755), 0);
	CHECK_EQ(mkdir(tool_at("a/b"), 0755), 0);
	CHECK_EQ(symlink("/tmp", tool_at("a/out")), 0);
	w = watch(&c, ".", true);
	expect(&w, CHANGE_READY, "", "");
	tool_write_text("a/b/f", "");
	expect(&w, CHANGE_CREATED, "a/b/f", "");
	CHECK_EQ(mkdir(tool_at("new"), 0755), 0);
	await_change(&w, CHANGE_CREATED, "new");
	CHECK_EQ(mkdir(tool_at("new/er"), 0755), 0);
	await_change(&w, CHANGE_CREATED, "new/er");
	tool_write_text("new/er/f", "");
	await_change(&w, CHANGE_CREATED, "new/er/f");
	/* A directory that moves is watched where it is then. */
	CHECK_EQ(rename(tool_at("new"), tool_at("a/old")), 0);
	await_change(&w, CHANGE_RENAMED, "new");
	tool_write_text("a/old/er/g", "");
	await_change(&w, CHANGE_CREATED, "a/old/er/g");
	CHECK_EQ(unlink(tool_at("a/old/er/f")), 0);
	await_change(&w, CHANGE_REMOVED, "a/old/er/f");
	end_watch(&w);
	tool_finish(&c);
}

TEST(watch_a_tree_that_is_made_at_once)
{
	struct client c = tool_start();
	char path[128] = "t";
	struct watched w = watch(&c, ".", true);

	expect(&w, CHANGE_READY, "", "");
	CHECK_EQ(mkdir(tool_at(path), 0755), 0);
	for (int i = 0; i < 20; i++) {
		strcat(path, "/d");
		CHECK_EQ(mkdir(tool_at(path), 0755), 0);
	}
	strcat(path, "/f");
	tool_write_text(path, "");
	await_change(&w, CHANGE_CREATED, path);
	end_watch(&w);
	tool_finish(&c);
}

TEST(watch_a_storm)
{
	struct client c = tool_start();
	struct watched w = watch(&c, ".", true);
	struct client_result r;

	expect(&w, CHANGE_READY, "", "");
	/* Not read meanwhile: at some point the kernel's queue is full. */
	for (int i = 0; i < 60000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%d", i % 16);
		tool_write_text(name, i % 2 ? "x" : "");
		if (i % 16 == 15)
			CHECK_EQ(unlink(tool_at(name)), 0);
	}
	/* It goes on, and what was made meanwhile is watched, too. */
	CHECK_EQ(mkdir(tool_at("after"), 0755), 0);
	await_change(&w, CHANGE_LOST, "");
	await_change(&w, CHANGE_READY, "");
	tool_write_text("after/f", "x");
	await_change(&w, CHANGE_WRITTEN, "after/f");
	end_watch(&w);
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "."});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	tool_finish(&c);
}

TEST(watch_ends_with_its_directory)
{
	struct client c = tool_start();
	struct wire_change m;
	struct watched w;

	CHECK_EQ(mkdir(tool_at("d"), 0755), 0);
	w = watch(&c, "d", true);
	expect(&w, CHANGE_READY, "", "");
	CHECK_EQ(rmdir(tool_at("d")), 0);
	while (next_change(&w, &m))
		;
	CHECK_EQ(w.code, ENOENT);
	watched_done(&w);
	w = watch(&c, "nothing", false);
	CHECK(!next_change(&w, &m));
	CHECK_EQ(w.code, ENOENT);
	watched_done(&w);
	tool_write_text("f", "");
	w = watch(&c, "f", false);
	CHECK(!next_change(&w, &m));
	CHECK_EQ(w.code, ENOTDIR);
	watched_done(&w);
	tool_finish(&c);
}

TAP_MAIN
