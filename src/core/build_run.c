/*
 * RUN in a box; see build_run.h.
 *
 * How it works
 *
 *	make	a one-shot box that its keeper leaves behind when it has ended (life_start.keep);
 *		its operation lock is ours until it is removed, so that no sweep takes it
 *	run	the command, its output passed on; then the box is let go of, and ends
 *	take	its upper directory becomes rootfs/ of a new layer: moved where it lies beside it,
 *		else copied; Cove's own files are taken out, it is hashed, synced and placed
 */
#include "core/build_run.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/build_scrub.h"
#include "core/build_secret.h"
#include "core/life.h"
#include "storage/copy.h"
#include "storage/storage.h"
#include "storage/tree.h"
#include "store/inside.h"
#include "store/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRUST_OWN_FILE "/dev/cove-trust/box.pem" /* guest/trust.h */

struct run_box {
	struct cove *cove;
	const struct build_run *run;
	struct cove_box *box; /* owned; NULL once it has ended */
	char name[BOX_NAME_MAX + 1];
	int lock_fd; /* owned; its directory, with the operation lock */
	char *pem;   /* owned; what it was given to trust; NULL: nothing */
	struct build_words places;
};

/* ---- the box ---- */

static int fill_spec(struct run_box *b, struct core_spec *s, struct err *e)
{
	const struct build_words *layers = b->run->layers;

	if (layers->count == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is no program yet that RUN could start: begin with an image");
	if (layers->count > SPEC_LAYER_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %u layers", SPEC_LAYER_MAX);
	for (size_t i = 0; i < layers->count; i++)
		s->spec.layers[i] = layers->list[i];
	s->spec.layer_count = layers->count;
	s->spec.base_user = "root";
	s->keep = true;
	return 0;
}

static int start_box(struct run_box *b, const struct cove_box_options *o, struct core_spec *s,
		     struct err *e)
{
	struct core_conn *conn = NULL;
	int r = life_create(b->cove, s, o, &conn, e);

	if (r < 0)
		return r;
	b->lock_fd = fd_copy(conn->start_lock_fd, 3);
	r = box_handle_take(b->cove, s->spec.name, false, conn, &b->box, e);
	if (r < 0)
		return r;
	b->box->visit = true;
	return b->lock_fd < 0 ? err_errno(e, -b->lock_fd, "hold box '%s'", b->name) : 0;
}

static int make_box(struct run_box *b, struct err *e)
{
	const struct cove_build_options *o = b->run->options;
	bool closed = b->run->step->no_network;
	char hex[9];
	struct cove_box_options box = {
		.size = sizeof(box),
		.name = b->name,
		.image = "build",
		.one_shot = true,
		.user = "root",
		.cwd = "/",
		.mem_bytes = o->mem_bytes,
		.cpu_milli = o->cpu_milli,
		.pids = o->pids,
		.disk_bytes = o->disk_bytes,
		.best_effort = o->best_effort,
		.net = closed ? "closed" : o->net,
		.wall = o->wall,
		.owner = o->owner,
	};
	struct core_spec s;
	int r;

	rand_hex(hex, 4);
	snprintf(b->name, sizeof(b->name), "%.8s%sbuild-%s", o->owner ? o->owner : "",
		 o->owner ? "_" : "", hex);
	r = core_spec_init(&s, &box, NULL, NULL, e);
	if (r < 0)
		return r;
	r = fill_spec(b, &s, e);
	if (r == 0)
		r = build_secrets_show(b->run->secrets, b->run->step, &s, &b->places, e);
	if (r == 0)
		r = start_box(b, &box, &s, e);
	core_spec_done(&s);
	return r;
}

/* ---- the command ---- */

static int describe_end(const struct cove_result *result, const struct cove_build_options *o,
			struct err *e)
{
	if (result->timed_out)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "the command took longer than %" PRIu64 ".%03u s (--timeout)",
			       o->timeout_ms / 1000, (unsigned)(o->timeout_ms % 1000));
	if (result->oom_killed)
		return err_set(e, ERR_LIMIT, ENOMEM,
			       "the command ran out of memory: give it more with --mem");
	if (!result->has_exit)
		return err_set(e, ERR_INTERRUPTED, ECONNRESET, "the command's box ended: %s",
			       result->cause);
	if (result->exit_code == 0)
		return 0;
	if (strcmp(result->cause, "disk") == 0)
		return err_set(e, ERR_FULL, ENOSPC, "the command filled its disk (--disk)");
	return err_set(e, ERR_CONFLICT, ECHILD, "the command ended with status %d",
		       result->exit_code);
}

static void note_denials(const struct build_run *run, const struct cove_result *result)
{
	for (size_t i = 0; i < result->denied_count; i++) {
		const struct cove_denial *d = &result->denied[i];
		char text[480];

		snprintf(text, sizeof(text), "denied: %s%s%s (%s)", d->method,
			 d->method[0] ? " " : "", d->host[0] ? d->host : "a connection", d->reason);
		run->on_note(run->arg, text);
	}
}

/* 1: something came from the command; 0: the caller wants no more. */
static int await_output(struct cove_exec *exec, int cancel_fd)
{
	struct pollfd fds[] = {{.fd = cove_exec_fd(exec), .events = POLLIN},
			       {.fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	return fds[1].revents == 0;
}

static int follow(const struct build_run *run, struct cove_exec *exec, struct err *e)
{
	struct cove_event event;
	struct cove_error error;
	int r;

	for (;;) {
		r = cove_exec_next(exec, 0, &event, &error);
		if (r < 0)
			return err_set(e, (enum err_kind)error.kind, error.code, "%s",
				       error.message);
		if (r == 0) {
			r = await_output(exec, run->cancel_fd);
			if (r <= 0)
				return err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
			continue;
		}
		if (event.type == COVE_EVENT_OUT || event.type == COVE_EVENT_ERR)
			run->on_output(run->arg, event.type == COVE_EVENT_ERR, event.data,
				       event.len);
		if (event.type == COVE_EVENT_EXIT) {
			note_denials(run, &event.result);
			return describe_end(&event.result, run->options, e);
		}
	}
}

/* A script: what its first line says, with the script as its input. */
static int script_words(const char *script, struct build_words *ret)
{
	autofree char *line = strndup(script + 2, strcspn(script + 2, "\r\n"));
	char *rest = line, *program;
	int r;

	if (!line)
		return -ENOMEM;
	rest += strspn(rest, " \t");
	program = strsep(&rest, " \t");
	r = build_words_add(ret, program && *program ? program : "/bin/sh");
	if (rest)
		rest += strspn(rest, " \t");
	if (r == 0 && rest && *rest)
		r = build_words_add(ret, rest);
	return r < 0 ? r : build_words_add(ret, "/dev/stdin");
}

static int run_command(struct run_box *b, struct err *e)
{
	const struct build_run *run = b->run;
	const struct build_step *step = run->step;
	struct build_words words = {0};
	struct cove_exec *exec = NULL;
	struct cove_error error;
	struct cove_command command = {
		.size = sizeof(command),
		.argv = (const char *const *)step->argv.list,
		.env = (const char *const *)step->env.list,
		.user = run->user ? run->user : "root",
		.cwd = run->cwd ? run->cwd : "/",
		.timeout_ms = run->options->timeout_ms ? run->options->timeout_ms : COVE_NO_TIMEOUT,
	};
	int r = step->input ? script_words(step->input, &words) : 0;

	if (r < 0)
		return err_errno(e, -r, "read the script");
	if (step->input) {
		command.argv = (const char *const *)words.list;
		command.input = step->input;
		command.input_len = strlen(step->input);
	}
	r = cove_exec_start(b->box, &command, &exec, &error);
	build_words_done(&words);
	if (r < 0)
		return err_set(e, (enum err_kind)error.kind, error.code, "%s", error.message);
	r = follow(run, exec, e);
	cove_exec_free(exec);
	return r;
}

static void read_trust(struct run_box *b)
{
	void *pem = NULL;
	size_t len;

	if (cove_get_data(b->box, TRUST_OWN_FILE, TRUST_BUNDLE_MAX, &pem, &len, NULL) < 0)
		return;
	b->pem = strndup(pem, len);
	free(pem);
}

/* ---- what it wrote ---- */

struct take_job {
	struct inside_job job;
	int box_fd, layer_fd;
	bool move; /* the upper directory is in box_fd: otherwise it was copied */
	struct build_scrub scrub;
	struct stack below;
	struct stack_layer layers[SPEC_LAYER_MAX];
	size_t layer_count;
	char roots[SPEC_LAYER_MAX][640];
	struct layer_tar_how how;
	struct layer_tar_result made;
};

static int open_below(struct take_job *j)
{
	for (size_t i = 0; i < j->layer_count; i++) {
		int fd = open(j->roots[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		j->layers[i] = (struct stack_layer){.fd = fd};
	}
	j->below = (struct stack){.layers = j->layers, .count = j->layer_count};
	j->scrub.below = &j->below;
	return 0;
}

static int take_inside(struct inside_job *job)
{
	struct take_job *j = (struct take_job *)(void *)job;
	struct err *e = &job->err;
	int r;

	if (j->move && renameat(j->box_fd, "upper", j->layer_fd, "rootfs") < 0)
		return err_errno(e, errno, "take what the command wrote");
	r = open_below(j);
	if (r < 0)
		return err_errno(e, -r, "open the layers below");
	autoclose int root = openat(j->layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_errno(e, errno, "open what the command wrote");
	r = build_scrub_run(root, &j->scrub, e);
	if (r == 0)
		r = layer_tar_pack(root, -1, &j->how, &j->made, e);
	if (r == 0 && syncfs(root) < 0)
		r = err_errno(e, errno, "sync the new layer");
	return r;
}

/* Out of a volume that is not a directory beside the box's record. */
static int copy_upper(struct run_box *b, const struct storage_ops *ops,
		      const struct storage_place *place, int layer_fd, struct err *e)
{
	struct cove *cove = b->cove;
	struct storage_size size = {0};
	struct volume v = VOLUME_NONE;
	struct copy c = {.table_fd = -1};
	autoclose int from = -1, to = -1, links = -1;
	int r = ops->open(place, &cove->ids, &size, &v, e);

	if (r == 0)
		from = openat(v.stat_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && from < 0)
		r = err_errno(e, errno, "open what the command wrote");
	if (r == 0 &&
	    (mkdirat(layer_fd, "rootfs", 0755) < 0 || mkdirat(layer_fd, "links", 0700) < 0 ||
	     (to = openat(layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	     (links = openat(layer_fd, "links", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0))
		r = err_errno(e, errno, "make the new layer");
	if (r == 0)
		r = copy_init(&c, from, to, links, e);
	c.bytes_max = b->run->bytes_max;
	if (r == 0)
		r = copy_pass(&c, &cove->ids, COPY_LAST, 0, e);
	copy_done(&c);
	volume_done(&v);
	return r < 0 ? r : tree_remove_as(&cove->ids, layer_fd, "links", e);
}

/* The trees below, top first; what was put there for this command alone is not among them. */
static int find_below(struct run_box *b, struct take_job *j, struct err *e)
{
	const struct build_words *layers = b->run->layers;

	for (size_t i = layers->count - b->run->extra_count; i > 0; i--) {
		int r = layer_root(&b->cove->state, layers->list[i - 1], j->roots[j->layer_count],
				   sizeof(j->roots[0]));

		if (r < 0)
			return err_errno(e, -r, "find the layers below");
		j->layer_count++;
	}
	return 0;
}

static int take_layer(struct run_box *b, struct build_layer *ret, struct err *e)
{
	struct cove *cove = b->cove;
	struct storage_place place = {.home_fd = cove->state.home_fd, .dir_fd = b->lock_fd};
	const struct storage_ops *ops = storage_detect(&place);
	struct build_new n = {.dir = LAYER_NEW_NONE};
	struct take_job *j = calloc(1, sizeof(*j));
	int r = j ? layers_new(&cove->state, &n.dir, e) : err_errno(e, ENOMEM, "take a layer");

	if (r == 0) {
		j->job.run = take_inside;
		j->box_fd = b->lock_fd;
		j->layer_fd = n.dir.fd;
		j->move = ops == &storage_plain;
		j->how = (struct layer_tar_how){.bytes_max = b->run->bytes_max,
						.cancel_fd = b->run->cancel_fd};
		j->scrub = (struct build_scrub){
			.pem = b->pem, .places = &b->places, .drops = b->run->drops};
		r = find_below(b, j, e);
	}
	if (r == 0 && !j->move)
		r = copy_upper(b, ops, &place, n.dir.fd, e);
	if (r == 0)
		r = inside_run(&cove->ids, &j->job, sizeof(*j), e);
	if (r < 0) {
		layers_drop(&cove->state, &cove->ids, &n.dir);
	} else {
		n.made = j->made;
		r = build_layer_place(cove, &n, b->run->pins, ret, e);
	}
	free(j);
	return r;
}

int build_run_make(struct cove *cove, const struct build_run *run, struct build_layer *ret,
		   struct err *e)
{
	struct run_box b = {.cove = cove, .run = run, .lock_fd = -1};
	int r = make_box(&b, e);

	if (r == 0)
		r = run_command(&b, e);
	if (r == 0)
		read_trust(&b);
	/* It has ended when this returns. */
	cove_box_free(b.box);
	if (r == 0)
		r = take_layer(&b, ret, e);
	if (b.lock_fd >= 0)
		(void)life_trash(cove, b.name, b.lock_fd, false, NULL);
	fd_close(&b.lock_fd);
	free(b.pem);
	build_words_done(&b.places);
	return r;
}
