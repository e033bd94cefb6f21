/* What a key may do and use, as people write it, and whether it may; see key.h. */
#include "store/key.h"

#include "base/path.h"
#include "base/size.h"
#include "base/str.h"
#include "store/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOUNT_WORD "mount:"

enum { WORDS_TEXT = 96 };

/* In the order of the bits. */
static const struct {
	const char *name, *summary;
} scopes[] = {
	{"read", "look at boxes, files, output and the rest"},
	{"run", "make and end boxes, run commands, write files, take snapshots"},
	{"images", "pull, build, import and remove images"},
	{"network", "policies, grants, answers to asks, ports to the outside"},
	{"secrets", "store and remove secrets"},
	{"audit", "read the audit log"},
	{"metrics", "read the figures of the whole machine (/metrics)"},
	{"admin", "everything on this machine, with no namespace"},
};

enum { SCOPE_COUNT = sizeof(scopes) / sizeof(scopes[0]) };
_Static_assert(KEY_ADMIN == 1 << (SCOPE_COUNT - 1), "a scope has no name");

enum quota_unit { QUOTA_COUNT, QUOTA_BYTES, QUOTA_MILLI };

static const struct {
	const char *name, *form;
	enum quota_unit unit;
	const char *remedy, *unlimited;
} quotas[KEY_QUOTA_COUNT] = {
	[KEY_QUOTA_BOXES] = {"boxes", "20", QUOTA_COUNT, "remove a box first", NULL},
	[KEY_QUOTA_MEM] = {"mem", "8g", QUOTA_BYTES, "ask for less memory, or remove a box first",
			   "a box without a limit of memory"},
	[KEY_QUOTA_CPUS] = {"cpus", "0.5", QUOTA_MILLI,
			    "ask for less of a processor, or remove a box first",
			    "a box without a limit of processors"},
	[KEY_QUOTA_DISK] = {"disk", "100g", QUOTA_BYTES,
			    "ask for less disk, or remove a box, snapshot or image first",
			    "a box without a limit of disk"},
	[KEY_QUOTA_SNAPSHOTS] = {"snapshots", "50", QUOTA_COUNT, "remove a snapshot first", NULL},
	[KEY_QUOTA_IMAGES] = {"images", "10", QUOTA_COUNT, "remove an image first", NULL},
};

const char *key_scope_name(size_t i)
{
	return i < SCOPE_COUNT ? scopes[i].name : NULL;
}

const char *key_scope_summary(size_t i)
{
	return i < SCOPE_COUNT ? scopes[i].summary : NULL;
}

const char *key_quota_name(size_t i)
{
	return i < KEY_QUOTA_COUNT ? quotas[i].name : NULL;
}

/* "there is no scope 'runs'; did you mean 'run'? There are read, run, ..." */
static int unknown_word(const char *what, const char *word, const char *(*name)(size_t i),
			struct err *e)
{
	const char *names[SCOPE_COUNT + KEY_QUOTA_COUNT + 1] = {NULL}, *near;
	char all[WORDS_TEXT] = "";
	size_t n = 0;

	for (size_t i = 0; name(i); i++) {
		names[i] = name(i);
		n += (size_t)snprintf(all + n, n < sizeof(all) ? sizeof(all) - n : 0, "%s%s",
				      i ? ", " : "", name(i));
	}
	near = str_closest(word, names);
	if (near)
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is no %s '%.40s'; did you mean '%s'? There are %s", what,
			       word, near, all);
	return err_set(e, ERR_INVALID, EINVAL, "there is no %s '%.40s'; there are %s", what, word,
		       all);
}

static int take_scope_word(struct key *k, const char *word, struct err *e)
{
	for (size_t i = 0; i < SCOPE_COUNT; i++)
		if (strcmp(word, scopes[i].name) == 0) {
			k->scopes |= 1u << i;
			return 0;
		}
	if (str_starts(word, MOUNT_WORD))
		return key_take_mount(k, word + strlen(MOUNT_WORD), e);
	return unknown_word("scope", word, key_scope_name, e);
}

int key_take_scopes(struct key *k, char *list, struct err *e)
{
	int r = 0;

	for (char *word; r == 0 && (word = strsep(&list, ","));)
		r = take_scope_word(k, word, e);
	return r;
}

int key_take_mount(struct key *k, const char *dir, struct err *e)
{
	char normal[BOX_PATH_MAX];
	size_t bytes = 0, n = strlen(dir);

	if (!path_is_absolute(dir) || !path_normalize(normal, sizeof(normal), dir) ||
	    strcmp(normal, dir) != 0)
		return err_set(
			e, ERR_INVALID, EINVAL,
			"'%.100s' is not a plain absolute path, without '.', '..' or a slash "
			"too many",
			dir);
	/* They are listed a line each. */
	for (const char *p = dir; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_set(e, ERR_INVALID, EINVAL,
				       "the path of a key's directory holds a control character");
	for (size_t i = 0; i < k->mount_count; i++) {
		bytes += strlen(k->mounts[i]) + 1;
		if (strcmp(k->mounts[i], dir) == 0)
			return err_set(e, ERR_INVALID, EINVAL, "'%.100s' is given twice", dir);
	}
	if (k->mount_count == KEY_MOUNTS_MAX || bytes + n > KEY_MOUNTS_BYTES)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "a key has at most %u directories, of %u bytes together",
			       KEY_MOUNTS_MAX, KEY_MOUNTS_BYTES);
	k->mounts[k->mount_count++] = dir;
	return 0;
}

static bool parse_amount(enum quota_unit unit, const char *text, uint64_t *ret)
{
	return unit == QUOTA_BYTES   ? size_parse(text, ret)
	       : unit == QUOTA_MILLI ? size_parse_milli(text, ret)
				     : str_parse_u64(text, UINT32_MAX, ret);
}

static int take_quota(struct key *k, char *word, struct err *e)
{
	char *amount = strchr(word, '=');
	size_t i = 0;
	uint64_t v;

	if (amount)
		*amount++ = 0;
	while (i < KEY_QUOTA_COUNT && strcmp(word, quotas[i].name) != 0)
		i++;
	if (i == KEY_QUOTA_COUNT)
		return unknown_word("quota", word, key_quota_name, e);
	if (k->quotas[i])
		return err_set(e, ERR_INVALID, EINVAL, "the quota '%s' is given twice", word);
	if (!amount || !parse_amount(quotas[i].unit, amount, &v) || v == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.40s' is no quota of %s: write %s=%s; without a quota leave it "
			       "out",
			       amount ? amount : "", word, word, quotas[i].form);
	k->quotas[i] = v;
	return 0;
}

int key_take_quotas(struct key *k, char *list, struct err *e)
{
	int r = 0;

	for (char *word; r == 0 && (word = strsep(&list, ","));)
		r = take_quota(k, word, e);
	return r;
}

/* ---- may it? ---- */

bool key_may(const struct key *k, enum key_scope scope)
{
	return (k->scopes & ((unsigned)scope | KEY_ADMIN)) != 0;
}

bool key_may_mount(const struct key *k, const char *real_path)
{
	if (key_may(k, KEY_ADMIN))
		return true;
	for (size_t i = 0; i < k->mount_count; i++)
		if (path_is_within(real_path, k->mounts[i]))
			return true;
	return false;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > KEY_EVERYTHING - b ? KEY_EVERYTHING : a + b;
}

void key_usage_add_box(struct key_usage *u, const struct spec *box)
{
	const uint64_t *limits = box->limits;
	const struct {
		enum key_quota_id quota;
		uint64_t limit;
	} all[] = {{KEY_QUOTA_MEM, limits[LIMIT_MEM]},
		   {KEY_QUOTA_CPUS, limits[LIMIT_CPUS]},
		   {KEY_QUOTA_DISK, limits[LIMIT_DISK]},
		   {KEY_QUOTA_DISK, box->workspace ? limits[LIMIT_DISK] : 0}};

	u->of[KEY_QUOTA_BOXES] = add(u->of[KEY_QUOTA_BOXES], 1);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t *of = &u->of[all[i].quota];

		/* The last is no second disk without a limit. */
		*of = all[i].limit			     ? add(*of, all[i].limit)
		      : i + 1 < sizeof(all) / sizeof(all[0]) ? KEY_EVERYTHING
							     : *of;
	}
}

int key_counted_limits(struct state *st, const char *owner, unsigned *ret, struct err *e)
{
	struct key key;
	int r;

	*ret = 0;
	if (!owner)
		return 0;
	r = key_read(st, owner, &key, e);
	if (r == 0)
		*ret = (key.quotas[KEY_QUOTA_MEM] ? 1u << LIMIT_MEM : 0) |
		       (key.quotas[KEY_QUOTA_CPUS] ? 1u << LIMIT_CPUS : 0) |
		       (key.quotas[KEY_QUOTA_DISK] ? 1u << LIMIT_DISK : 0);
	key_done(&key);
	return r == -ENOENT ? 0 : r;
}

static const char *format_amount(enum quota_unit unit, uint64_t v, char ret[SIZE_TEXT])
{
	if (v == KEY_EVERYTHING)
		snprintf(ret, SIZE_TEXT, "everything");
	else if (unit == QUOTA_BYTES)
		return size_format_exact(ret, v);
	else if (unit == QUOTA_MILLI)
		snprintf(ret, SIZE_TEXT, "%g", (double)v / 1000);
	else
		snprintf(ret, SIZE_TEXT, "%llu", (unsigned long long)v);
	return ret;
}

int key_quota_check(const struct key *k, const struct key_usage *now, const struct key_usage *more,
		    struct err *e)
{
	char quota[SIZE_TEXT], used[SIZE_TEXT], asked[SIZE_TEXT];

	for (size_t i = 0; i < KEY_QUOTA_COUNT; i++) {
		uint64_t max = k->quotas[i], want = more->of[i];

		if (max == 0 || want == 0 ||
		    (want != KEY_EVERYTHING && add(now->of[i], want) <= max))
			continue;
		format_amount(quotas[i].unit, max, quota);
		format_amount(quotas[i].unit, now->of[i], used);
		if (want == KEY_EVERYTHING)
			return err_set(e, ERR_LIMIT, EDQUOT,
				       "quota %s of key '%s': %s of %s used, and %s asks for "
				       "everything: give it one",
				       quotas[i].name, k->name, used, quota,
				       quotas[i].unlimited ? quotas[i].unlimited
							   : "what has no limit");
		format_amount(quotas[i].unit, want, asked);
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "quota %s of key '%s': %s of %s used, and %s more asked for: %s",
			       quotas[i].name, k->name, used, quota, asked, quotas[i].remedy);
	}
	return 0;
}
