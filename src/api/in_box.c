/* A box's options and a command, as requests have them. */
#include "api/handlers.h"

#include "base/base64.h"
#include "core/core.h"
#include "store/image.h"
#include "store/net.h"

#include <errno.h>

#define O(name, kind)	      API_IN(cove_box_options, name, kind)
#define O_AS(key, name, kind) API_IN_AS(cove_box_options, key, name, kind)
/* clang-format off */
const struct api_in_field api_box_fields[] = {
	O(name, STR), O(image, STR), O(workspace, STR), O(mounts, LIST), O(env, PAIRS),
	O(labels, PAIRS), O(cwd, STR), O(user, STR), O(timeout_ms, MS), O(persistence, STR),
	O_AS("mem", mem_bytes, SIZE), O_AS("cpus", cpu_milli, MILLI), O(pids, U64),
	O_AS("disk", disk_bytes, SIZE), O(files, U64), O_AS("io", io_bytes, SIZE),
	O_AS("ttl", ttl_ms, MS), O_AS("idle", idle_ms, MS), O_AS("net_bytes", net_bytes, SIZE),
	O(net_conns, U64), O(expire, STR), O(storage, STR), O(best_effort, BOOL),
	O(strict, BOOL), O(trust_dir, BOOL), O(net, STR), O(allow, LIST), O(deny, LIST),
	O(wall, STR), O(ptrace, BOOL), O(copy, BOOL), O(ctl, STR),
	O(on_start, STR), O(restart, STR), {NULL, 0, 0}};

#define C(name, kind) {#name, API_IN_##kind, offsetof(struct api_command, c.name)}
const struct api_in_field api_command_fields[] = {
	C(argv, LIST), C(line, STR), C(shell, STR), C(env, PAIRS), C(cwd, STR), C(user, STR),
	{"timeout", API_IN_MS, offsetof(struct api_command, c.timeout_ms)},
	{"grace", API_IN_MS, offsetof(struct api_command, c.grace_ms)},
	{"stdin", API_IN_STR, offsetof(struct api_command, input)},
	{"stdin_base64", API_IN_STR, offsetof(struct api_command, input_base64)},
	C(stream_input, BOOL), C(background, BOOL), C(pty, BOOL), C(rows, UINT), C(cols, UINT),
	C(token, STR), C(login, BOOL), C(merge, BOOL),
	{"max_output", API_IN_SIZE, offsetof(struct api_command, max_output)}, {NULL, 0, 0}};
/* clang-format on */

static int take_base64(struct api_call *c, struct api_command *cmd, struct err *e)
{
	size_t len = strlen(cmd->input_base64);
	void *bytes = api_memory_get(&c->memory, len / 4 * 3 + 3);
	ssize_t n;

	if (!bytes)
		return err_errno(e, ENOMEM, "read the request");
	n = base64_decode(cmd->input_base64, len, bytes);
	if (n < 0)
		return err_set(e, ERR_INVALID, EINVAL, "'stdin_base64' is not base64");
	cmd->c.input = bytes;
	cmd->c.input_len = (size_t)n;
	return 0;
}

/* A command goes on with the trace that its caller is in, unless that says otherwise. */
static int add_trace(struct api_call *c, struct cove_command *cmd, struct err *e)
{
	char value[API_TRACEPARENT_SIZE];
	const char **env;
	size_t n = 0;

	if (!c->trace.trace[0])
		return 0;
	for (; cmd->env && cmd->env[n]; n++)
		if (str_starts(cmd->env[n], "TRACEPARENT="))
			return 0;
	api_trace_format(&c->trace, value);
	env = api_memory_get(&c->memory, (n + 2) * sizeof(*env));
	if (!env)
		return err_errno(e, ENOMEM, "read the request");
	for (size_t i = 0; i < n; i++)
		env[i] = cmd->env[i];
	env[n] = api_memory_printf(&c->memory, "TRACEPARENT=%s", value);
	cmd->env = env;
	return env[n] ? 0 : err_errno(e, ENOMEM, "read the request");
}

int api_command_take(struct api_call *c, json_t *object, struct api_command *ret, struct err *e)
{
	const struct api_in_table tables[] = {{api_command_fields, ret}, {NULL, NULL}};
	int r;

	*ret = (struct api_command){.c.size = sizeof(ret->c)};
	r = api_in_take(&c->memory, object, tables, e);
	if (r == 0)
		r = add_trace(c, &ret->c, e);
	if (r < 0)
		return r;
	if (ret->input && ret->input_base64)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'stdin' and 'stdin_base64' exclude each "
			       "other");
	if (ret->input) {
		ret->c.input = ret->input;
		ret->c.input_len = strlen(ret->input);
	}
	/* A number that is too large is refused by libcove. */
	ret->c.max_output = (size_t)ret->max_output;
	return ret->input_base64 ? take_base64(c, ret, e) : 0;
}

/* ---- a box's options ---- */

int api_not_trusted(struct err *e)
{
	return err_set(e, ERR_DENIED, EACCES,
		       "'trust_dir' lets a box write what makes this host run something: it is the "
		       "operator's alone");
}

/* A policy is a preset, or its text in "policy": a path would be one of the server's machine. */
static int check_paths(struct api_call *c, struct cove_box_options *o, struct err *e)
{
	static const char *const none[] = {NULL};

	if (c->who.is_operator)
		return 0;
	if (o->trust_dir)
		return api_not_trusted(e);
	o->owner = c->who.key->id;
	o->mount_roots = c->who.key->mount_count ? c->who.key->mounts : none;
	for (const char *const *a = o->allow; a && *a; a++)
		if (api_may_reach(c, *a, false, e) < 0)
			return -EACCES;
	if (o->net && net_names_file(o->net))
		return err_set(e, ERR_DENIED, EACCES,
			       "'net' is a preset here (closed, balanced, open), no file; PUT "
			       "/v1/boxes/{box}/policy sets a policy of your own");
	return 0;
}

int api_image(struct api_call *c, struct cove *cove, const char *name, const char **ret,
	      struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	struct image image;
	bool is_own;
	int r;

	*ret = name;
	if (c->who.is_operator || !name)
		return 0;
	/* Judged as libcove will read it: a name has several spellings. */
	r = image_name_clean(name, clean, e);
	if (r < 0)
		return r;
	if (strcmp(clean, IMAGE_HOST) == 0)
		return err_set(e, ERR_DENIED, EACCES,
			       "a key's boxes cannot show this host's files");
	r = api_name(c, KEY_OF_IMAGE, clean, ret, e);
	if (r < 0)
		return r;
	is_own = image_find(&cove->state, *ret, &image, NULL) == 0;
	image_done(&image);
	if (is_own)
		return 0;
	if (key_name_plain(KEY_OF_IMAGE, clean) != clean)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no image '%.100s'", name);
	*ret = api_memory_printf(&c->memory, "%s", clean);
	return *ret ? 0 : err_errno(e, ENOMEM, "read the request");
}

int api_box_options_check(struct api_call *c, struct cove *cove, struct cove_box_options *o,
			  struct err *e)
{
	int r;

	o->size = sizeof(*o);
	/* One that is named is judged where the box begins (core/admission.h). */
	if (!o->wall)
		o->wall = c->min_wall;
	r = check_paths(c, o, e);
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, o->name, &o->name, e);
	if (r == 0 && o->workspace && !strchr(o->workspace, '/'))
		r = api_name(c, KEY_OF_WORKSPACE, o->workspace, &o->workspace, e);
	if (r == 0)
		r = api_image(c, cove, o->image, &o->image, e);
	return r;
}

int api_box(struct api_call *c, const char **ret, struct err *e)
{
	return api_name(c, KEY_OF_BOX, api_param(c, "box"), ret, e);
}

int api_box_find(struct api_call *c, struct cove *cove, struct cove_box **ret, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_box(c, &name, e);

	if (r == 0) {
		r = cove_find(cove, name, ret, &err);
		if (r < 0)
			api_failed(r, &err, e);
	}
	return r;
}
