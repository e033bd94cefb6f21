/* Boxes on a server: making, finding, their life; sessions. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A one-shot box whose client was killed goes when nothing has run in it for so long. */
enum { ORPHAN_IDLE_MS = 60000 };

/* ---- what is asked for ---- */

/* JSON carries text: what is none is refused rather than changed. */
static int check_text(const char *what, const char *s, struct err *e)
{
	if (!s || str_is_utf8(s, strlen(s)))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, EILSEQ,
		       "%s has bytes that are no UTF-8, which a server does not take", what);
}

static int check_texts(const char *what, const char *const *list, struct err *e)
{
	int r = 0;

	for (; list && *list && r == 0; list++)
		r = check_text(what, *list, e);
	return r;
}

static int put_input(struct json *j, const struct cove_command *c)
{
	if (!c->input || !c->input_len)
		return 0;
	json_key(j, "stdin_base64");
	json_base64(j, c->input, c->input_len);
	return 0;
}

int remote_put_command(struct json *j, const struct cove_command *c, const char *token,
		       struct err *e)
{
	int r = check_texts("an argument", c->argv, e);

	if (r == 0)
		r = check_text("the line", c->line, e);
	if (r == 0)
		r = check_texts("a variable", c->env, e);
	if (r == 0)
		r = check_text("the directory", c->cwd, e);
	remote_put_list(j, "argv", c->argv);
	remote_put_str(j, "line", c->line);
	remote_put_str(j, "shell", c->shell);
	remote_put_list(j, "env", c->env);
	remote_put_str(j, "cwd", c->cwd);
	remote_put_str(j, "user", c->user);
	remote_put_amount(j, "timeout", c->timeout_ms);
	remote_put_amount(j, "grace", c->grace_ms);
	remote_put_bool(j, "background", c->background);
	remote_put_bool(j, "pty", c->pty);
	if (c->pty && c->rows && c->cols) {
		json_kv_u64(j, "rows", c->rows);
		json_kv_u64(j, "cols", c->cols);
	}
	remote_put_str(j, "token", token);
	remote_put_bool(j, "login", c->login);
	remote_put_bool(j, "merge", c->merge);
	return r < 0 ? r : put_input(j, c);
}

/* Of this machine, where the server is on another. Through a Unix socket it is the same one. */
static int host_path(const struct cove *cove, const char *what, const char *path,
		     char ret[PATH_MAX], struct err *e)
{
	if (path[0] == '/' && str_copy(ret, PATH_MAX, path))
		return 0;
	if (cove->host.path[0] && realpath(path, ret))
		return 0;
	if (cove->host.path[0])
		return err_errno(e, errno, "'%.150s'", path);
	return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		       "%s '%.80s' is of this machine, and the box is on the server's: bring files "
		       "with --in and --out, or name an absolute path there",
		       what, path);
}

static void put_cpus(struct json *j, uint64_t milli)
{
	char text[32];

	if (milli == COVE_UNLIMITED)
		json_kv_i64(j, "cpus", -1);
	if (milli == 0 || milli == COVE_UNLIMITED)
		return;
	snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)milli / 1000,
		 (unsigned long long)milli % 1000);
	json_kv_str(j, "cpus", text);
}

static void put_limits(struct json *j, const struct cove_box_options *o)
{
	remote_put_amount(j, "mem", o->mem_bytes);
	put_cpus(j, o->cpu_milli);
	remote_put_amount(j, "pids", o->pids);
	remote_put_amount(j, "disk", o->disk_bytes);
	remote_put_amount(j, "files", o->files);
	remote_put_amount(j, "io", o->io_bytes);
	remote_put_amount(j, "ttl", o->ttl_ms);
	remote_put_amount(j, "idle", o->idle_ms);
	remote_put_amount(j, "net_bytes", o->net_bytes);
	remote_put_amount(j, "net_conns", o->net_conns);
	remote_put_str(j, "expire", o->expire);
	remote_put_str(j, "storage", o->storage);
	remote_put_bool(j, "best_effort", o->best_effort);
	remote_put_bool(j, "strict", o->strict);
	remote_put_bool(j, "trust_dir", o->trust_dir);
	remote_put_bool(j, "ptrace", o->ptrace);
	remote_put_bool(j, "copy", o->copy);
}

static int put_options(struct cove *cove, struct json *j, const struct cove_box_options *o,
		       struct err *e)
{
	char workspace[PATH_MAX];
	int r = 0;

	if (o->workspace && strchr(o->workspace, '/'))
		r = host_path(cove, "the directory", o->workspace, workspace, e);
	else if (o->workspace)
		str_copy(workspace, sizeof(workspace), o->workspace);
	if (r == 0)
		r = check_texts("a variable", o->env, e);
	if (r == 0)
		r = check_texts("a label", o->labels, e);
	if (r == 0)
		r = check_texts("a mount", o->mounts, e);
	if (r == 0)
		r = check_text("the line to start with", o->on_start, e);
	if (r < 0)
		return r;
	remote_put_str(j, "name", o->name);
	remote_put_str(j, "image", o->image);
	remote_put_str(j, "workspace", o->workspace ? workspace : NULL);
	remote_put_list(j, "mounts", o->mounts);
	remote_put_list(j, "env", o->env);
	remote_put_list(j, "labels", o->labels);
	remote_put_str(j, "cwd", o->cwd);
	remote_put_str(j, "user", o->user);
	remote_put_amount(j, "timeout_ms", o->timeout_ms);
	remote_put_str(j, "persistence", o->persistence);
	remote_put_str(j, "wall", o->wall);
	remote_put_str(j, "ctl", o->ctl);
	remote_put_str(j, "on_start", o->on_start);
	remote_put_str(j, "restart", o->restart);
	put_limits(j, o);
	if (o->one_shot && !o->idle_ms && !o->expire) {
		json_kv_u64(j, "idle", ORPHAN_IDLE_MS);
		json_kv_str(j, "expire", "remove");
	}
	return 0;
}

/* ---- making ---- */

static int handle_new(struct cove *cove, const char *name, bool one_shot, struct cove_box **ret,
		      struct err *e)
{
	struct cove_box *box = calloc(1, sizeof(*box));

	if (!box)
		return err_errno(e, ENOMEM, "keep a box");
	if (!name || !str_copy(box->name, sizeof(box->name), name)) {
		free(box);
		return err_set(e, ERR_PROTOCOL, EPROTO, "the server names no box");
	}
	box->cove = cove;
	box->one_shot = one_shot;
	*ret = box;
	return 0;
}

/* A policy of our own is put on the box after it was made: until then it may reach a name that is
 * none, so that it has a network, and that is closed. */
static bool put_net(struct json *j, const struct cove_box_options *o)
{
	static const char *const nothing[] = {"policy.invalid", NULL};
	bool is_file = o->net && strchr(o->net, '/');

	remote_put_str(j, "net", is_file ? "closed" : o->net);
	remote_put_list(j, "allow", is_file ? nothing : o->allow);
	remote_put_list(j, "deny", is_file ? NULL : o->deny);
	return is_file;
}

static int apply_file(struct cove *cove, struct cove_box *box, const struct cove_box_options *o,
		      struct err *e)
{
	struct cove_error err;
	int r = cove_policy_apply(cove, box->name, o->net, NULL, NULL, &err);

	for (int allow = 0; allow < 2 && r == 0; allow++)
		for (const char *const *p = allow ? o->allow : o->deny; p && *p && r == 0; p++)
			r = cove_grant(cove, box->name,
				       &(struct cove_grant){.size = sizeof(struct cove_grant),
							    .pattern = *p,
							    .allow = allow},
				       NULL, &err);
	if (r < 0)
		err_set(e, (enum err_kind)err.kind, err.code, "%s", err.message);
	return r;
}

static int make(struct remote_request *q, const struct cove_box_options *o, struct cove_box **ret,
		struct err *e)
{
	struct cove *cove = q->cove;
	struct cove_box *box = NULL;
	json_t *answer = NULL;
	bool applies = put_net(remote_object(q), o);
	int r;

	remote_note(q, put_options(cove, &q->json, o, e));
	r = remote_call(q, &answer, e);
	if (r == 0)
		r = handle_new(cove, remote_text(answer, "name"), o->one_shot, &box, e);
	json_decref(answer);
	if (r == 0 && applies)
		r = apply_file(cove, box, o, e);
	if (r < 0 && box)
		(void)cove_remove(cove, box->name, true, NULL);
	if (r < 0)
		free(box);
	else
		*ret = box;
	return r;
}

int cove_create(struct cove *cove, const struct cove_box_options *given, struct cove_box **ret,
		struct cove_error *err)
{
	char token[2 * REMOTE_TOKEN_BYTES + 1];
	const struct http_field key = {"Idempotency-Key", token};
	struct cove_box_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r == 0) {
		remote_begin(&q, cove, "POST", "/v1/boxes");
		/* Where an answer is lost the box has no name that anybody knows: it is asked for
		 * again, and is the same. One that has a name is there to be seen. */
		if (!o.name) {
			rand_hex(token, REMOTE_TOKEN_BYTES);
			q.fields = &key;
			q.field_count = 1;
			q.repeats = true;
		}
		r = make(&q, &o, ret, &e);
	}
	return remote_return(r, &e, err);
}

/* Running, or (visit) any: the server has it up for one operation. */
static int find(struct cove *cove, const char *name, bool visit, struct cove_box **ret,
		struct err *e)
{
	struct remote_request q;
	json_t *o = NULL;
	const char *state;
	int r;

	remote_begin(&q, cove, "GET", "/v1/boxes/{}", name);
	r = remote_call(&q, &o, e);
	if (r < 0)
		return r;
	state = remote_text(o, "state");
	if (!visit && state && strcmp(state, "stopped") == 0)
		r = err_set(e, ERR_CONFLICT, ENOTCONN,
			    "box '%s' is stopped; start it first (cove start %s)", name, name);
	json_decref(o);
	return r < 0 ? r : handle_new(cove, name, false, ret, e);
}

int cove_find(struct cove *cove, const char *name, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(find(cove, name, false, ret, &e), &e, err);
}

int cove_visit(struct cove *cove, const char *name, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(find(cove, name, true, ret, &e), &e, err);
}

const char *cove_box_name(const struct cove_box *box)
{
	return box->name;
}

void cove_box_free(struct cove_box *box)
{
	if (!box)
		return;
	if (box->one_shot)
		(void)cove_remove(box->cove, box->name, true, NULL);
	free(box);
}

/* ---- sessions ---- */

int cove_open(struct cove *cove, const char *session, const char *prefix,
	      const struct cove_box_options *given, struct cove_box **ret, struct cove_error *err)
{
	struct cove_box_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	/* It may be there already, and at work. */
	if (r == 0 && o.net && strchr(o.net, '/'))
		r = err_set(
			&e, ERR_UNSUPPORTED, EOPNOTSUPP,
			"a session of a server takes no policy file: open it with a preset, then "
			"`cove policy apply`");
	if (r == 0) {
		remote_begin(&q, cove, "PUT", "/v1/sessions/{}", session);
		q.repeats = true;
		remote_query(&q, "prefix", prefix);
		r = make(&q, &o, ret, &e);
	}
	return remote_return(r, &e, err);
}

int cove_close(struct cove *cove, const char *session, const char *prefix, bool remove,
	       struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/sessions/{}", session);
	remote_query(&q, "prefix", prefix);
	remote_query_bool(&q, "delete", remove);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- their life ---- */

/* POST to one of a box's verbs, with nothing to say. repeats: it may be done twice. */
static int act(struct cove *cove, const char *path, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", path, name);
	q.repeats = true;
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_start(struct cove *cove, const char *name, struct cove_error *err)
{
	return act(cove, "/v1/boxes/{}/start", name, err);
}

int cove_pause(struct cove *cove, const char *name, struct cove_error *err)
{
	return act(cove, "/v1/boxes/{}/pause", name, err);
}

int cove_resume(struct cove *cove, const char *name, struct cove_error *err)
{
	return act(cove, "/v1/boxes/{}/resume", name, err);
}

/* Who asks is the key, by the server's own word. */
int cove_stop(struct cove *cove, const char *name, const char *by, uint64_t grace_ms,
	      struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "POST", "/v1/boxes/{}/stop", name);
	q.repeats = true;
	json_kv_u64(remote_object(&q), "grace", grace_ms);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_remove(struct cove *cove, const char *name, bool force, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/boxes/{}", name);
	remote_query_bool(&q, "force", force);
	q.repeats = force;
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_set_ttl(struct cove *cove, const char *name, uint64_t ttl_ms, uint64_t idle_ms,
		 struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "PATCH", "/v1/boxes/{}", name);
	q.repeats = true;
	remote_put_amount(remote_object(&q), "ttl", ttl_ms);
	remote_put_amount(&q.json, "idle", idle_ms);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}
