/* cove image: what boxes start from. Making the base image is in base_image.c. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/size.h"
#include "cli/base_image.h"
#include "cli/list.h"
#include "cli/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void row(struct table *t, const void *item)
{
	const struct cove_image_info *i = item;
	uint64_t now = clock_wall_ms();
	char text[SIZE_TEXT];

	table_cell(t, i->name);
	table_cellf(t, "%.12s", i->id);
	table_cell(t, i->user);
	table_cell(t, i->bytes ? size_format(text, i->bytes) : "");
	table_cell(t, i->created_ms && now > i->created_ms
			      ? text_duration(text, now - i->created_ms)
			      : "");
}

/* clang-format off */
#define A(name) FIELD_ALWAYS(cove_image_info, name)
#define K(name) FIELD_KNOWN(cove_image_info, name)
static const struct wire_named_field fields[] = {
	A(name), K(id), K(user), K(bytes), K(created_ms), {0}};
/* clang-format on */

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_images(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"NAME", "ID", "USER", "SIZE", "AGE"},
	.right = 1 << 3,
	.whole = 1 << 1 | 1 << 4,
	.empty = "no images; make one with `cove image make`",
	.size = sizeof(struct cove_image_info),
	.get = get,
	.row = row,
	.fields = fields,
};

/* The program that turns such a file into the plain tar we read, or NULL if it is none of these. */
static const char *unpacker_of(int fd)
{
	static const struct {
		unsigned char magic[4];
		size_t len;
		const char *program;
	} known[] = {{{0x1f, 0x8b}, 2, "gzip -dc"},
		     {{0xfd, '7', 'z', 'X'}, 4, "xz -dc"},
		     {{0x28, 0xb5, 0x2f, 0xfd}, 4, "zstd -dc"},
		     {{'B', 'Z', 'h'}, 3, "bzip2 -dc"}};
	unsigned char head[4] = {0};

	if (pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (memcmp(head, known[i].magic, known[i].len) == 0)
			return known[i].program;
	return NULL;
}

static int import(struct cli *c)
{
	const char *image = c->o.args[1], *file = c->o.args[2], *unpacker;
	bool is_stdin = strcmp(file, "-") == 0;
	autoclose int fd =
		is_stdin ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct cove_error err;
	struct watch w;
	unsigned events;
	int r;

	if (is_stdin && isatty(STDIN_FILENO))
		return cli_usage(c, "stdin is a terminal; pipe a tar into it");
	if (fd < 0)
		return cli_error(c, errno == ENOENT ? COVE_NOT_FOUND : COVE_DENIED,
				 "open '%.120s': %s", file, strerror(errno));
	unpacker = unpacker_of(fd);
	if (unpacker)
		return cli_error(c, COVE_UNSUPPORTED,
				 "'%.80s' is compressed; try: %s %.80s | cove image import %s -",
				 file, unpacker, is_stdin ? "FILE" : file, image);
	events = c->events;
	watch_start(&w, fd, is_stdin ? "stdin" : file);
	r = cove_image_import(c->cove, image, c->o.image_user, fd, &err);
	watch_stop(&w);
	if (r < 0)
		return cli_broken(c, &err);
	if (!c->o.json)
		cli_note("image '%s' is ready", image);
	return cli_done(c, image, "imported", events);
}

/* A first word that is an option of the builder leaves the name to the default. */
static int make(struct cli *c)
{
	bool has_name = c->o.arg_count > 1 && c->o.args[1][0] != '-';

	return base_image_make(c, has_name ? c->o.args[1] : "base", c->o.args + (has_name ? 2 : 1));
}

static int remove_one(struct cli *c, const char *image, struct cove_error *err)
{
	int r = cove_image_remove(c->cove, image, err);

	if (r == 0 && strcmp(image, "host") == 0 && !c->o.json)
		cli_note("image 'host' is always there: only what was kept for its boxes is gone");
	return r;
}

const struct verb verb_image = {
	.name = "image",
	.synopsis = "image ls|make|import|rm [NAME] [TAR]",
	.summary = "what boxes start from",
	.help = "ls      list images; 'host' (this machine's own programs) is always there\n"
		"make    build the base image, once: a small real Debian with python, node,\n"
		"        git and build tools; arguments after -- go to the builder\n"
		"import  make an image of a tar (a root filesystem, uncompressed, - for stdin)\n"
		"rm      remove images; boxes that use one keep it from being removed. Of 'host'\n"
		"        only what was kept for its boxes goes\n"
		"\n"
		"Examples\n"
		"  cove image make\n"
		"  cove image make tools -- --add vim-tiny,sqlite3\n"
		"  docker export $(docker create alpine) | cove image import alpine -\n",
	.options = (const enum opt_id[]){OPT_IMAGE_USER, OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.subs = (const struct verb[]){{.name = "ls", .synopsis = "image ls", .list = &form},
				      {.name = "make",
				       .synopsis = "image make [NAME]",
				       .args = {0, -1},
				       .run = make},
				      {.name = "import",
				       .synopsis = "image import NAME TAR|-",
				       .args = {2, 2},
				       .run = import},
				      {.name = "rm",
				       .synopsis = "image rm NAME...",
				       .args = {1, -1},
				       .each = remove_one,
				       .result = "removed"},
				      {0}},
};
