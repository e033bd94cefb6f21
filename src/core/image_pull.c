/* Pulling an image: libcove's side. The work is cove-store's (helper/verb_pull.c). */
#include "base/json.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "core/core.h"
#include "core/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pull_call {
	const struct cove_pull *how;
};

/* One of the helper's lines: a number, or one that says yes. */
static void read_number(struct cove_pull_progress *p, const char *key, const char *value)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{"have", &p->have},	    {"size", &p->size},
		{"layers", &p->layers},	    {"layers_done", &p->layers_done},
		{"all_have", &p->all_have}, {"all_size", &p->all_size},
		{"fetched", &p->fetched},
	};
	uint64_t n;

	if (!str_parse_u64(value, UINT64_MAX, &n))
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(numbers[i].key, key) == 0)
			*numbers[i].to = n;
	if (strcmp(key, "unpacking") == 0)
		p->is_unpacking = n > 0;
	else if (strcmp(key, "done") == 0)
		p->is_done = n > 0;
	else if (strcmp(key, "there") == 0)
		p->was_there = n > 0;
}

static bool on_progress(void *arg, char *text, size_t len)
{
	const struct cove_pull *how = ((struct pull_call *)arg)->how;
	struct cove_pull_progress p = {.size_of_this = sizeof(p)};
	const char *key, *value;
	struct lines l;

	lines_init(&l, text, len);
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "layer") == 0)
			p.layer = value;
		else
			read_number(&p, key, value);
	}
	return !how->on_progress || how->on_progress(how->arg, &p);
}

static void read_result(char *text, struct cove_pulled *ret)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {{"bytes", &ret->bytes},
		       {"fetched", &ret->fetched},
		       {"layers", &ret->layers},
		       {"layers_there", &ret->layers_there}};
	const char *key, *value;
	struct lines l;

	lines_init(&l, text, strlen(text));
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "image") == 0)
			str_copy(ret->image, sizeof(ret->image), value);
		else if (strcmp(key, "digest") == 0)
			str_copy(ret->digest, sizeof(ret->digest), value);
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			if (strcmp(numbers[i].key, key) == 0)
				str_parse_u64(value, UINT64_MAX, numbers[i].to);
	}
}

/* The environment goes along: logins and proxies are found by it, and a credential helper needs its
 * own variables. */
static int put_args(struct buf *b, const char *ref, const struct cove_pull *how)
{
	const char *const *env = how->env ? how->env : (const char *const *)(uintptr_t)environ;
	struct json j;

	json_init(&j, b);
	json_object_begin(&j);
	json_kv_str(&j, "ref", ref);
	json_kv_str(&j, "name", how->name);
	json_kv_str(&j, "platform", how->platform);
	json_kv_str(&j, "ca", how->ca);
	json_kv_bool(&j, "insecure", how->insecure);
	json_kv_u64(&j, "stall_ms", how->stall_ms);
	json_kv_bool(&j, "public_only", how->public_only);
	json_key(&j, "env");
	json_array_begin(&j);
	for (size_t i = 0; env && env[i]; i++)
		json_str(&j, env[i]);
	json_array_end(&j);
	json_object_end(&j);
	return j.error;
}

static int pull(struct cove *cove, const char *ref, const struct cove_pull *how,
		struct cove_pulled *ret, struct err *e)
{
	struct pull_call mine = {how};
	struct helper_call call = {.verb = "image-pull",
				   .cancel_fd = how->cancel_fd,
				   .on_progress = on_progress,
				   .arg = &mine};
	struct buf args;
	char *text = NULL;
	int r;

	buf_init(&args, HELPER_REQUEST_MAX / 2);
	r = put_args(&args, ref, how);
	if (r < 0)
		r = err_set(e, ERR_LIMIT, E2BIG, "the environment is too large to be passed on");
	if (r == 0) {
		call.args = buf_cstr(&args);
		r = call.args ? helper_run(cove, &call, &text, e)
			      : err_errno(e, ENOMEM, "pull an image");
	}
	/* It may hold a password of the caller's. */
	if (args.data)
		explicit_bzero(args.data, args.cap);
	buf_done(&args);
	if (r == 0)
		read_result(text, ret);
	free(text);
	return r;
}

int cove_image_pull(struct cove *cove, const char *ref, const struct cove_pull *how,
		    struct cove_pulled *ret, struct cove_error *err)
{
	struct cove_pull options = {0};
	struct cove_pulled out = {0};
	struct err e = {0};
	int r = how ? core_copy_sized(&options, sizeof(options), how, &e) : 0;

	if (r == 0 && !ref)
		r = err_set(&e, ERR_INVALID, EINVAL, "which image?");
	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = pull(cove, ref, &options, &out, &e);
	if (r == 0 && ret) {
		out.size = ret->size;
		memcpy(ret, &out, ret->size < sizeof(out) ? ret->size : sizeof(out));
	}
	return core_return(cove, NULL, r, &e, err);
}
