/*
 * The keeper's configuration as text; see config.h. The keeper's own lines come first, then one
 * line `spec`, then the spec in its own form.
 */
#include "keeper/config.h"

#include "base/fd.h"
#include "base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { CONFIG_BYTES_MAX = SPEC_BYTES_MAX + 5 * BOX_PATH_MAX };

static const struct {
	const char *key;
	size_t offset;
} strings[] = {
	{"home", offsetof(struct keeper_config, home)},
	{"run", offsetof(struct keeper_config, run)},
	{"init_path", offsetof(struct keeper_config, init_path)},
	{"image_root", offsetof(struct keeper_config, image_root)},
	{"image_user", offsetof(struct keeper_config, image_user)},
};

enum { STRING_COUNT = sizeof(strings) / sizeof(strings[0]) };

static const char **string_at(const struct keeper_config *c, size_t i)
{
	return (const char **)((uintptr_t)c + strings[i].offset);
}

static int format(const struct keeper_config *c, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < STRING_COUNT && r == 0; i++)
		if (*string_at(c, i))
			r = lines_put(out, strings[i].key, *string_at(c, i));
	if (r == 0 && c->image_is_host)
		r = lines_put(out, "image_is_host", "1");
	if (r == 0)
		r = lines_put(out, "spec", "");
	return r == 0 ? spec_format(&c->spec, out) : r;
}

static int write_sealed(const struct buf *text, int *ret_fd)
{
	autoclose int fd = sys_memfd_create("cove-keeper-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return fd;
	r = fd_write_full(fd, buf_data(text), buf_len(text));
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

int keeper_config_write(const struct keeper_config *c, int *ret_fd, struct err *e)
{
	struct buf text;
	int r;

	buf_init(&text, CONFIG_BYTES_MAX);
	r = format(c, &text);
	if (r == 0)
		r = write_sealed(&text, ret_fd);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the keeper's configuration") : 0;
}

/* The whole file, from its beginning whatever was read or written through this descriptor
 * before. */
static int read_all(int fd, char **ret, size_t *ret_len)
{
	autofree char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || st.st_size > CONFIG_BYTES_MAX)
		return -EBADMSG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	n = pread(fd, text, (size_t)st.st_size, 0);
	if (n < 0)
		return -errno;
	if (n != st.st_size)
		return -EBADMSG;
	text[n] = 0;
	*ret = take_ptr(text);
	*ret_len = (size_t)n;
	return 0;
}

static int take_line(struct keeper_config *c, const char *key, const char *value)
{
	if (strcmp(key, "image_is_host") == 0) {
		c->image_is_host = true;
		return 0;
	}
	for (size_t i = 0; i < STRING_COUNT; i++)
		if (strcmp(key, strings[i].key) == 0 && !*string_at(c, i)) {
			*string_at(c, i) = value;
			return 0;
		}
	return -EBADMSG;
}

static int parse(struct keeper_config *c, size_t len, struct err *e)
{
	const char *key, *value;
	struct lines lines;
	int r;

	lines_init(&lines, c->text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0 && strcmp(key, "spec") != 0)
		if (take_line(c, key, value) < 0)
			return err_set(e, ERR_INTERNAL, EBADMSG, "the keeper does not know '%s'",
				       key);
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
	r = read_all(fd, &ret->text, &len);
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
