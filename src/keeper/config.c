/*
 * The keeper's configuration as text; see config.h. The keeper's own lines come first, then one
 * line `spec`, then the spec in its own form.
 */
#include "keeper/config.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/locked.h"
#include "base/str.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
	CONFIG_BYTES_MAX = SPEC_BYTES_MAX + (10 + SPEC_LAYER_MAX) * BOX_PATH_MAX +
			   BUILD_SECRETS_MAX * (2 * BUILD_SECRET_MAX + BOX_PATH_MAX)
};

static const struct {
	const char *key;
	size_t offset;
} strings[] = {
	{"home", offsetof(struct keeper_config, home)},
	{"run", offsetof(struct keeper_config, run)},
	{"init_path", offsetof(struct keeper_config, init_path)},
	{"door_path", offsetof(struct keeper_config, door_path)},
	{"ctl_path", offsetof(struct keeper_config, ctl_path)},
	{"save_path", offsetof(struct keeper_config, save_path)},
	{"wall_program", offsetof(struct keeper_config, wall_program)},
	{"premade", offsetof(struct keeper_config, premade)},
};

enum { STRING_COUNT = sizeof(strings) / sizeof(strings[0]) };

static const char **string_at(const struct keeper_config *c, size_t i)
{
	return (const char **)((uintptr_t)c + strings[i].offset);
}

bool keeper_config_is_due(const struct keeper_config *c, enum limit_id id)
{
	const struct spec *s = &c->spec;

	return (c->counted | (s->best_effort ? 0 : s->limits_asked)) & 1u << id;
}

/* One secret: whose it is and where, then its bytes. */
static int put_secret(struct buf *text, const struct wall_secret *s)
{
	char *bytes = locked_alloc(4 * (s->len + 2) / 3 + 8);
	struct buf head;
	int r = bytes ? 0 : -ENOMEM;

	buf_init(&head, BOX_PATH_MAX + 64);
	if (r == 0)
		r = buf_printf(&head, "%u %u %u %s", s->mode, s->uid, s->gid, s->path);
	if (r == 0)
		r = buf_cstr(&head) ? lines_put(text, "secret", buf_cstr(&head)) : -ENOMEM;
	if (r == 0) {
		bytes[base64_encode(s->data, s->len, false, (uint8_t *)bytes)] = 0;
		r = lines_put(text, "secret_data", bytes);
	}
	buf_done(&head);
	locked_free(bytes);
	return r;
}

int keeper_config_write(const struct keeper_config *c, int *ret_fd, struct err *e)
{
	struct buf text;
	int r = 0;

	buf_init(&text, CONFIG_BYTES_MAX);
	if (c->secret_count > 0)
		r = buf_set_secret(&text, true);
	for (size_t i = 0; i < STRING_COUNT && r == 0; i++)
		if (*string_at(c, i))
			r = lines_put(&text, strings[i].key, *string_at(c, i));
	for (size_t i = 0; i < c->lower_count && r == 0; i++)
		r = lines_put(&text, "lower", c->lowers[i]);
	if (r == 0 && c->image_is_host)
		r = lines_put(&text, "image_is_host", "1");
	if (r == 0 && c->visit)
		r = lines_put(&text, "visit", "1");
	if (r == 0 && c->soon)
		r = lines_put(&text, "soon", "1");
	if (r == 0 && c->counted)
		r = lines_put_u64(&text, "counted", c->counted);
	for (size_t i = 0; i < c->secret_count && r == 0; i++)
		r = put_secret(&text, &c->secrets[i]);
	if (r == 0)
		r = lines_put(&text, "spec", "");
	if (r == 0)
		r = spec_format(&c->spec, &text);
	if (r == 0)
		r = fd_seal("cove-keeper-config", buf_data(&text), buf_len(&text), ret_fd);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the keeper's configuration") : 0;
}

/* In place: the bytes are fewer than their letters. */
static bool take_secret(struct keeper_config *c, const char *key, const char *value)
{
	struct wall_secret *s = &c->secrets[c->secret_count];
	char *bytes = (char *)(uintptr_t)value;
	ssize_t n;
	int at = 0;

	if (c->secret_count >= BUILD_SECRETS_MAX)
		return false;
	if (strcmp(key, "secret") == 0) {
		s->path = NULL;
		if (sscanf(value, "%u %u %u %n", &s->mode, &s->uid, &s->gid, &at) != 3 ||
		    value[at] != '/')
			return false;
		s->path = value + at;
		return true;
	}
	n = base64_decode(value, strlen(value), (uint8_t *)bytes);
	if (!s->path || n < 0)
		return false;
	s->data = bytes;
	s->len = (size_t)n;
	c->secret_count++;
	return true;
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
		if (strcmp(key, "lower") == 0 && c->lower_count < SPEC_LAYER_MAX) {
			c->lowers[c->lower_count++] = value;
			continue;
		}
		if (strcmp(key, "visit") == 0 || strcmp(key, "soon") == 0) {
			*(key[0] == 'v' ? &c->visit : &c->soon) = true;
			continue;
		}
		if (strcmp(key, "counted") == 0 && str_parse_u64(value, UINT64_MAX, &c->counted))
			continue;
		if ((strcmp(key, "secret") == 0 || strcmp(key, "secret_data") == 0) &&
		    take_secret(c, key, value))
			continue;
		while (i < STRING_COUNT && (strcmp(key, strings[i].key) != 0 || *string_at(c, i)))
			i++;
		if (i == STRING_COUNT)
			return err_set(e, ERR_INTERNAL, EBADMSG, "the keeper does not know '%s'",
				       key);
		*string_at(c, i) = value;
	}
	if (r <= 0 || !c->home || !c->run || !c->init_path || !c->lower_count)
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

void keeper_config_forget(struct keeper_config *c)
{
	for (size_t i = 0; i < c->secret_count; i++)
		explicit_bzero((void *)(uintptr_t)c->secrets[i].data, c->secrets[i].len);
	c->secret_count = 0;
}

void keeper_config_done(struct keeper_config *c)
{
	keeper_config_forget(c);
	free(c->text);
	*c = (struct keeper_config){0};
}
