/* `image make` with packages: a layer on top of an image, by apt-get in a box. */
#include "base/buf.h"
#include "base/fd.h"
#include "cli/base_image.h"
#include "cli/image_build.h"

#include <stdlib.h>
#include <string.h>

static bool is_package(const char *s, size_t n)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "+.-:=~";

	return n > 0 && s[0] != '-' && strspn(s, set) >= n;
}

/* All of them with a space before each. 0 or an exit status. */
static int add_packages(struct cli *c, struct buf *out)
{
	for (size_t i = 0; i < c->o.build_packages.count; i++) {
		const char *list = c->o.build_packages.items[i];

		for (;;) {
			size_t n = strcspn(list, ",");

			if (!is_package(list, n))
				return cli_usage(c, "'%.60s' is no list of packages (--add)", list);
			if (buf_printf(out, " %.*s", (int)n, list) < 0)
				return cli_usage(c, "there are too many packages");
			if (!list[n])
				break;
			list += n + 1;
		}
	}
	return 0;
}

/* Who commands of an image run as, so that it stays so. */
static int find_user(struct cli *c, const char *image, char ret[64])
{
	struct cove_image_info *list = NULL;
	struct cove_error err;
	int count = cove_images(c->cove, &list, &err);

	if (count < 0)
		return cli_fail(c, &err);
	ret[0] = 0;
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].name, image) == 0)
			strncat(ret, list[i].user, 63);
	free(list);
	return 0;
}

/* A whole new Debian is the builder's. */
static int make_suite(struct cli *c, const char *name)
{
	const char *args[16 + 2];
	size_t n = 0;

	if (c->o.build.from)
		return cli_usage(c, "--suite makes an image anew: leave out --from");
	args[n++] = "--suite";
	args[n++] = c->o.build.suite;
	for (size_t i = 0; i < c->o.build_packages.count; i++) {
		if (n + 3 > sizeof(args) / sizeof(args[0]))
			return cli_usage(c, "write the packages as one list: --add a,b,c");
		args[n++] = "--add";
		args[n++] = c->o.build_packages.items[i];
	}
	args[n] = NULL;
	return base_image_make(c, name, args);
}

int image_packages_make(struct cli *c, const char *name)
{
	const char *from = c->o.build.from ? c->o.build.from : "base";
	struct cove_build_options options = {.name = name};
	struct buf text, packages;
	char user[64];
	int r;

	if (c->o.build.suite)
		return make_suite(c, name);
	if (c->o.build_packages.count == 0)
		return cli_usage(c, "--from needs packages: --add PKG,...");
	if (c->o.arg_count > 1)
		return cli_usage(c, "arguments of the builder do not go with --add and --from");
	buf_init(&text, 64 << 10);
	buf_init(&packages, 32 << 10);
	r = add_packages(c, &packages);
	if (r == 0)
		r = find_user(c, from, user);
	if (r == 0 &&
	    buf_printf(&text,
		       "FROM %s\nUSER root\nRUN export DEBIAN_FRONTEND=noninteractive; "
		       "apt-get update && apt-get install -y --no-install-recommends%s && "
		       "apt-get clean && rm -rf /var/lib/apt/lists/*\nUSER %s\n",
		       from, buf_cstr(&packages), user[0] ? user : "root") < 0)
		r = cli_usage(c, "there are too many packages");
	options.text = r ? NULL : buf_cstr(&text);
	if (r == 0)
		r = image_build_run(c, &options);
	buf_done(&text);
	buf_done(&packages);
	return r;
}
