/* The door's configuration as text; see config.h. */
#include "door/config.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = 4 * BOX_PATH_MAX };

static const struct {
	const char *key;
	size_t offset;
	bool is_number;
} fields[] = {
	{"home", offsetof(struct door_config, home), false},
	{"box", offsetof(struct door_config, box), false},
	{"owner", offsetof(struct door_config, owner), false},
	{"policy", offsetof(struct door_config, policy), false},
	{"ca", offsetof(struct door_config, ca), false},
	{"created_ms", offsetof(struct door_config, created_ms), true},
	{"bytes_max", offsetof(struct door_config, bytes_max), true},
	{"conns_max", offsetof(struct door_config, conns_max), true},
	{"bytes_used", offsetof(struct door_config, bytes_used), true},
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static void *field_at(const struct door_config *c, size_t i)
{
	return (void *)((uintptr_t)c + fields[i].offset);
}

int door_config_write(const struct door_config *c, int *ret_fd, struct err *e)
{
	struct buf text;
	int r = 0;

	buf_init(&text, CONFIG_BYTES_MAX);
	for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
		const char *const *word = field_at(c, i);
		const uint64_t *number = field_at(c, i);

		if (fields[i].is_number)
			r = lines_put_u64(&text, fields[i].key, *number);
		else if (*word)
			r = lines_put(&text, fields[i].key, *word);
	}
	if (r == 0)
		r = fd_seal("cove-door-config", buf_data(&text), buf_len(&text), ret_fd);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the door's configuration") : 0;
}

int door_config_read(struct door_config *ret, int fd, struct err *e)
{
	const char *key, *value;
	struct lines lines;
	size_t len = 0;
	int r;

	*ret = (struct door_config){0};
	r = fd_read_sealed(fd, CONFIG_BYTES_MAX, &ret->text, &len);
	if (r < 0)
		return err_errno(e, -r, "read the door's configuration");
	lines_init(&lines, ret->text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		size_t i = 0;

		while (i < FIELD_COUNT && strcmp(key, fields[i].key) != 0)
			i++;
		if (i == FIELD_COUNT ||
		    (fields[i].is_number && !str_parse_u64(value, UINT64_MAX, field_at(ret, i))))
			break;
		if (!fields[i].is_number)
			*(const char **)field_at(ret, i) = value;
	}
	if (r == 0 && ret->home && ret->box && ret->policy)
		return 0;
	door_config_done(ret);
	return err_set(e, ERR_INTERNAL, EBADMSG, "the door's configuration is not understood");
}

void door_config_done(struct door_config *c)
{
	free(c->text);
	*c = (struct door_config){0};
}
