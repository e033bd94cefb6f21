/*
 * Forks: new boxes above the layers of a snapshot.
 *
 * A fork is made as any box is, with the snapshot's layers in its record and a volume of its own,
 * still empty: it costs the same whatever the snapshot holds. What it is comes from the spec that
 * the snapshot keeps, but for name, session, workspace and time. Of a box, a snapshot is taken
 * first that is there only until the forks' own records refer to its layers.
 *
 * A fork's workspace is made after its record, and its list names the fork that it was made for:
 * whoever removes a fork that never ran, because making it failed or its maker was killed, removes
 * that workspace, too. Several are all or none, unless their maker is killed: then those stay that
 * had been started.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/life.h"
#include "core/snapshot.h"
#include "core/view.h"
#include "store/layer.h"
#include "store/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRESH_TRIES = 8, SOURCE_PART = 50 };

/* ---- where they begin ---- */

/* 1: a box, 0: a snapshot. */
static int is_of_box(struct cove *cove, const char **source, struct err *e)
{
	autoclose int box_fd = -1;
	struct snapshot sn;
	int r;

	if (str_starts(*source, "box:")) {
		*source += strlen("box:");
		return 1;
	}
	if (str_starts(*source, "snapshot:")) {
		*source += strlen("snapshot:");
		return 0;
	}
	if (box_open_dir(cove, *source, &box_fd, e) == 0)
		return 1;
	r = snapshot_find(&cove->state, *source, &sn, e);
	snapshot_done(&sn);
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no box and no snapshot '%.60s': `cove ls`, `cove snapshot ls`",
			       *source);
	return r;
}

static int find_source(struct cove *cove, const char *source, bool no_freeze, struct snapshot *ret,
		       struct err *e)
{
	int r = is_of_box(cove, &source, e);

	*ret = (struct snapshot){0};
	if (r < 0)
		return r;
	if (r == 0)
		return snapshot_find(&cove->state, source, ret, e);
	return snapshot_make(cove, source,
			     &(struct snapshot_make){.transient = true, .no_freeze = no_freeze},
			     ret, e);
}

/* ---- one fork ---- */

/* Not before the layers that it begins with, whatever the clock says; see commit_time_ms. */
static uint64_t fork_time_ms(struct cove *cove, const struct snapshot *sn)
{
	const char *const tops[] = {sn->layer_count ? sn->layers[sn->layer_count - 1] : NULL,
				    sn->workspace_layer_count
					    ? sn->workspace_layers[sn->workspace_layer_count - 1]
					    : NULL};
	uint64_t at = clock_wall_ms();
	struct layer_meta meta;

	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		if (tops[i] && layer_read(&cove->state, tops[i], &meta) == 0 &&
		    meta.created_ms > at)
			at = meta.created_ms;
	return at;
}

/* What is of an API key stays so, with all that comes of it: its policy is the key's word, and the
 * secrets that this names must never be another's. What is the operator's may be given away. */
static int choose_owner(struct spec *spec, const char *source, const char *owner, struct err *e)
{
	if (spec->owner && owner && strcmp(spec->owner, owner) != 0)
		return err_set(e, ERR_DENIED, EACCES,
			       "'%.64s' is of the API key %s: what comes of it stays its own",
			       source, spec->owner);
	spec->owner = spec->owner ? spec->owner : owner;
	return 0;
}

/* It was not asked for by the request that made its source. */
static void drop_request_label(struct spec *spec)
{
	size_t n = 0;

	for (size_t i = 0; i < spec->label_count; i++)
		if (!str_starts(spec->labels[i], CORE_REQUEST_LABEL "="))
			spec->labels[n++] = spec->labels[i];
	spec->label_count = n;
}

/* What it is, from the snapshot's spec. All texts are of *sn, *text, *s or owner. */
static int fork_spec(struct cove *cove, const struct snapshot *sn, const char *name,
		     const char *owner, struct core_spec *s, char **text, struct err *e)
{
	struct spec *spec = &s->spec;
	int r = snapshot_spec(sn, spec, text, e);

	if (r == 0)
		r = choose_owner(spec, sn->transient ? sn->box : sn->name, owner, e);
	if (r < 0)
		return r;
	str_copy(s->name, sizeof(s->name), name);
	spec->name = s->name;
	spec->session = NULL;
	drop_request_label(spec);
	spec->one_shot = false;
	spec->created_ms = fork_time_ms(cove, sn);
	spec->from = sn->id;
	spec->renew = true;
	spec->layer_count = sn->layer_count;
	memcpy(spec->layers, sn->layers, sn->layer_count * sizeof(sn->layers[0]));
	/* Above the workspace's own layers; one that was empty is simply another empty one. */
	if (spec->workspace) {
		spec->workspace = s->name;
		s->makes_workspace = true;
		s->workspace_layers = sn->workspace_layers;
		s->workspace_layer_count = sn->workspace_layer_count;
	}
	str_copy(s->net, sizeof(s->net), net_is_closed(spec->net) ? "closed" : spec->net);
	spec->net = s->net;
	if (sn->policy) {
		s->policy = strdup(sn->policy);
		s->policy_len = strlen(sn->policy);
		if (!s->policy)
			return err_errno(e, ENOMEM, "make box '%s'", name);
	}
	return spec_check(spec, e);
}

static int fork_one(struct cove *cove, const struct snapshot *sn, const char *name,
		    const char *owner, struct err *e)
{
	struct cove_box_options o = {.size = sizeof(o), .name = name};
	autofree struct core_spec *s = calloc(1, sizeof(*s));
	autofree char *text = NULL;
	struct core_conn *conn = NULL;
	int r = s ? fork_spec(cove, sn, name, owner, s, &text, e)
		  : err_errno(e, ENOMEM, "make a fork");

	if (!s)
		return r;
	core_sweep_box(cove, name);
	if (r == 0)
		r = life_create(cove, s, &o, &conn, e);
	if (r == 0)
		box_event_open(cove, &s->spec);
	core_conn_free(conn);
	core_spec_done(s);
	return r;
}

/* ---- all of them ---- */

static int check_options(const struct cove_fork_options *o, struct err *e)
{
	int r = 0;

	if (o->count > FORKS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "at most %u forks at once", FORKS_MAX);
	if (o->name && o->count > 1)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--name is of one fork: give --count with --prefix");
	if (o->name)
		r = state_check_name("box", o->name, e);
	if (r == 0 && o->prefix)
		r = state_check_name("prefix", o->prefix, e);
	if (r == 0 && o->prefix && strlen(o->prefix) > BOX_NAME_MAX - 6)
		r = err_set(e, ERR_INVALID, EINVAL, "a prefix has at most %u bytes",
			    BOX_NAME_MAX - 6);
	return r;
}

/* In the namespace of the owner; without one that of the source, whose it then is. */
static void name_fresh(char ret[64], const char *source, const char *owner)
{
	char token[9];

	rand_hex(token, 4);
	if (owner)
		snprintf(ret, 64, "%.8s_%.*s-%s", owner, SOURCE_PART - STR_NAMESPACE,
			 str_plain_name(source), token);
	else
		snprintf(ret, 64, "%.*s-%s", SOURCE_PART, source, token);
}

static void name_fork(char ret[64], const struct cove_fork_options *o, const char *source,
		      uint64_t i)
{
	const char *plain = strchr(source, ':') ? strchr(source, ':') + 1 : source;

	if (o->name)
		str_copy(ret, 64, o->name);
	else if (o->prefix)
		snprintf(ret, 64, "%s-%llu", o->prefix, (unsigned long long)i + 1);
	else
		name_fresh(ret, plain, o->owner);
}

static int fork_all(struct cove *cove, const char *source, const struct cove_fork_options *o,
		    char (*names)[64], size_t count, struct err *e)
{
	struct snapshot sn;
	size_t i = 0;
	int r = find_source(cove, source, o->no_freeze, &sn, e);

	for (; i < count && r == 0; i++)
		for (int k = 0; k < FRESH_TRIES; k++) {
			if (fd_is_cancelled(o->cancel_fd)) {
				r = err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
				break;
			}
			name_fork(names[i], o, source, i);
			r = fork_one(cove, &sn, names[i], o->owner, e);
			if (r != -EEXIST || o->name || o->prefix)
				break;
		}
	if (r == 0 && o->ret_copy_left_out)
		*o->ret_copy_left_out = snapshot_leaves_copy(&sn);
	/* None or all. */
	if (r < 0)
		for (; i > 1; i--) {
			(void)cove_remove(cove, names[i - 2], true, NULL);
			if (sn.workspace)
				(void)workspace_remove(&cove->state, &cove->ids, names[i - 2],
						       NULL);
		}
	if (sn.transient)
		(void)snapshot_remove(&cove->state, &cove->ids, sn.name, NULL);
	snapshot_done(&sn);
	return r;
}

int cove_fork(struct cove *cove, const char *source, const struct cove_fork_options *options,
	      char (**ret)[64], struct cove_error *err)
{
	struct cove_fork_options o = {0};
	char(*names)[64] = NULL;
	struct err e = {0};
	size_t count;
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	core_sweep_seldom(cove);
	count = o.count ? o.count : 1;
	if (r == 0)
		r = check_options(&o, &e);
	if (r == 0)
		r = core_ids(cove, &e);
	if (r == 0)
		names = calloc(count, sizeof(*names));
	if (r == 0 && !names)
		r = err_errno(&e, ENOMEM, "make forks");
	if (r == 0)
		r = fork_all(cove, source, &o, names, count, &e);
	if (r < 0) {
		free(names);
		return core_return(cove, NULL, r, &e, err);
	}
	*ret = names;
	return core_return(cove, NULL, (int)count, &e, err);
}
