/* Everything known about a box, as one JSON object: its record, and what its keeper says. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "core/core.h"
#include "core/life.h"
#include "core/view.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSPECT_BYTES_MAX = 8 << 20 };

/* Writes each of the lines of text as a string. */
static void put_lines(struct json *j, const char *text)
{
	while (text && *text) {
		size_t n = strcspn(text, "\n");

		if (n > 0)
			json_strn(j, text, n);
		text += n + (text[n] == '\n');
	}
}

static void put_strings(struct json *j, const char *key, const char *const *items, size_t count)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < count; i++)
		json_str(j, items[i]);
	json_array_end(j);
}

static void put_mounts(struct json *j, const struct spec *s)
{
	json_key(j, "mounts");
	json_array_begin(j);
	for (size_t i = 0; i < s->mount_count; i++) {
		json_object_begin(j);
		json_kv_str(j, "source", s->mounts[i].src);
		json_kv_str(j, "target", s->mounts[i].dst);
		json_kv_bool(j, "read_only", s->mounts[i].read_only);
		json_kv_str(j, "env", s->mounts[i].env);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_spec(struct json *j, const struct spec *s)
{
	json_kv_str(j, "name", s->name);
	json_kv_str(j, "image", s->image);
	json_kv_str(j, "wall", s->wall);
	json_kv_str(j, "session", s->session);
	json_kv_str(j, "workspace", s->workspace);
	json_kv_str(j, "workspace_dir", s->workspace_dir);
	json_kv_str(j, "persistence", persistence_name(s->persistence));
	json_kv_bool(j, "one_shot", s->one_shot);
	json_kv_str(j, "user", s->user);
	json_kv_str(j, "cwd", s->cwd);
	json_kv_u64(j, "timeout_ms", s->timeout_ms);
	json_kv_str(j, "network", "none");
	put_mounts(j, s);
	put_strings(j, "env", s->env, s->env_count);
	put_strings(j, "labels", s->labels, s->label_count);
	json_kv_u64(j, "created_ms", s->created_ms);
}

static void put_life(struct json *j, const struct record *r)
{
	json_kv_str(j, "state", box_state_name(r->state));
	json_kv_str(j, "cause", r->cause[0] ? r->cause : NULL);
	json_kv_str(j, "by", r->by[0] ? r->by : NULL);
	json_kv_u64(j, "started_ms", r->started_ms);
	json_kv_u64(j, "ended_ms", r->ended_ms);
}

static void put_status(struct json *j, const struct record *r, const struct wire_status *s)
{
	uint64_t now = clock_wall_ms();
	uint64_t since = s->started_ms ? s->started_ms : r->started_ms;

	json_kv_i64(j, "keeper_pid", r->keeper_pid);
	json_kv_u64(j, "init_pid", s->init_pid);
	json_kv_u64(j, "uptime_ms", now > since ? now - since : 0);
	json_kv_u64(j, "execs_running", s->execs_running);
	json_kv_u64(j, "clients", s->clients);
}

/* What separates the box from the host, as its keeper says: of a stopped one it is not known, since
 * its next start may find other ids. */
static void put_isolation(struct json *j, const char *ids)
{
	json_key(j, "isolation");
	if (!ids) {
		json_null(j);
		return;
	}
	json_object_begin(j);
	json_kv_str(j, "ids", ids);
	json_kv_bool(j, "root_inside", strcmp(ids, "single") != 0);
	json_object_end(j);
}

/* What every box is refused whatever it asks. */
static void put_refused(struct json *j)
{
	static const char *const refused[] = {
		"docker: a container engine cannot run inside a box",
		"nested user namespaces: programs with a sandbox of their own (some browsers) must "
		"be "
		"started without it",
		"network: nothing but the box's own loopback is reachable",
	};

	put_strings(j, "refused", refused, sizeof(refused) / sizeof(refused[0]));
}

/* Limits that no box has, and what the keeper of this one could not do. */
static void put_not_enforced(struct json *j, const char *notes)
{
	static const char *const absent[] = {"cpu", "memory", "pids", "disk"};
	char line[80];

	json_key(j, "not_enforced");
	json_array_begin(j);
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		snprintf(line, sizeof(line), "%s: this version of Cove sets no limit", absent[i]);
		json_str(j, line);
	}
	put_lines(j, notes);
	json_array_end(j);
}

/* Asks the keeper; the answer points into the connection. */
static int ask_status(struct conn *c, struct wire_status *ret, struct err *e)
{
	uint32_t id = conn_id(c);
	struct wire_frame f;
	int r = conn_hello(c, START_WAIT_MS, e);

	if (r == 0 && wire_encode(&c->out, WIRE_STATUS, 0, id, NULL, 0) < 0)
		r = err_errno(e, ENOBUFS, "ask the keeper");
	if (r == 0)
		r = conn_flush(c, e);
	if (r == 0)
		r = conn_next(c, id, STOP_WAIT_MS, &f, e);
	if (r == 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the keeper does not answer");
	if (r > 0)
		r = f.type == WIRE_STATUS && wire_status_decode(&f, ret) == 0
			    ? 0
			    : conn_unexpected(c, &f, e);
	return r;
}

static void put_box(struct json *j, struct cove *cove, const struct record *r)
{
	struct wire_status status = {0};
	struct conn *c = NULL;
	struct err e = {0};
	bool up = r->state == BOX_RUNNING;

	json_object_begin(j);
	put_spec(j, &r->spec);
	put_life(j, r);
	if (up && (conn_connect(cove->state.run_fd, r->spec.name, &c, &e) < 0 ||
		   ask_status(c, &status, &e) < 0)) {
		up = false;
		json_kv_str(j, "problem", e.msg);
	}
	if (up)
		put_status(j, r, &status);
	put_isolation(j, status.ids);
	put_refused(j);
	put_not_enforced(j, status.notes);
	json_object_end(j);
	conn_free(c);
}

static int inspect(struct cove *cove, const char *name, char **ret, struct err *e)
{
	struct record record;
	struct json j;
	struct buf b;
	int r;

	core_sweep(cove);
	r = record_load(&cove->state, name, &record, e);
	if (r < 0)
		return r;
	buf_init(&b, INSPECT_BYTES_MAX);
	json_init(&j, &b);
	put_box(&j, cove, &record);
	record_done(&record);
	*ret = j.error == 0 && buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
	buf_done(&b);
	return *ret ? 0 : err_errno(e, ENOMEM, "describe box '%s'", name);
}

int cove_inspect(struct cove *cove, const char *name, char **ret_json, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, name, inspect(cove, name, ret_json, &e), &e, err);
}
