/* cove image import and export: images from and to files and directories. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/cancel.h"
#include "cli/cli.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOW_AFTER_MS = 1000, SIGNAL_STATUS = 128 };

struct archive_view {
	bool on_terminal, is_shown;
	uint64_t started_ms;
};

/* ---- what is shown meanwhile ---- */

static bool on_progress(void *arg, const struct cove_image_progress *p)
{
	struct archive_view *v = arg;
	char line[160], done[SIZE_TEXT];
	const char *verb = strcmp(p->what, "write") == 0 ? "writing" : "unpacking";
	int n;

	if (!v->on_terminal || clock_mono_ms() - v->started_ms < SHOW_AFTER_MS)
		return true;
	if (p->total > 0 && p->done < p->total)
		n = snprintf(line, sizeof(line), "\r  %s  %3u %%\033[K", verb,
			     (unsigned)(p->done * 100 / p->total));
	else if (p->total > 0)
		n = snprintf(line, sizeof(line), "\r  waiting for the disk\033[K");
	else
		n = snprintf(line, sizeof(line), "\r  %s  %s\033[K", verb,
			     size_format(done, p->done));
	v->is_shown = true;
	(void)fd_write_full(STDERR_FILENO, line, (size_t)n);
	return true;
}

static struct archive_view view_begin(const struct cli *c)
{
	return (struct archive_view){.on_terminal = isatty(STDERR_FILENO) && !c->o.json,
				     .started_ms = clock_mono_ms()};
}

static void view_end(const struct archive_view *v)
{
	if (v->is_shown)
		(void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
}

/* ---- import ---- */

/* What a file's own name makes of an image's: "dist/My App.tar.gz" is my-app. Empty: nothing. */
static void name_of_file(const char *path, char ret[256])
{
	static const char *const ends[] = {".gz",  ".xz",  ".zst", ".bz2",
					   ".tgz", ".txz", ".tar", ".oci"};
	char text[256];
	size_t n, out = 0;

	ret[0] = 0;
	if (!str_copy(text, sizeof(text), path))
		return;
	for (n = strlen(text); n > 0 && text[n - 1] == '/'; n--)
		text[n - 1] = 0;
	path = strrchr(text, '/') ? strrchr(text, '/') + 1 : text;
	n = strlen(path);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t len = strlen(ends[i]);

		if (n > len && strncasecmp(path + n - len, ends[i], len) == 0)
			n -= len;
	}
	for (size_t i = 0; i < n; i++) {
		bool plain = isalnum((unsigned char)path[i]) != 0;

		/* Signs only between letters and digits, one at a time. */
		if (plain)
			ret[out++] = (char)tolower((unsigned char)path[i]);
		else if (out > 0 && isalnum((unsigned char)ret[out - 1]) && i + 1 < n)
			ret[out++] = strchr("._", path[i]) ? path[i] : '-';
	}
	while (out > 0 && !isalnum((unsigned char)ret[out - 1]))
		out--;
	ret[out] = 0;
}

static void put_imported(struct json *j, const struct cove_imported *im)
{
	json_kv_str(j, "name", im->name);
	json_kv_str(j, "result", "imported");
	json_kv_str(j, "id", im->id);
	json_kv_str(j, "digest", im->digest[0] ? im->digest : NULL);
	json_kv_str(j, "config", im->config[0] ? im->config : NULL);
	json_kv_u64(j, "layers", im->layers);
	json_kv_u64(j, "bytes", im->bytes);
}

/* One object for each image. */
static int say_imported(struct cli *c, const struct cove_imported *list, int count, unsigned events)
{
	struct cli_object o;
	char text[SIZE_TEXT];
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		if (!c->o.json) {
			cli_note("image '%s' is ready: %llu layer%s, %s", list[i].name,
				 (unsigned long long)list[i].layers, list[i].layers == 1 ? "" : "s",
				 size_format(text, list[i].bytes));
			r = cli_done(c, list[i].name, "imported", events);
			continue;
		}
		put_imported(cli_object_begin(&o), &list[i]);
		r = cli_object_end(c, &o);
	}
	return r;
}

static int import_from(struct cli *c, const char *name, const char *file, int fd)
{
	struct archive_view v = view_begin(c);
	struct cove_imported *list = NULL;
	char base[256] = "", *full = NULL;
	bool is_stdin = strcmp(file, "-") == 0;
	struct cove_image_source from = {.size = sizeof(from),
					 .fd = fd,
					 .name = name,
					 .user = c->o.image_user,
					 .platform = c->o.platform,
					 .max_size = c->o.max_size,
					 .cancel_fd = cancel_catch(),
					 .on_progress = on_progress,
					 .arg = &v};
	unsigned events = c->events;
	struct cove_error err;
	int r;

	if (!is_stdin) {
		name_of_file(file, base);
		full = realpath(file, NULL);
	}
	from.base = base[0] ? base : NULL;
	from.source = full;
	r = cove_image_import_any(c->cove, &from, &list, &err);
	view_end(&v);
	free(full);
	if (r < 0 && cancel_signal()) {
		cli_note("interrupted; there is no new image, and nothing is left of it");
		return SIGNAL_STATUS + cancel_signal();
	}
	if (r < 0)
		return cli_broken(c, &err);
	r = say_imported(c, list, r, events);
	free(list);
	return r;
}

static int import(struct cli *c)
{
	bool has_name = c->o.arg_count > 1;
	const char *file = c->o.args[has_name];
	bool is_stdin = strcmp(file, "-") == 0;

	if (has_name && c->o.image_name)
		return cli_usage(c, "the image has two names: '%.60s' and --name '%.60s'",
				 c->o.args[0], c->o.image_name);
	if (is_stdin && isatty(STDIN_FILENO))
		return cli_usage(c, "stdin is a terminal; pipe a tar into it");
	autoclose int fd =
		is_stdin ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		int code = errno;
		bool is_swapped = has_name && code == ENOENT && access(c->o.args[0], F_OK) == 0;

		return cli_error(c, code == ENOENT ? COVE_NOT_FOUND : COVE_DENIED,
				 "open '%.120s': %s%s", file, strerror(code),
				 is_swapped ? " (the name comes first, then the file)" : "");
	}
	return import_from(c, has_name ? c->o.args[0] : c->o.image_name, file, fd);
}

const struct verb verb_image_import = {
	.name = "image import",
	.synopsis = "image import [NAME] FILE|DIR|-",
	.summary = "make an image of an archive or a directory",
	.help = "What it is, its content says:\n"
		"  a root filesystem: a tar, plain or compressed (gzip, xz, zstd, bzip2), or a\n"
		"  directory; an OCI layout, as a tar or a directory; what docker save writes.\n"
		"- reads stdin. Without a name an image is called as the archive calls it, or as\n"
		"the file. Images that come with digests keep their bytes: 'image export' gives\n"
		"them back as they were.\n"
		"\n"
		"Examples\n"
		"  cove image import tools rootfs.tar.xz\n"
		"  docker save app:2 | cove image import -\n"
		"  skopeo copy docker://debian:12 oci:debian && cove image import debian\n"
		"  docker export $(docker create alpine) | cove image import alpine -\n",
	.options = (const enum opt_id[]){OPT_IMPORT_NAME, OPT_IMAGE_USER, OPT_PLATFORM,
					 OPT_MAX_SIZE, OPTS_COMMON, OPT_END},
	.args = {1, 2},
	.run = import,
};

/* ---- export ---- */

/* Where it is written until it is whole: a file without a name beside its place where the file
 * system has such, else something with a name of its own. */
struct target {
	int fd, dir_fd; /* owned */
	const char *name;
	char temporary[64];	/* beside it; "" where there is none */
	bool is_dir, is_direct; /* direct: stdout, a device or a pipe, written as it is */
	bool is_own; /* an empty directory of the user's, written into and never removed */
};

/* Of a layout that we were writing: what can be in it. */
static void clear_layout(int fd)
{
	static const char *const names[] = {"oci-layout", "index.json", "manifest.json"};
	int blobs = openat(fd, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = blobs < 0 ? NULL : fdopendir(blobs);
	struct dirent *d;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(fd, names[i], 0);
	while (dir && (d = readdir(dir)))
		unlinkat(blobs, d->d_name, 0);
	if (dir)
		closedir(dir);
	if (unlinkat(fd, "blobs/sha256", AT_REMOVEDIR) == 0 || errno == ENOENT)
		unlinkat(fd, "blobs", AT_REMOVEDIR);
}

static void target_done(struct target *t)
{
	if (t->is_dir && t->fd >= 0 && (t->temporary[0] || t->is_own))
		clear_layout(t->fd);
	if (t->temporary[0])
		unlinkat(t->dir_fd, t->temporary, t->is_dir ? AT_REMOVEDIR : 0);
	fd_close(&t->fd);
	fd_close(&t->dir_fd);
}

static void make_temporary(struct target *t)
{
	char token[17];

	rand_hex(token, 8);
	snprintf(t->temporary, sizeof(t->temporary), ".cove-export-%s", token);
}

static int check_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;
	int r = dir ? 0 : -errno;

	while (dir && r == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = -ENOTEMPTY;
	if (dir)
		closedir(dir);
	else
		fd_close(&copy);
	return r;
}

/* One that is there is the user's, perhaps a mount point: if it is empty it is written into, and
 * it stays whatever comes. Else a new one beside the place, until it is whole. */
static int open_dir_target(struct target *t)
{
	autoclose int fd = openat(t->dir_fd, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code;

	if (fd < 0 && errno != ENOENT)
		return -errno;
	if (fd >= 0) {
		int r = check_empty(fd);

		if (r < 0)
			return r;
		t->is_own = true;
		t->fd = take_fd(fd);
		return 0;
	}
	make_temporary(t);
	if (mkdirat(t->dir_fd, t->temporary, 0777) < 0) {
		code = errno;
		t->temporary[0] = 0;
		return -code;
	}
	t->fd = openat(t->dir_fd, t->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->fd < 0 ? -errno : 0;
}

static int open_file_target(struct target *t)
{
	struct stat st;

	if (fstatat(t->dir_fd, t->name, &st, 0) == 0 && !S_ISREG(st.st_mode)) {
		t->is_direct = true;
		t->fd = openat(t->dir_fd, t->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return t->fd < 0 ? -errno : 0;
	}
	t->fd = openat(t->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (t->fd >= 0)
		return 0;
	make_temporary(t);
	t->fd = openat(t->dir_fd, t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (t->fd < 0)
		t->temporary[0] = 0;
	return t->fd < 0 ? -errno : 0;
}

/* path is cut into the directory and the name in it; it is the caller's to keep. */
static int target_open(struct target *t, char *path)
{
	char *slash;

	if (strcmp(path, "-") == 0) {
		t->is_direct = true;
		t->fd = dup(STDOUT_FILENO);
		return t->fd < 0 ? -errno : 0;
	}
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	slash = strrchr(path, '/');
	t->name = slash ? slash + 1 : path;
	if (slash)
		*slash = 0;
	t->dir_fd = open(!slash ? "." : *path ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir_fd < 0)
		return -errno;
	return t->is_dir ? open_dir_target(t) : open_file_target(t);
}

/* It is whole: gives it its name. */
static int target_keep(struct target *t)
{
	char path[32];

	if (t->is_direct)
		return 0;
	/* Of a directory also those below it, which are not synced yet. */
	if ((t->is_dir ? syncfs(t->fd) : fsync(t->fd)) < 0)
		return -errno;
	if (t->is_own) {
		t->is_own = false; /* nothing is to be taken back any more */
		return 0;
	}
	if (!t->temporary[0]) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
		if (linkat(AT_FDCWD, path, t->dir_fd, t->name, AT_SYMLINK_FOLLOW) == 0)
			return fsync(t->dir_fd) < 0 ? -errno : 0;
		if (errno != EEXIST)
			return -errno;
		make_temporary(t);
		if (linkat(AT_FDCWD, path, t->dir_fd, t->temporary, AT_SYMLINK_FOLLOW) < 0)
			return -errno;
	}
	if (renameat(t->dir_fd, t->temporary, t->dir_fd, t->name) < 0)
		return -errno;
	t->temporary[0] = 0;
	return fsync(t->dir_fd) < 0 ? -errno : 0;
}

static int say_exported(struct cli *c, const struct cove_exported *got, const char *format)
{
	struct cli_object o;
	char text[SIZE_TEXT];
	struct json *j;

	if (strcmp(c->o.args[1], "-") == 0 && !c->o.json)
		return 0;
	if (!c->o.json) {
		cli_note("image '%s' is in '%.120s': %s%s", c->o.args[0], c->o.args[1],
			 size_format(text, got->bytes), got->is_original ? ", as it came" : "");
		return 0;
	}
	/* stdout is the archive's then. */
	if (strcmp(c->o.args[1], "-") == 0)
		return 0;
	j = cli_object_begin(&o);
	json_kv_str(j, "name", c->o.args[0]);
	json_kv_str(j, "result", "exported");
	json_kv_str(j, "format", format);
	json_kv_str(j, "digest", got->digest[0] ? got->digest : NULL);
	json_kv_str(j, "config", got->config[0] ? got->config : NULL);
	json_kv_bool(j, "original", got->is_original);
	json_kv_u64(j, "bytes", got->bytes);
	return cli_object_end(c, &o);
}

static int export_to(struct cli *c, struct target *t, const char *format)
{
	struct archive_view v = view_begin(c);
	struct cove_exported got = {.size = sizeof(got)};
	struct cove_image_target to = {.size = sizeof(to),
				       .fd = t->fd,
				       .format = format,
				       .cancel_fd = cancel_catch(),
				       .on_progress = on_progress,
				       .arg = &v};
	struct cove_error err;
	int r = cove_image_export(c->cove, c->o.args[0], &to, &got, &err);

	view_end(&v);
	if (r < 0 && cancel_signal()) {
		cli_note("interrupted; nothing was written to '%.120s'", c->o.args[1]);
		return SIGNAL_STATUS + cancel_signal();
	}
	if (r < 0)
		return cli_broken(c, &err);
	r = target_keep(t);
	if (r < 0)
		return cli_error(c, COVE_INTERNAL, "write '%.120s': %s", c->o.args[1],
				 strerror(-r));
	return say_exported(c, &got, format);
}

static int export(struct cli *c)
{
	static const char *const formats[] = {"oci", "oci-dir", "docker", "tar"};
	struct target t = {.fd = -1, .dir_fd = -1};
	const char *path = c->o.args[1], *format = c->o.format;
	bool is_stdout = strcmp(path, "-") == 0, known = !format;
	autofree char *copy = strdup(path);
	struct stat st;
	int r;

	if (!copy)
		return cli_error(c, COVE_INTERNAL, "out of memory");
	if (!format && !is_stdout && *path &&
	    ((stat(path, &st) == 0 && S_ISDIR(st.st_mode)) || path[strlen(path) - 1] == '/'))
		format = "oci-dir";
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		known = known || strcmp(formats[i], format) == 0;
	format = format ? format : "oci";
	t.is_dir = strcmp(format, "oci-dir") == 0;
	if (!known || (t.is_dir && is_stdout))
		return cli_usage(c, known ? "a directory cannot be written to stdout"
					  : "--format is oci, oci-dir, docker or tar");
	if (is_stdout && isatty(STDOUT_FILENO))
		return cli_usage(c, "stdout is a terminal; give a file, or pipe it on");
	r = target_open(&t, copy);
	if (r < 0)
		r = cli_error(c, r == -ENOENT ? COVE_NOT_FOUND : COVE_DENIED,
			      r == -ENOTEMPTY ? "'%.120s' is there and not empty"
					      : "write '%.120s': %s",
			      path, strerror(-r));
	else
		r = export_to(c, &t, format);
	target_done(&t);
	return r;
}

const struct verb verb_image_export = {
	.name = "image export",
	.synopsis = "image export NAME FILE|DIR|-",
	.summary = "write an image as an archive",
	.help = "An image that came with digests (from a registry, an OCI layout, docker save) is\n"
		"given back byte for byte. Others are packed, always alike: the same image has\n"
		"the same digests wherever it is exported.\n"
		"\n"
		"Formats\n"
		"  oci      a tar of an OCI layout: skopeo, podman, buildah, umoci, Cove\n"
		"  oci-dir  the layout as a directory; the default where DIR is one\n"
		"  docker   the same tar, with what docker load reads\n"
		"  tar      the root filesystem as a box sees it, without layers\n"
		"\n"
		"Examples\n"
		"  cove image export app app.tar\n"
		"  cove image export app - --format docker | docker load\n"
		"  cove image export base - --format tar | tar -t\n",
	.options = (const enum opt_id[]){OPT_FORMAT, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = export,
};
