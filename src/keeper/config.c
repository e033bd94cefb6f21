/*
 * The keeper's configuration as text; see config.h. The keeper's own lines come first, then one
 * line `spec`, then the spec in its own form.
 */
#include "keeper/config.h"

#include "base/fd.h"
#include "base/lines.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = SPEC_BYTES_MAX + 7 * BOX_PATH_MAX };

static const struct {
	const char *key;
	size_t offset;
} strings[] = {
	{"home", offsetof(struct keeper_config, home)},
	{"run", offsetof(struct keeper_config, run)},
	{"init_path", offsetof(struct keeper_config, init_path)},
	{"door_path", offsetof(struct keeper_config, door_path)},
	{"image_root", offsetof(struct keeper_config, image_root)},
	{"wall_program", offsetof(struct keeper_config, wall_program)},
	{"image_user", offsetof(struct keeper_config, image_user)},
};

enum { STRING_COUNT = sizeof(strings) / sizeof(strings[0]) };

static const char **string_at(const struct keeper_config *c, size_t i)
{
	return (const char **)((uintptr_t)c + strings[i].offset);
}

int keeper_config_write(const struct keeper_config *c, int *ret_fd, struct err *e)
{
	struct buf text;
	int r = 0;

	buf_init(&text, CONFIG_BYTES_MAX);
	for (size_t i = 0; i < STRING_COUNT && r == 0; i++)
		if (*string_at(c, i))
			r = lines_put(&text, strings[i].key, *string_at(c, i));
	if (r == 0 && c->image_is_host)
		r = lines_put(&text, "image_is_host", "1");
	if (r == 0 && c->visit)
		r = lines_put(&text, "visit", "1");
	if (r == 0)
		r = lines_put(&text, "spec", "");
	if (r == 0)
		r = spec_format(&c->spec, &text);
	if (r == 0)
		r = fd_seal("cove-keeper-config", buf_data(&text), buf_len(&text), ret_fd);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the keeper's configuration") : 0;
}

static int parse(struct keeper_config *c, size_t len, struct err *e)
{
	const char *key, *value;
	struct lines lines;
	int r;

	lines_init(&lines, c->text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0 && strcmp(key, "spec") != 0) {
		size_t i = 0;

		if (strcmp(key, "image_is_host") == 0) {
			c->image_is_host = true;
			continue;
		}
		if (strcmp(key, "visit") == 0) {
			c->visit = true;
			continue;
		}
		while (i < STRING_COUNT && (strcmp(key, strings[i].key) != 0 || *string_at(c, i)))
			i++;
		if (i == STRING_COUNT)
			return err_set(e, ERR_INTERNAL, EBADMSG, "the keeper does not know '%s'",
				       key);
		*string_at(c, i) = value;
	}
	if (r <= 0 || !c->home || !c->run || !c->init_path || !c->image_root)
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "the keeper's configuration is incomplete");
	return spec_parse(&c->spec, lines.next, len - (size_t)(lines.next - c->text), e);
}

int keeper_config_read(struct keeper_config *ret, int fd, struct err *e)
{
	size_t len = 0;
	int r;

	*ret = (struct keeper_config){0};
	r = fd_read_sealed(fd, CONFIG_BYTES_MAX, &ret->text, &len);
	if (r < 0)
		return err_errno(e, -r, "read the keeper's configuration");
	r = parse(ret, len, e);
	if (r < 0)
		keeper_config_done(ret);
	return r;
}

void keeper_config_done(struct keeper_config *c)
{
	free(c->text);
	*c = (struct keeper_config){0};
}
