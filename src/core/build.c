/* Building an image: the call and what it reads; see build.h. */
#include "core/build.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/str.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define IGNORE_FILE ".dockerignore"

/* ---- what is read ---- */

/* Who wrote the context is not always who builds it: links of it end at its root, and what is no
 * file (a FIFO would wait for ever) is not read. -ENODEV. */
static int open_inside(const struct build *b, const char *path)
{
	autoclose int fd =
		fd_openat2(b->context_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0,
			   FD_IN_ROOT | FD_NO_MAGICLINKS);
	struct stat st;

	if (fd < 0)
		return fd == -ENXIO ? -ENODEV : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(fd) : -ENODEV;
}

/* The part of a path below the context, wherever on the way the context is; else NULL. */
static const char *below_context(const struct build *b, const char *path)
{
	const char *below = path[0] == '/' ? NULL : path;
	struct stat context, st;
	char above[PATH_MAX];

	if (b->context_fd < 0 || fstat(b->context_fd, &context) < 0)
		return NULL;
	if (below &&
	    (stat(".", &st) < 0 || st.st_dev != context.st_dev || st.st_ino != context.st_ino))
		below = NULL;
	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		size_t len = (size_t)(p - path) + 1;

		if (len >= sizeof(above))
			return NULL;
		memcpy(above, path, len);
		above[len] = 0;
		if (stat(above, &st) == 0 && st.st_dev == context.st_dev &&
		    st.st_ino == context.st_ino)
			below = p + 1;
	}
	for (const char *p = below; p && *p; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == 0))
			return NULL; /* and out of it again */
	return below;
}

/* A file that the caller names, which outside of the context may be anything that can be read. */
static int open_named(const struct build *b, const char *path)
{
	const char *below = b->o.context_fd > 0 ? path : below_context(b, path);
	int fd = below ? open_inside(b, below) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 && !below ? -errno : fd;
}

static int read_text(int opened, size_t max, char **ret, size_t *ret_len)
{
	autoclose int fd = opened; /* or why it is not */
	char *text = fd < 0 ? NULL : malloc(max + 2);
	ssize_t n;

	if (fd < 0)
		return fd;
	if (!text)
		return -ENOMEM;
	n = fd_read_full(fd, text, max + 1);
	if (n < 0 || (size_t)n > max) {
		free(text);
		return n < 0 ? (int)n : -EFBIG;
	}
	text[n] = 0;
	*ret = text;
	*ret_len = (size_t)n;
	return 0;
}

static int cannot_read(const char *name, int r, struct err *e)
{
	if (r == -ENODEV)
		return err_set(e, ERR_INVALID, ENODEV, "'%.140s' is no file", name);
	return err_errno(e, -r, "read '%.140s'", name);
}

static int read_dockerfile(struct build *b, struct err *e)
{
	const char *name = b->o.file ? b->o.file : "Dockerfile";
	size_t len = 0;
	int r;

	if (b->o.text) {
		b->text = strdup(b->o.text);
		len = strlen(b->o.text);
		r = b->text ? 0 : -ENOMEM;
	} else if (!b->o.file && b->context_fd < 0) {
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is neither a Dockerfile nor a "
			       "context");
	} else {
		r = read_text(b->o.file ? open_named(b, name) : open_inside(b, name),
			      DOCKERFILE_MAX, &b->text, &len);
	}
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no '%.100s'; name the Dockerfile with -f FILE", name);
	if (r < 0)
		return cannot_read(name, r, e);
	r = dockerfile_parse(&b->file, b->text, len, e);
	return r;
}

/* FILE.dockerignore beside the Dockerfile, or .dockerignore in the context. */
static int read_ignore(struct build *b, struct err *e)
{
	autofree char *text = NULL, *beside = NULL;
	const char *name = IGNORE_FILE;
	size_t len = 0;
	int r = -ENOENT;

	if (b->context_fd < 0)
		return 0;
	if (b->o.file && asprintf(&beside, "%s" IGNORE_FILE, b->o.file) < 0) {
		beside = NULL;
		return err_errno(e, ENOMEM, "read " IGNORE_FILE);
	}
	if (beside) {
		name = beside;
		r = read_text(open_named(b, beside), BUILD_IGNORE_MAX, &text, &len);
	}
	if (r == -ENOENT) {
		name = IGNORE_FILE;
		r = read_text(open_inside(b, IGNORE_FILE), BUILD_IGNORE_MAX, &text, &len);
	}
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return cannot_read(name, r, e);
	r = build_ignore_parse(&b->ignore, text, len, e);
	if (r < 0)
		err_prefix(e, "%.100s", name);
	return r;
}

/* ---- the machine ---- */

static void find_platform(char ret[48])
{
	static const char *const names[][2] = {{"x86_64", "amd64"},
					       {"aarch64", "arm64"},
					       {"armv7l", "arm/v7"},
					       {"riscv64", "riscv64"}};
	struct utsname u;
	const char *machine = uname(&u) == 0 ? u.machine : "unknown";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(machine, names[i][0]) == 0)
			machine = names[i][1];
	snprintf(ret, 48, "linux/%.40s", machine);
}

static int check_platform(struct build *b, struct err *e)
{
	find_platform(b->platform);
	if (!b->o.platform || strcmp(b->o.platform, b->platform) == 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		       "images for %.40s cannot be built here (this is %s): programs of another "
		       "machine do not run",
		       b->o.platform, b->platform);
}

static int check_args(const struct build *b, struct err *e)
{
	for (size_t i = 0; b->o.args && b->o.args[i]; i++)
		if (!strchr(b->o.args[i], '=') || b->o.args[i][0] == '=')
			return err_set(e, ERR_INVALID, EINVAL,
				       "--build-arg is NAME=VALUE, not '%.80s'", b->o.args[i]);
	return 0;
}

static void note_unused(struct build *b)
{
	const char **unused = build_unused_args(&b->plan);
	char text[200];

	for (size_t i = 0; unused && unused[i] && b->o.on_event; i++) {
		snprintf(text, sizeof(text), "no ARG declares '%.*s' (--build-arg)",
			 (int)strcspn(unused[i], "="), unused[i]);
		b->o.on_event(b->o.arg,
			      &(struct cove_build_event){.type = COVE_BUILD_NOTE, .text = text});
	}
	free(unused);
}

static void note_ignored(struct build *b)
{
	char text[80];

	for (size_t i = 0; i < b->file.ignored_count && b->o.on_event; i++) {
		snprintf(text, sizeof(text), "line %u: HEALTHCHECK is not used by Cove",
			 b->file.ignored[i]);
		b->o.on_event(b->o.arg,
			      &(struct cove_build_event){.type = COVE_BUILD_NOTE, .text = text});
	}
}

/* ---- the call ---- */

static void done(struct build *b)
{
	for (size_t i = 0; i < b->item_count; i++) {
		build_step_done(&b->items[i].step);
		free(b->items[i].user);
		free(b->items[i].cwd);
	}
	free(b->items);
	for (size_t i = 0; b->stages && i < b->plan.count; i++) {
		struct build_made *m = &b->stages[i];

		build_words_done(&m->layers);
		build_config_done(&m->config);
		for (size_t k = 0; k < m->history_count; k++)
			free(m->history[k].by);
		free(m->history);
	}
	free(b->stages);
	if (b->leaves_nothing)
		layer_pins_close_unused(&b->cove->state, &b->cove->ids, &b->pins);
	else
		layer_pins_close(&b->cove->state, &b->cove->ids, &b->pins);
	build_secrets_done(&b->secrets);
	build_plan_done(&b->plan);
	dockerfile_done(&b->file);
	build_ignore_done(&b->ignore);
	free(b->text);
	build_context_done(b);
}

static int read_all(struct build *b, struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	int r = b->o.name ? image_name_clean(b->o.name, clean, e) : 0;

	if (r == 0 && b->o.name && strcmp(clean, IMAGE_HOST) == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "'" IMAGE_HOST "' is no name for an image");
	if (r == 0)
		r = check_args(b, e);
	if (r == 0)
		r = check_platform(b, e);
	if (r == 0)
		r = build_context_open(b, e);
	if (r == 0)
		r = read_dockerfile(b, e);
	if (r == 0)
		r = read_ignore(b, e);
	if (r == 0)
		r = build_secrets_init(&b->secrets, b->o.secrets, e);
	return r;
}

/* As much as a box may have, which each RUN is. What a key's quota counts is what boxes may use, so
 * nothing that is in none of its images stays for it, not even for a later build. */
static int find_bound(struct build *b, struct err *e)
{
	struct spec spec = {0};
	unsigned counted;
	int r = key_counted_limits(&b->cove->state, b->o.owner, &counted, e);

	core_spec_default_limits(&spec);
	b->bytes_max = b->o.disk_bytes ? b->o.disk_bytes : spec.limits[LIMIT_DISK];
	b->leaves_nothing = r == 0 && counted & 1u << LIMIT_DISK;
	return r;
}

static int build(struct build *b, struct cove_build_result *ret, struct err *e)
{
	struct cove *cove = b->cove;
	int r = find_bound(b, e);

	if (r == 0)
		r = read_all(b, e);
	if (r == 0)
		r = core_ids(cove, e);
	if (r == 0)
		r = state_make(&cove->state, e);
	if (r < 0)
		return r;
	core_sweep_seldom(cove);
	b->input = (struct build_input){
		.args = b->o.args, .target = b->o.target, .platform = b->platform};
	r = build_plan_init(&b->plan, &b->file, &b->input, e);
	if (r == 0)
		r = layer_pins_open(&cove->state, &b->pins, e);
	if (r == 0)
		r = build_resolve(b, e);
	if (r < 0)
		return r;
	note_unused(b);
	note_ignored(b);
	if (!b->o.no_cache)
		build_cache_find(b);
	r = build_steps_run(b, e);
	return r < 0 ? r : build_image_write(b, ret, e);
}

int cove_image_build(struct cove *cove, const struct cove_build_options *options,
		     struct cove_build_result *ret, struct cove_error *err)
{
	struct build b = {.cove = cove,
			  .context_fd = -1,
			  .unpacked = LAYER_NEW_NONE,
			  .pins = LAYER_PINS_NONE};
	struct err e = {0};
	int r = core_copy_sized(&b.o, sizeof(b.o), options, &e);

	if (r == 0)
		r = build(&b, ret, &e);
	done(&b);
	return core_return(cove, NULL, r, &e, err);
}
