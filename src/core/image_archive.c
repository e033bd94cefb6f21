/* Images from and to archives: libcove's side. The work is cove-store's (helper/verb_import.c). */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "core/core.h"
#include "core/helper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct archive_call {
	bool (*on_progress)(void *arg, const struct cove_image_progress *p);
	void *arg;
};

static bool on_progress(void *arg, char *text, size_t len)
{
	const struct archive_call *call = arg;
	struct cove_image_progress p = {.what = ""};
	const char *key, *value;
	struct lines l;

	lines_init(&l, text, len);
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "what") == 0)
			p.what = value;
		else if (strcmp(key, "done") == 0)
			str_parse_u64(value, UINT64_MAX, &p.done);
		else if (strcmp(key, "total") == 0)
			str_parse_u64(value, UINT64_MAX, &p.total);
	}
	return !call->on_progress || call->on_progress(call->arg, &p);
}

/* ---- import ---- */

static void take_digest(char ret[72], const char *value)
{
	if (*value)
		snprintf(ret, 72, "sha256:%.64s", value);
}

static void take_image(struct cove_imported *im, const char *text)
{
	autofree char *copy = strdup(text);
	const char *key, *value;
	struct lines l;

	if (!copy)
		return;
	lines_init(&l, copy, strlen(copy));
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "name") == 0)
			str_copy(im->name, sizeof(im->name), value);
		else if (strcmp(key, "id") == 0)
			str_copy(im->id, sizeof(im->id), value);
		else if (strcmp(key, "digest") == 0)
			take_digest(im->digest, value);
		else if (strcmp(key, "config") == 0)
			take_digest(im->config, value);
		else if (strcmp(key, "bytes") == 0)
			str_parse_u64(value, UINT64_MAX, &im->bytes);
		else if (strcmp(key, "layers") == 0)
			str_parse_u64(value, UINT64_MAX, &im->layers);
	}
}

static int take_images(char *text, struct cove_imported **ret, struct err *e)
{
	struct cove_imported *list = NULL;
	const char *key, *value;
	struct lines l;
	int count = 0;

	lines_init(&l, text, strlen(text));
	while (lines_next(&l, &key, &value) > 0) {
		struct cove_imported *more;

		if (strcmp(key, "image") != 0)
			continue;
		more = reallocarray(list, (size_t)count + 1, sizeof(*list));
		if (!more) {
			free(list);
			return err_errno(e, ENOMEM, "import an image");
		}
		list = more;
		memset(&list[count], 0, sizeof(*list));
		take_image(&list[count++], value);
	}
	*ret = list;
	return count;
}

static int import(struct cove *cove, const struct cove_image_source *from,
		  struct cove_imported **ret, struct err *e)
{
	const struct helper_fd fds[] = {{"source", from->fd}, {"cancel", from->cancel_fd}};
	struct archive_call mine = {from->on_progress, from->arg};
	struct helper_call call = {.verb = "import",
				   .fds = fds,
				   .fd_count = from->cancel_fd > 0 ? 2 : 1,
				   .on_progress = on_progress,
				   .arg = &mine};
	autofree char *text = NULL;
	struct buf args;
	struct json j;
	int r;

	buf_init(&args, HELPER_REQUEST_MAX / 2);
	json_init(&j, &args);
	json_object_begin(&j);
	json_kv_str(&j, "name", from->name);
	json_kv_str(&j, "base", from->base);
	json_kv_str(&j, "user", from->user);
	json_kv_str(&j, "source", from->source);
	json_kv_str(&j, "platform", from->platform);
	json_kv_u64(&j, "max_size", from->max_size);
	json_object_end(&j);
	call.args = j.error ? NULL : buf_cstr(&args);
	r = call.args ? helper_run(cove, &call, &text, e) : err_errno(e, ENOMEM, "import an image");
	buf_done(&args);
	return r < 0 ? r : take_images(text, ret, e);
}

int cove_image_import_any(struct cove *cove, const struct cove_image_source *from,
			  struct cove_imported **ret, struct cove_error *err)
{
	struct cove_image_source options = {0};
	struct err e = {0};
	int r = core_copy_sized(&options, sizeof(options), from, &e);

	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = import(cove, &options, ret, &e);
	return core_return(cove, NULL, r, &e, err);
}

/* ---- export ---- */

static void take_exported(char *text, struct cove_exported *ret)
{
	const char *key, *value;
	struct lines l;
	uint64_t n = 0;

	lines_init(&l, text, strlen(text));
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "digest") == 0)
			take_digest(ret->digest, value);
		else if (strcmp(key, "config") == 0)
			take_digest(ret->config, value);
		else if (strcmp(key, "bytes") == 0)
			str_parse_u64(value, UINT64_MAX, &ret->bytes);
		else if (strcmp(key, "original") == 0)
			ret->is_original = str_parse_u64(value, 1, &n) && n == 1;
	}
}

static int export(struct cove *cove, const char *name, const struct cove_image_target *to,
		  struct cove_exported *ret, struct err *e)
{
	const struct helper_fd fds[] = {{"out", to->fd}};
	struct archive_call mine = {to->on_progress, to->arg};
	struct helper_call call = {.verb = "export",
				   .fds = fds,
				   .fd_count = 1,
				   .cancel_fd = to->cancel_fd,
				   .on_progress = on_progress,
				   .arg = &mine};
	autofree char *text = NULL;
	struct buf args;
	struct json j;
	int r;

	buf_init(&args, HELPER_REQUEST_MAX / 2);
	json_init(&j, &args);
	json_object_begin(&j);
	json_kv_str(&j, "image", name);
	json_kv_str(&j, "format", to->format ? to->format : "oci");
	json_object_end(&j);
	call.args = j.error ? NULL : buf_cstr(&args);
	r = call.args ? helper_run(cove, &call, &text, e) : err_errno(e, ENOMEM, "export an image");
	buf_done(&args);
	if (r == 0)
		take_exported(text, ret);
	return r;
}

int cove_image_export(struct cove *cove, const char *name, const struct cove_image_target *to,
		      struct cove_exported *ret, struct cove_error *err)
{
	struct cove_image_target options = {0};
	struct cove_exported out = {0};
	struct err e = {0};
	int r = core_copy_sized(&options, sizeof(options), to, &e);

	if (r == 0)
		r = export(cove, name, &options, &out, &e);
	if (r == 0 && ret) {
		out.size = ret->size;
		memcpy(ret, &out, ret->size < sizeof(out) ? ret->size : sizeof(out));
	}
	return core_return(cove, NULL, r, &e, err);
}
