/*
 * A box's specification: its text form, and what may stand in it; see spec.h.
 *
 * How it works: one table of the plain fields serves writing and reading. A mount is a run
 * of lines that begins with mount_src. Another table says of each limit how it is named and counted
 * and between what it must lie; a line `asked KEY` stands beside those that are the caller's own
 * word. A field that may be given once and comes twice is an error, and so is an unknown key.
 */
#include "store/spec.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/path.h"
#include "base/sha.h"
#include "base/size.h"
#include "base/str.h"
#include "store/image.h"
#include "store/layer.h"
#include "store/net.h"
#include "store/state.h"
#include "wire/ctl.h"
#include "wire/field.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define S(name) FIELD_NAMED(spec, name)
static const struct wire_named_field fields[] = {
	S(name), S(image), S(base_user), S(base_cwd), S(wall), S(workspace), S(workspace_dir),
	S(workspace_owner), S(user), S(cwd), S(session), S(owner),
	S(storage), S(net), S(one_shot), S(best_effort), S(strict), S(trust_dir), S(ptrace),
	S(workspace_copy), S(from), S(renew), S(ctl), S(on_start),
	S(timeout_ms),
	S(created_ms),
	{0}};
/* clang-format on */

enum limit_unit { UNIT_BYTES, UNIT_RATE, UNIT_MILLI, UNIT_COUNT, UNIT_MS };

/* A minimum is what a shell and a small program need; below it a box would only fail later and with
 * a worse reason. */
static const struct {
	const char *key, *flag, *word;
	enum limit_unit unit;
	uint64_t min, max;
} limits[LIMIT_COUNT] = {
	[LIMIT_MEM] = {"mem_bytes", "--mem", "memory", UNIT_BYTES, 16 << 20, 1ull << 50},
	[LIMIT_CPUS] = {"cpu_milli", "--cpus", "cpu", UNIT_MILLI, 10, 8192 * 1000},
	[LIMIT_PIDS] = {"pids", "--pids", "pids", UNIT_COUNT, 4, 4 << 20},
	[LIMIT_DISK] = {"disk_bytes", "--disk", "disk", UNIT_BYTES, 8 << 20, 1ull << 50},
	[LIMIT_FILES] = {"files", "--files", "files", UNIT_COUNT, 64, 1 << 20},
	[LIMIT_IO] = {"io_bytes", "--io", "io", UNIT_RATE, 64 << 10, 1ull << 50},
	[LIMIT_TTL] = {"ttl_ms", "--ttl", "ttl", UNIT_MS, 100, 3650ull * 86400 * 1000},
	[LIMIT_IDLE] = {"idle_ms", "--idle", "idle", UNIT_MS, 100, 3650ull * 86400 * 1000},
	[LIMIT_NET_BYTES] = {"net_bytes", "--net-bytes", "net_bytes", UNIT_BYTES, 1, 1ull << 60},
	[LIMIT_NET_CONNS] = {"net_conns", "--net-conns", "net_conns", UNIT_COUNT, 1,
			     DOOR_CONNS_MAX},
};

enum { USER_NAME_MAX = 63 };

/* Of each the first word is the default. */
static const char *const expiries[] = {"stop", "remove", "pause", NULL};
static const char *const restarts[] = {"no", "on-reboot", "always", NULL};

/* Lists of texts: a line each. */
static const struct {
	const char *key, *what;
	size_t items, count;
	size_t max;
} lists[] = {
#define LIST(key, what, items, count, max)                                                 \
	{                                                                                  \
		key, what, offsetof(struct spec, items), offsetof(struct spec, count), max \
	}
	LIST("layer", "layers", layers, layer_count, SPEC_LAYER_MAX),
	LIST("base_env", "variables of the image", base_env, base_env_count, SPEC_ENV_MAX),
	LIST("env", "variables", env, env_count, SPEC_ENV_MAX),
	LIST("label", "labels", labels, label_count, SPEC_LABEL_MAX),
#undef LIST
};
enum { LIST_COUNT = sizeof(lists) / sizeof(lists[0]) };

struct spec_list {
	const char **items;
	size_t *count;
};

static struct spec_list list_at(const struct spec *s, size_t i)
{
	return (struct spec_list){(const char **)((uintptr_t)s + lists[i].items),
				  (size_t *)((uintptr_t)s + lists[i].count)};
}

const char *limit_key(enum limit_id id)
{
	return limits[id].key;
}

const char *limit_flag(enum limit_id id)
{
	return limits[id].flag;
}

const char *limit_word(enum limit_id id)
{
	return limits[id].word;
}

static bool find_word(const char *const *words, const char *word, unsigned *ret)
{
	for (unsigned i = 0; words[i]; i++) {
		if (strcmp(words[i], word) != 0)
			continue;
		*ret = i;
		return true;
	}
	return false;
}

const char *expiry_name(enum expiry e)
{
	return expiries[e];
}

const char *restart_name(enum restart r)
{
	return restarts[r];
}

bool expiry_parse(const char *name, enum expiry *ret)
{
	unsigned i;
	bool ok = find_word(expiries, name, &i);

	if (ok)
		*ret = (enum expiry)i;
	return ok;
}

bool restart_parse(const char *name, enum restart *ret)
{
	unsigned i;
	bool ok = find_word(restarts, name, &i);

	if (ok)
		*ret = (enum restart)i;
	return ok;
}

const char *limit_format(enum limit_id id, uint64_t value, char ret[LIMIT_TEXT])
{
	static const struct {
		unsigned ms;
		const char *name;
	} times[] = {{86400000, "d"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
	enum limit_unit unit = limits[id].unit;
	unsigned long long v = value;
	char size[SIZE_TEXT];
	size_t i = 0;

	if (v == 0)
		snprintf(ret, LIMIT_TEXT, "none");
	else if (unit == UNIT_BYTES || unit == UNIT_RATE)
		snprintf(ret, LIMIT_TEXT, "%s%s", size_format_exact(size, value),
			 unit == UNIT_RATE ? "/s" : "");
	else if (unit == UNIT_COUNT)
		snprintf(ret, LIMIT_TEXT, "%llu", v);
	else if (unit == UNIT_MILLI)
		snprintf(ret, LIMIT_TEXT, "%g", (double)v / 1000);
	else {
		/* In the largest unit that it is a whole number of. */
		while (v % times[i].ms)
			i++;
		snprintf(ret, LIMIT_TEXT, "%llu %s", v / times[i].ms, times[i].name);
	}
	return ret;
}

int spec_format(const struct spec *s, struct buf *out)
{
	int r = 0;

	for (const struct wire_named_field *f = fields; f->key && r == 0; f++) {
		bool is_number = f->field.kind == FIELD_U64 || f->field.kind == FIELD_BOOL;
		uint64_t number = is_number ? wire_field_number(&f->field, s) : 0;
		const char *text = is_number ? NULL : wire_field_text(&f->field, s);

		if (number || text)
			r = text ? lines_put(out, f->key, text)
				 : lines_put_u64(out, f->key, number);
	}
	if (r == 0 && s->persistence == PERSIST_BOX)
		r = lines_put(out, "persistence", "box");
	if (r == 0 && s->expiry != EXPIRE_STOP)
		r = lines_put(out, "expire", expiry_name(s->expiry));
	if (r == 0 && s->restart != RESTART_NO)
		r = lines_put(out, "restart", restart_name(s->restart));
	for (size_t i = 0; i < LIMIT_COUNT && r == 0; i++) {
		if (s->limits[i])
			r = lines_put_u64(out, limits[i].key, s->limits[i]);
		if (r == 0 && s->limits_asked & 1u << i)
			r = lines_put(out, "asked", limits[i].key);
	}
	for (size_t i = 0; i < LIST_COUNT; i++) {
		const struct spec_list l = list_at(s, i);

		for (size_t k = 0; k < *l.count && r == 0; k++)
			r = lines_put(out, lists[i].key, l.items[k]);
	}
	for (const struct spec_mount *m = s->mounts; m < s->mounts + s->mount_count && r == 0;
	     m++) {
		r = lines_put(out, "mount_src", m->src);
		if (r == 0)
			r = lines_put(out, "mount_dst", m->dst);
		if (r == 0 && m->env)
			r = lines_put(out, "mount_env", m->env);
		if (r == 0 && m->owner)
			r = lines_put(out, "mount_owner", m->owner);
		if (r == 0 && m->read_only)
			r = lines_put(out, "mount_ro", "1");
	}
	return r;
}

static int take_text(const char **field, const char *value)
{
	int r = *field ? -EBADMSG : 0;

	*field = value;
	return r;
}

static bool take_flag(bool *flag, const char *value)
{
	bool ok = !*flag && strcmp(value, "1") == 0;

	*flag = true;
	return ok;
}

static bool take_number(uint64_t *number, const char *value)
{
	return *number == 0 && str_parse_u64(value, UINT64_MAX, number);
}

static bool take_asked(struct spec *s, const char *value)
{
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		if (strcmp(value, limits[i].key) != 0)
			continue;
		if (s->limits_asked & 1u << i)
			return false;
		s->limits_asked |= 1u << i;
		return true;
	}
	return false;
}

static int take_item(struct spec *s, const char *key, const char *value)
{
	for (size_t i = 0; i < LIST_COUNT; i++) {
		const struct spec_list l = list_at(s, i);

		if (strcmp(key, lists[i].key) != 0)
			continue;
		if (*l.count >= lists[i].max)
			return -EBADMSG;
		l.items[(*l.count)++] = value;
		return 0;
	}
	return -ENOENT;
}

/* One line of a mount; mount_src begins the next. */
static int take_mount_line(struct spec *s, const char *key, const char *value)
{
	struct spec_mount *m = s->mount_count ? &s->mounts[s->mount_count - 1] : NULL;

	if (strcmp(key, "mount_src") == 0) {
		if (s->mount_count >= SPEC_MOUNT_MAX)
			return -E2BIG;
		s->mounts[s->mount_count++] = (struct spec_mount){.src = value};
		return 0;
	}
	if (!m)
		return -EBADMSG;
	if (strcmp(key, "mount_ro") == 0)
		return take_flag(&m->read_only, value) ? 0 : -EBADMSG;
	if (strcmp(key, "mount_dst") == 0)
		return take_text(&m->dst, value);
	if (strcmp(key, "mount_owner") == 0)
		return take_text(&m->owner, value);
	return strcmp(key, "mount_env") == 0 ? take_text(&m->env, value) : -ENOENT;
}

int spec_take(struct spec *s, const char *key, const char *value)
{
	bool ok;

	for (const struct wire_named_field *f = fields; f->key; f++) {
		void *at = (char *)s + f->field.offset;

		if (strcmp(key, f->key) != 0)
			continue;
		if (f->field.kind == FIELD_STR)
			return take_text(at, value);
		ok = f->field.kind == FIELD_BOOL ? take_flag(at, value) : take_number(at, value);
		return ok ? 0 : -EBADMSG;
	}
	if (str_starts(key, "mount_"))
		return take_mount_line(s, key, value);
	/* None is written by leaving a limit out. */
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		if (strcmp(key, limits[i].key) == 0)
			return take_number(&s->limits[i], value) && s->limits[i] ? 0 : -EBADMSG;
	/* A word that is the default is not written. */
	if (strcmp(key, "persistence") == 0) {
		ok = s->persistence == PERSIST_WORKSPACE && strcmp(value, "box") == 0;
		s->persistence = PERSIST_BOX;
	} else if (strcmp(key, "expire") == 0) {
		ok = s->expiry == EXPIRE_STOP && expiry_parse(value, &s->expiry) &&
		     s->expiry != EXPIRE_STOP;
	} else if (strcmp(key, "restart") == 0) {
		ok = s->restart == RESTART_NO && restart_parse(value, &s->restart) &&
		     s->restart != RESTART_NO;
	} else if (strcmp(key, "asked") == 0)
		ok = take_asked(s, value);
	else
		return take_item(s, key, value);
	return ok ? 0 : -EBADMSG;
}

static int check_path(const char *what, const char *path, struct err *e)
{
	if (path_is_absolute(path))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "%s '%.120s' is not an absolute path", what, path);
}

/* A name as in /etc/passwd, a uid, or uid:gid. */
static int check_user(const char *user, struct err *e)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
	size_t n = strlen(user);

	if (n > 0 && n <= USER_NAME_MAX && user[0] != '-' && strspn(user, allowed) == n)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not a user: give NAME, UID or UID:GID",
		       user);
}

/* NAME=VALUE, the name of a variable or, for a label, any printable word. */
static int check_pair(const char *what, const char *pair, bool is_env, struct err *e)
{
	const char *eq = strchr(pair, '=');
	char name[256];
	bool ok = eq && eq > pair && (size_t)(eq - pair) < sizeof(name);

	if (ok) {
		memcpy(name, pair, (size_t)(eq - pair));
		name[eq - pair] = 0;
		if (is_env)
			ok = str_is_env_name(name);
		for (const char *p = name; *p && ok; p++)
			ok = *p > ' ' && *p < 0x7f;
	}
	return ok ? 0 : err_set(e, ERR_INVALID, EINVAL, "%s '%.80s' is not NAME=VALUE", what, pair);
}

/* Where a mount must not go: what the box itself is made of. */
static bool is_own_place(const char *dst)
{
	static const char *const own[] = {"/proc", "/sys", "/dev"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		size_t n = strlen(own[i]);

		if (strncmp(dst, own[i], n) == 0 && (dst[n] == 0 || dst[n] == '/'))
			return true;
	}
	return strcmp(dst, "/") == 0;
}

static int check_mount(const struct spec *s, const struct spec_mount *m, struct err *e)
{
	char normal[BOX_PATH_MAX];
	int r;

	if (!m->src || !m->dst)
		return err_set(e, ERR_INVALID, EINVAL, "a mount needs SRC:DST");
	if (!path_is_absolute(m->src)) {
		if (!path_is_safe_relative(m->src))
			return err_set(e, ERR_INVALID, EINVAL,
				       "mount source '%.100s' may not leave the workspace ('..') "
				       "or be empty",
				       m->src);
		if (!s->workspace && !s->workspace_dir)
			return err_set(
				e, ERR_INVALID, EINVAL,
				"mount source '%.100s' is relative, so it is in the workspace: "
				"give a --workspace, or an absolute path ($PWD/%.60s)",
				m->src, m->src);
		if (s->workspace_copy)
			return err_set(e, ERR_INVALID, EINVAL,
				       "mount source '%.100s' is in the workspace, which is a copy "
				       "(--copy): give an absolute path",
				       m->src);
	}
	r = check_path("mount target", m->dst, e);
	if (r < 0)
		return r;
	if (!path_normalize(normal, sizeof(normal), m->dst) || strcmp(normal, m->dst) != 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "mount target '%.100s' must be plain: no '.', '..' or double slash",
			       m->dst);
	if (is_own_place(normal))
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s' cannot be a mount target", m->dst);
	if (m->env && !str_is_env_name(m->env))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not the name of a variable",
			       m->env);
	return 0;
}

static int check_lists(const struct spec *s, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < LIST_COUNT; i++)
		if (*list_at(s, i).count > lists[i].max)
			return err_set(e, ERR_LIMIT, E2BIG, "at most %zu %s", lists[i].max,
				       lists[i].what);
	if (s->mount_count > SPEC_MOUNT_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "at most %u mounts", SPEC_MOUNT_MAX);
	for (size_t i = 0; i < s->layer_count; i++)
		if (!layer_is_id(s->layers[i]))
			return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not a layer",
				       s->layers[i]);
	for (size_t i = 0; i < s->env_count && r == 0; i++)
		r = check_pair("variable", s->env[i], true, e);
	for (size_t i = 0; i < s->label_count && r == 0; i++)
		r = check_pair("label", s->labels[i], false, e);
	for (size_t i = 0; i < s->mount_count && r == 0; i++) {
		r = check_mount(s, &s->mounts[i], e);
		for (size_t k = 0; k < i && r == 0; k++)
			if (strcmp(s->mounts[i].dst, s->mounts[k].dst) == 0)
				r = err_set(e, ERR_INVALID, EINVAL, "two mounts at '%.100s'",
					    s->mounts[i].dst);
	}
	return r;
}

static int check_place(const struct spec *s, struct err *e)
{
	int r = 0;

	if (s->workspace && s->workspace_dir)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a box has one workspace: a name or a directory, not both");
	if (s->workspace)
		r = state_check_name("workspace", s->workspace, e);
	if (r == 0 && s->workspace_dir)
		r = check_path("workspace", s->workspace_dir, e);
	if (r == 0 && s->workspace_copy && !s->workspace_dir)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "--copy is of a directory of the host: give --workspace DIR");
	if (r == 0 && s->user)
		r = check_user(s->user, e);
	if (r == 0 && s->cwd)
		r = check_path("working directory", s->cwd, e);
	if (r == 0 && s->session && (!*s->session || strlen(s->session) > SESSION_ID_MAX))
		r = err_set(e, ERR_INVALID, EINVAL, "a session id has 1 to %u bytes",
			    SESSION_ID_MAX);
	return r;
}

int limit_check(enum limit_id id, uint64_t v, struct err *e)
{
	uint64_t min = limits[id].min, max = limits[id].max;
	char is[LIMIT_TEXT], bound[LIMIT_TEXT];

	if (v == 0 || (v >= min && v <= max))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "%s %s is too %s: at %s %s, or none",
		       limits[id].flag, limit_format(id, v, is), v < min ? "little" : "much",
		       v < min ? "least" : "most", limit_format(id, v < min ? min : max, bound));
}

static int check_limits(const struct spec *s, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < LIMIT_COUNT && r == 0; i++)
		r = limit_check((enum limit_id)i, s->limits[i], e);
	return r;
}

static int check_life(const struct spec *s, struct err *e)
{
	if (s->one_shot && s->restart != RESTART_NO)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--restart is for boxes that stay: this one is gone with its "
			       "command (cove create)");
	if (s->one_shot && s->expiry == EXPIRE_PAUSE)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--expire pause is for boxes that stay: this one is gone with its "
			       "command (cove create)");
	if (s->on_start && strlen(s->on_start) > SPEC_ON_START_MAX)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "the line of --on-start is longer than %u bytes: put it into a "
			       "file of the box, and run that",
			       SPEC_ON_START_MAX);
	return 0;
}

/* Is it a name in that key's namespace? */
static bool is_of_key(const char *name, const char *id)
{
	return str_plain_name(name) != name && strncmp(name, id, STR_NAMESPACE - 1) == 0;
}

/* Whose a box is stands in its name as well, and both must agree: whoever finds it by its name then
 * finds one that has no other's secrets. */
static int check_owner(const struct spec *s, struct err *e)
{
	if (!s->owner && str_plain_name(s->name) != s->name)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%s' is what a box of the API key %.8s is called: choose a name "
			       "without '_'",
			       s->name, s->name);
	if (!s->owner)
		return 0;
	if (!str_is_key_id(s->owner))
		return err_set(e, ERR_INVALID, EINVAL,
			       "owner '%.40s' is not the id of an API key: 8 hex digits", s->owner);
	if (!is_of_key(s->name, s->owner))
		return err_set(e, ERR_INVALID, EINVAL,
			       "box '%s' is of the API key %s: its name begins with %s_", s->name,
			       s->owner, s->owner);
	if (s->workspace && !is_of_key(s->workspace, s->owner))
		return err_set(e, ERR_DENIED, EACCES,
			       "box '%s' is of the API key %s, and the workspace '%.64s' is not",
			       s->name, s->owner, s->workspace);
	return 0;
}

static int check_values(const struct spec *s, struct err *e)
{
	struct wire_ctl_set ctl;
	int r = state_check_name("box", s->name, e);

	if (r == 0)
		r = check_owner(s, e);
	if (r == 0 && !(s->image && strcmp(s->image, IMAGE_IMPORTED) == 0))
		r = image_check_name(s->image, e);
	if (r == 0)
		r = state_check_name("wall", s->wall, e);
	if (r == 0 && s->persistence != PERSIST_WORKSPACE && s->persistence != PERSIST_BOX)
		r = err_set(e, ERR_INVALID, EINVAL, "persistence is 'workspace' or 'box'");
	if (r == 0)
		r = check_limits(s, e);
	if (r == 0)
		r = check_life(s, e);
	if (r == 0 && s->storage && strcmp(s->storage, "plain") != 0 &&
	    strcmp(s->storage, "loop") != 0 && strcmp(s->storage, "tmpfs") != 0 &&
	    strcmp(s->storage, "pool") != 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "storage is 'plain', 'loop', 'tmpfs' or 'pool', not '%.40s'",
			    s->storage);
	if (r == 0 && s->net && !net_is_preset(s->net) && strcmp(s->net, "file") != 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "'%.40s' is no policy: closed, balanced, open or a file", s->net);
	if (r == 0)
		r = wire_ctl_set_parse(s->ctl, &ctl, e);
	if (r == 0)
		r = check_place(s, e);
	return r < 0 ? r : check_lists(s, e);
}

int spec_parse(struct spec *ret, char *text, size_t len, struct err *e)
{
	const char *key, *value;
	struct lines lines;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (len > SPEC_BYTES_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the record of a box is too large");
	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		r = spec_take(ret, key, value);
		if (r == -ENOENT)
			return err_set(
				e, ERR_PROTOCOL, EBADMSG,
				"unknown key '%.64s' in a box's record: made by a newer Cove?",
				key);
		if (r < 0)
			return err_set(e, ERR_PROTOCOL, EBADMSG, "bad '%.64s' in a box's record",
				       key);
	}
	if (r < 0)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "a box's record is damaged");
	return check_values(ret, e); /* its size is known */
}

int spec_check(const struct spec *s, struct err *e)
{
	struct buf b;
	int r = check_values(s, e);

	if (r < 0)
		return r;
	buf_init(&b, SPEC_BYTES_MAX);
	r = spec_format(s, &b);
	buf_done(&b);
	if (r == -ENOBUFS)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "variables, labels and mounts together are larger than %u KiB",
			       SPEC_BYTES_MAX >> 10);
	return r < 0 ? err_errno(e, -r, "write the record") : 0;
}

/* "./a//" -> "a": what people write for a relative directory. A lone "/" stays. */
static char *tidy_path(char *p)
{
	size_t n;

	while (p[0] == '.' && p[1] == '/') {
		p += 2;
		while (*p == '/')
			p++;
	}
	n = strlen(p);
	while (n > 1 && p[n - 1] == '/')
		p[--n] = 0;
	return p;
}

int spec_mount_parse(struct spec_mount *ret, char *text, struct err *e)
{
	static const char form[] = "a mount is SRC:DST[:ro][,env=NAME]";
	char *colon = strchr(text, ':'), *dst, *env, *option;
	struct spec_mount m = {0};
	size_t n;

	if (!colon || colon == text)
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s': %s", text, form);
	dst = colon + 1;
	env = strstr(dst, ",env=");
	if (env) {
		if (!str_is_env_name(env + 5))
			return err_set(e, ERR_INVALID, EINVAL,
				       "'%.80s' is not the name of a variable; %s", env + 5, form);
		*env = 0;
		m.env = env + 5;
	}
	n = strlen(dst);
	if (n > 3 && strcmp(dst + n - 3, ":ro") == 0) {
		m.read_only = true;
		dst[n - 3] = 0;
	}
	option = dst + strcspn(dst, ":,");
	if (dst[0] == '/' && *option)
		return err_set(e, ERR_INVALID, EINVAL, "unknown mount option '%.60s'; %s",
			       option + 1, form);
	if (dst[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL,
			       "mount target '%.80s' is not an absolute path; %s", dst, form);
	*colon = 0;
	m.src = tidy_path(text);
	m.dst = tidy_path(dst);
	*ret = m;
	return 0;
}

int spec_session_name(const char *prefix, const char *id, char ret[BOX_NAME_MAX + 1], struct err *e)
{
	char hex[65];

	if (!prefix)
		prefix = "session";
	if (!str_is_name(prefix, SESSION_PREFIX_MAX))
		return err_set(
			e, ERR_INVALID, EINVAL,
			"prefix '%.80s': lower-case letters, digits and inner dashes, at most %u",
			prefix, SESSION_PREFIX_MAX);
	if (!id || !*id || strlen(id) > SESSION_ID_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "a session id has 1 to %u bytes",
			       SESSION_ID_MAX);
	sha256_hex(id, strlen(id), hex);
	snprintf(ret, BOX_NAME_MAX + 1, "%s-%.16s", prefix, hex);
	return 0;
}
