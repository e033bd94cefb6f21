/*
 * Sessions: a caller's own id is always the same box.
 *
 * open   no such box: make and start it. There: start or join it. Two programs that open one
 *        session at the same moment race to rename the record into place; the loser joins the
 *        winner's box. What the caller asks for and the box that is there does not have is refused:
 *        a box is never other than its opener asked for. What was not asked for is as it is.
 * close  persistence "workspace": the box is removed, its workspace stays. "box": it is stopped.
 *        With remove it is removed in both.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/door.h"
#include "core/life.h"
#include "core/view.h"
#include "core/walls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_TRIES = 8 };

static int session_name(const char *session, const char *prefix, char ret[BOX_NAME_MAX + 1],
			struct err *e)
{
	if (!session || !*session)
		return err_set(e, ERR_INVALID, EINVAL, "a session id may not be empty");
	return spec_session_name(prefix, session, ret, e);
}

static int join(struct cove *cove, const char *name, struct cove_box **ret, struct err *e)
{
	struct core_conn *conn = NULL;
	struct record record;
	int r = box_up(cove, name, false, &conn, e);

	if (r == 0)
		r = box_handle_take(cove, name, false, conn, ret, e);
	if (r == 0 && cove->on_event && record_load(&cove->state, name, &record, NULL) == 0) {
		box_event_open(cove, &record.spec);
		record_done(&record);
	}
	return r;
}

static int differs(const struct spec *have, const char *option, const char *is, const char *asked,
		   struct err *e)
{
	return err_set(e, ERR_CONFLICT, EBUSY,
		       "box '%s' was opened with %s %.36s, not %.36s; leave it out, or remove the "
		       "box first (cove close --delete)",
		       have->name, option, is ? is : "unset", asked);
}

/* Only the name of a variable is shown: its value may be a secret. */
static int lacks(const struct spec *have, const char *option, const char *pair, struct err *e)
{
	return err_set(e, ERR_CONFLICT, EBUSY,
		       "box '%s' was opened without this %s '%.*s'; leave it out, or remove the "
		       "box first (cove close --delete)",
		       have->name, option, (int)strcspn(pair, "="), pair);
}

static bool has_pair(const char *const *list, size_t count, const char *pair)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], pair) == 0)
			return true;
	return false;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool has_mount(const struct spec *s, const struct spec_mount *m)
{
	for (size_t i = 0; i < s->mount_count; i++) {
		const struct spec_mount *n = &s->mounts[i];

		if (is_same(n->src, m->src) && is_same(n->dst, m->dst) && is_same(n->env, m->env) &&
		    n->read_only == m->read_only)
			return true;
	}
	return false;
}

static int lists_agree(const struct spec *have, const struct spec *asked, struct err *e)
{
	for (size_t i = 0; i < asked->env_count; i++)
		if (!has_pair(have->env, have->env_count, asked->env[i]))
			return lacks(have, "--env", asked->env[i], e);
	for (size_t i = 0; i < asked->label_count; i++)
		if (!has_pair(have->labels, have->label_count, asked->labels[i]))
			return lacks(have, "--label", asked->labels[i], e);
	for (size_t i = 0; i < asked->mount_count; i++)
		if (!has_mount(have, &asked->mounts[i]))
			return lacks(have, "--mount", asked->mounts[i].dst, e);
	return 0;
}

/* The same number as a default is not enough: that is only kept where the host can. */
static int limits_agree(const struct spec *have, const struct cove_box_options *o,
			const struct spec *asked, struct err *e)
{
	char is[LIMIT_TEXT], wanted[LIMIT_TEXT];

	for (unsigned i = 0; i < LIMIT_COUNT; i++) {
		enum limit_id id = (enum limit_id)i;
		unsigned bit = 1u << i;

		if (!(asked->limits_asked & bit))
			continue;
		if (have->limits[i] != asked->limits[i] || !(have->limits_asked & bit))
			return differs(have, limit_flag(id),
				       have->limits_asked & bit
					       ? limit_format(id, have->limits[i], is)
					       : NULL,
				       limit_format(id, asked->limits[i], wanted), e);
		if (have->best_effort && !o->best_effort)
			return differs(have, "--best-effort", "set", "without it", e);
	}
	if (o->strict && !have->strict)
		return differs(have, "--strict", NULL, "set", e);
	if (o->trust_dir && !have->trust_dir)
		return differs(have, "--trust-dir", NULL, "set", e);
	if (o->workspace && o->copy != have->workspace_copy)
		return differs(have, "--copy", have->workspace_copy ? "set" : NULL,
			       o->copy ? "set" : "without it", e);
	if (o->ptrace && !have->ptrace)
		return differs(have, "--ptrace", NULL, "set", e);
	return 0;
}

/* A path has a slash, a name has none. */
static const char *place_of(const struct spec *s)
{
	return s->workspace ? s->workspace : s->workspace_dir;
}

/* asked was made from o and holds defaults besides; only what o gives counts. */
static int spec_agrees(const struct spec *have, const struct cove_box_options *o,
		       const struct spec *asked, struct err *e)
{
	uint64_t within_ms;
	/* "auto" is content with what there is. */
	const char *wall =
		o->wall && wall_read_auto(o->wall, &within_ms, NULL) == 0 ? o->wall : NULL;
	const struct {
		const char *option, *given, *is, *asked;
	} texts[] = {
		{"--image", o->image, have->image, asked->image},
		{"--workspace", o->workspace, place_of(have), place_of(asked)},
		{"--user", o->user, have->user, asked->user},
		{"--workdir", o->cwd, have->cwd, asked->cwd},
		{"--persistence", o->persistence, persistence_name(have->persistence),
		 persistence_name(asked->persistence)},
		{"--expire", o->expire, expiry_name(have->expiry), expiry_name(asked->expiry)},
		{"--storage", o->storage, have->storage, asked->storage},
		{"--ctl", o->ctl, have->ctl, asked->ctl},
		{"--on-start", o->on_start, have->on_start, asked->on_start},
		{"--restart", o->restart, restart_name(have->restart),
		 restart_name(asked->restart)},
		{"--wall", wall, have->wall, asked->wall},
	};
	char is[24], wanted[24];
	int r;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].given && !is_same(texts[i].is, texts[i].asked))
			return differs(have, texts[i].option, texts[i].is, texts[i].asked, e);
	if (o->timeout_ms && have->timeout_ms != asked->timeout_ms) {
		snprintf(is, sizeof(is), "%llums", (unsigned long long)have->timeout_ms);
		snprintf(wanted, sizeof(wanted), "%llums", (unsigned long long)asked->timeout_ms);
		return differs(have, "--timeout", have->timeout_ms ? is : NULL, wanted, e);
	}
	r = limits_agree(have, o, asked, e);
	return r < 0 ? r : lists_agree(have, asked, e);
}

/* The common case of an agent's next turn asks for nothing: then the record is not even read. */
static bool asks_nothing(const struct cove_box_options *o, const struct spec *asked)
{
	return !asked->limits_asked && !o->expire && !o->storage && !o->wall && !o->strict &&
	       !o->trust_dir && !o->ptrace && !o->copy && !o->ctl && !o->on_start && !o->restart &&
	       !o->image && !o->workspace && !o->user && !o->cwd && !o->persistence &&
	       !o->timeout_ms && !(o->env && o->env[0]) && !(o->labels && o->labels[0]) &&
	       !(o->mounts && o->mounts[0]) && !o->net && !(o->allow && o->allow[0]) &&
	       !(o->deny && o->deny[0]);
}

static int check_agrees(struct cove *cove, const struct cove_box_options *o,
			const struct spec *asked, struct err *e)
{
	struct record record;
	int r;

	if (asks_nothing(o, asked))
		return 0;
	r = record_load(&cove->state, asked->name, &record, e);
	if (r < 0)
		return r;
	r = spec_agrees(&record.spec, o, asked, e);
	if (r == 0)
		r = network_agrees(cove, &record.spec, o, e);
	record_done(&record);
	return r;
}

/* Joining first is the common case. */
static int open_named(struct cove *cove, const struct cove_box_options *o, struct core_spec *s,
		      struct cove_box **ret, struct err *e)
{
	const struct spec *spec = &s->spec;
	int r = -ENOENT;

	for (int i = 0; i < OPEN_TRIES; i++) {
		autoclose int box_fd = -1;

		r = box_open_dir(cove, spec->name, &box_fd, e);
		if (r == 0) {
			r = check_agrees(cove, o, spec, e);
			if (r == 0)
				r = join(cove, spec->name, ret, e);
		} else if (r == -ENOENT) {
			r = box_create(cove, s, o, ret, e);
		}
		/* -ENOENT: it was removed under our hands; the image's own ENOENT comes again. */
		if (r != -EEXIST && !(r == -ENOENT && box_fd >= 0))
			return r;
	}
	return r;
}

static int open_session(struct cove *cove, const char *session, const char *prefix,
			const struct cove_box_options *options, struct cove_box **ret,
			struct err *e)
{
	struct cove_box_options o;
	char name[BOX_NAME_MAX + 1];
	struct core_spec s;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	if (r == 0)
		r = session_name(session, prefix, name, e);
	if (r < 0)
		return r;
	if (o.name)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a session's box has its own name: give no name");
	if (o.one_shot)
		return err_set(e, ERR_INVALID, EINVAL, "a session's box cannot be one-shot");
	r = core_spec_init(&s, &o, name, session, e);
	if (r < 0)
		return r;
	core_sweep_seldom(cove);
	core_sweep_box(cove, name);
	r = open_named(cove, &o, &s, ret, e);
	core_spec_done(&s);
	return r;
}

int cove_open(struct cove *cove, const char *session, const char *prefix,
	      const struct cove_box_options *options, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, open_session(cove, session, prefix, options, ret, &e), &e,
			   err);
}

/* 1: it was removed, 2: stopped, 0: there was nothing to do. */
static int close_named(struct cove *cove, const char *name, bool remove, struct err *e)
{
	struct record record;
	bool keep;
	int r = record_load(&cove->state, name, &record, e);

	if (r == -ENOENT)
		return remove ? 0 : r;
	if (r < 0 && !remove)
		return r;
	keep = r == 0 && !remove && record.spec.persistence == PERSIST_BOX;
	if (r == 0)
		record_done(&record);
	if (keep) {
		r = box_halt(cove, name, "close", 0, e);
		return r > 0 ? 2 : r;
	}
	r = box_destroy(cove, name, "close", e);
	return r < 0 ? r : 1;
}

int cove_close(struct cove *cove, const char *session, const char *prefix, bool remove,
	       struct cove_error *err)
{
	char name[BOX_NAME_MAX + 1] = "";
	struct err e = {0};
	int r = session_name(session, prefix, name, &e);

	if (r == 0) {
		core_sweep_box(cove, name);
		r = close_named(cove, name, remove, &e);
	}
	if (r == -ENOENT)
		err_prefix(&e, "the session is not open");
	if (r > 0)
		core_event(cove, &(struct event){.kind = EVENT_CLOSE,
						 .box = name,
						 .cause = r == 1 ? "removed" : "stopped",
						 .by = "close"});
	return core_return(cove, name, r > 0 ? 0 : r, &e, err);
}
