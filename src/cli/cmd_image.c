/* cove image: what boxes start from. Making the base image is in base_image.c. */
#include "base/clock.h"
#include "base/size.h"
#include "cli/base_image.h"
#include "cli/image_build.h"
#include "cli/list.h"
#include "core/view.h"

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
	.fields = view_image_fields,
};

/* A first word that is an option of the builder leaves the name to the default. */
static int make(struct cli *c)
{
	bool has_name = c->o.arg_count > 0 && c->o.args[0][0] != '-';
	const char *name = has_name ? c->o.args[0] : "base";

	/* Packages on top of 'base' are another image: that one is not replaced by the way. */
	if (!has_name && !c->o.build.suite && (c->o.build.from || c->o.build_packages.count > 0))
		return cli_usage(c, "with %s the new image needs a name: cove image make NAME ...",
				 c->o.build.from ? "--from" : "--add");
	if (c->o.build.from || c->o.build_packages.count > 0 || c->o.build.suite)
		return image_packages_make(c, name);
	return base_image_make(c, name, c->o.args + has_name);
}

static int remove_one(struct cli *c, const char *image, struct cove_error *err)
{
	int r = cove_image_remove(c->cove, image, err);

	if (r == 0 && strcmp(image, "host") == 0 && !c->o.json)
		cli_note("image 'host' is always there: only what was kept for its boxes is gone");
	return r;
}

static const struct verb image_ls = {
	.name = "image ls",
	.synopsis = "image ls",
	.summary = "list images",
	.help = "'host' (this machine's own programs) is always there.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.list = &form,
};

static const struct verb image_make = {
	.name = "image make",
	.here = true,
	.synopsis = "image make [NAME] [FLAGS] [-- BUILDER ARGUMENTS]",
	.summary = "build the base image, or add packages to an image",
	.help = "A small real Debian with python, node, git and build tools; arguments after --\n"
		"go to the builder. With --add, packages of an image's own distribution on top of\n"
		"it (--from, default 'base'), as one more layer, in seconds: apt-get runs in a\n"
		"box. With --suite the builder makes a whole new Debian instead.\n"
		"\n"
		"Examples\n"
		"  cove image make\n"
		"  cove image make tools --add vim-tiny,sqlite3\n"
		"  cove image make py --from debian:12 --add python3\n"
		"  cove image make tools -- --add vim-tiny,sqlite3\n",
	.options = (const enum opt_id[]){OPT_MAKE_ADD, OPT_MAKE_FROM, OPT_MAKE_SUITE, OPT_NET,
					 OPT_BUILD_PROGRESS, OPT_IMAGE_USER, OPTS_COMMON, OPT_END},
	.args = {0, -1},
	.run = make,
};

static const struct verb image_rm = {
	.name = "image rm",
	.synopsis = "image rm NAME...",
	.summary = "remove images",
	.help = "Boxes that use one keep it from being removed. Of 'host' only what was kept for\n"
		"its boxes goes.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = remove_one,
	.result = "removed",
};

static const struct verb *const verbs[] = {
	&image_ls,
	&verb_image_inspect,
	&verb_image_build,
	&image_make,
	&verb_image_import,
	&verb_image_export,
	&verb_image_pull,
	&verb_image_tag,
	&verb_image_history,
	&image_rm,
	&verb_image_gc,
	&verb_image_save,
	NULL,
};

static int run(struct cli *c)
{
	return cli_usage(c, "image has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_image = {
	.name = "image",
	.synopsis = "image ls|build|make|import|save|export|pull|inspect|history|tag|rm|gc ...",
	.summary = "what boxes start from",
	.help = "ls       list images; 'host' (this machine's own programs) is always there\n"
		"build    make an image from a Dockerfile\n"
		"make     build the base image, once: a small real Debian; or add packages\n"
		"import   make an image of an archive or a directory\n"
		"save     make an image of what a box has become\n"
		"export   write an image as an archive\n"
		"pull     fetch an image from a registry\n"
		"inspect  everything known about one: layers, settings, where it came from\n"
		"history  how it was made, step by step\n"
		"tag      a second name for an image\n"
		"rm       remove images\n"
		"gc       remove layers and blobs that nothing refers to\n"
		"\n"
		"`cove help image VERB` shows flags. A name is a reference as registries have\n"
		"them: python:3.12, ghcr.io/acme/agent; ':latest' may be left out.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
