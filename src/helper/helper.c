/* What the verbs of cove-store share; see helper.h. */
#include "helper/helper.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

const char *helper_find_str(struct helper *h, const char *key)
{
	return json_string_value(json_object_get(h->args, key));
}

int helper_str(struct helper *h, const char *key, const char **ret, struct err *e)
{
	*ret = helper_find_str(h, key);
	return *ret ? 0 : err_set(e, ERR_INVALID, EINVAL, "the request has no text '%s'", key);
}

uint64_t helper_u64(struct helper *h, const char *key, uint64_t otherwise)
{
	json_t *v = json_object_get(h->args, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
								: otherwise;
}

bool helper_bool(struct helper *h, const char *key)
{
	return json_is_true(json_object_get(h->args, key));
}

int helper_fd(struct helper *h, const char *name, int *ret, struct err *e)
{
	json_t *v = json_object_get(h->fds, name);
	int fd = json_is_integer(v) ? (int)json_integer_value(v) : -1;

	if (fd < 0 || fcntl(fd, F_GETFD) < 0)
		return err_set(e, ERR_INVALID, EBADF, "the request has no descriptor '%s'", name);
	*ret = fd;
	return 0;
}

static int put_answer(struct helper *h, const char *word, const char *text)
{
	struct buf line;
	int r;

	buf_init(&line, HELPER_ANSWER_MAX);
	r = text ? lines_put(&line, word, text) : -ENOMEM;
	if (r == 0)
		r = fd_write_full(h->out, buf_data(&line), buf_len(&line));
	buf_done(&line);
	return r;
}

int helper_progress(struct helper *h, struct buf *lines)
{
	return put_answer(h, "progress", buf_cstr(lines));
}

int helper_result(struct helper *h, const char *text, struct err *e)
{
	int r = put_answer(h, "result", text);

	return r < 0 ? err_errno(e, -r, "answer") : 0;
}

int helper_result_json(struct helper *h, json_t *value, struct err *e)
{
	autofree char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(value);
	return text ? helper_result(h, text, e) : err_errno(e, ENOMEM, "answer");
}
