/* API keys, as a caller sees them. */
#include "base/fd.h"
#include "base/str.h"
#include "core/core.h"
#include "store/audit.h"
#include "store/key.h"
#include "store/warm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A key that is being made, and the texts that it points to. */
struct key_making {
	struct key key;
	/* Owned: lists of scopes, that of quotas, directories and one that is too many of them. */
	char *texts[KEY_LISTS_MAX + 1 + KEY_MOUNTS_MAX + 1];
	size_t count;
};

static void making_done(struct key_making *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->texts[i]);
}

/* Takes text. */
static int keep(struct key_making *m, char *text, struct err *e)
{
	if (!text)
		return err_errno(e, ENOMEM, "make a key");
	ASSERT(m->count < sizeof(m->texts) / sizeof(m->texts[0]));
	m->texts[m->count++] = text;
	return 0;
}

static int add_scopes(struct key_making *m, const char *const *lists, struct err *e)
{
	size_t i = 0;
	int r = 0;

	if (!lists || !*lists)
		m->key.scopes = KEY_SCOPES_DEFAULT;
	for (; lists && lists[i] && r == 0; i++) {
		if (i == KEY_LISTS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "at most %u lists of scopes",
				       KEY_LISTS_MAX);
		r = keep(m, strdup(lists[i]), e);
		if (r == 0)
			r = key_take_scopes(&m->key, m->texts[m->count - 1], e);
	}
	return r;
}

/* What is meant now is kept, without links: another directory that is put in its place later is not
 * the key's. */
static int resolve(struct key_making *m, const char *dir, struct err *e)
{
	char *real = realpath(dir, NULL);
	struct stat st;
	int r;

	if (!real)
		return err_errno(e, errno, "directory '%.140s'", dir);
	r = keep(m, real, e);
	if (r < 0)
		return r;
	if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "'%.140s' is not a directory", dir);
	return key_take_mount(&m->key, real, e);
}

static int add_mounts(struct key_making *m, const char *const *dirs, struct err *e)
{
	const char *of_scopes[KEY_MOUNTS_MAX];
	size_t count = m->key.mount_count;
	int r = 0;

	memcpy(of_scopes, m->key.mounts, sizeof(of_scopes));
	m->key.mount_count = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = resolve(m, of_scopes[i], e);
	for (; dirs && *dirs && r == 0; dirs++)
		r = resolve(m, *dirs, e);
	return r;
}

static int fill(struct key_making *m, const struct cove_key_options *o, struct err *e)
{
	int r = str_copy(m->key.name, sizeof(m->key.name), o->name ? o->name : "")
			? add_scopes(m, o->scopes, e)
			: err_set(e, ERR_INVALID, EINVAL, "the name of a key has at most %u bytes",
				  BOX_NAME_MAX);

	if (r == 0 && o->quotas)
		r = keep(m, strdup(o->quotas), e);
	if (r == 0 && o->quotas)
		r = key_take_quotas(&m->key, m->texts[m->count - 1], e);
	if (r == 0)
		r = add_mounts(m, o->mounts, e);
	for (size_t i = 0; i < KEY_QUOTA_COUNT && r == 0; i++)
		if (m->key.quotas[i] && key_may(&m->key, KEY_ADMIN))
			r = err_set(e, ERR_INVALID, EINVAL,
				    "a key with the scope admin has all of this machine: quotas "
				    "are for keys without it");
	return r;
}

/* Who made or revoked which key, in an audit log of its own: those of boxes may go with them. */
static int note_key(struct cove *cove, const char *what, const char *id, const char *name,
		    struct err *e)
{
	char by[32];
	struct audit_row row = {.kind = "key",
				.verdict = "allow",
				.rule = what,
				.credential = id,
				.reason = name,
				.by = by};

	snprintf(by, sizeof(by), "uid %u", (unsigned)getuid());
	return audit_note(&cove->state, "cove-keys", 1, &row, e);
}

/* The token of a key whose row could not be written is lost; its name is to be free again. */
static int take_back(struct cove *cove, const struct key *key, int r, struct err *e)
{
	int gone = key_revoke(&cove->state, key->id, NULL);

	if (gone < 0 && gone != -ENOENT)
		return err_set(e, ERR_INTERNAL, -r,
			       "the key '%s' was made, but not its row in the audit log, and its "
			       "token is lost: make room on the disk, remove the key (cove key rm "
			       "%s), and make it again",
			       key->name, key->id);
	err_prefix(e, "no key was made");
	return r;
}

int cove_key_create(struct cove *cove, const struct cove_key_options *options,
		    struct cove_key_made *ret, struct cove_error *err)
{
	struct key_making m = {0};
	struct cove_key_options o;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0)
		r = fill(&m, &o, &e);
	if (r == 0)
		r = key_make(&cove->state, &m.key, ret->token, &e);
	if (r == 0) {
		r = note_key(cove, "create", m.key.id, m.key.name, &e);
		if (r < 0) {
			explicit_bzero(ret->token, sizeof(ret->token));
			r = take_back(cove, &m.key, r, &e);
		}
	}
	if (r == 0)
		str_copy(ret->id, sizeof(ret->id), m.key.id);
	making_done(&m);
	return core_return(cove, NULL, r, &e, err);
}

/* Texts with a sign between. They fit: key_take_mount sees to it, and scopes are a few words. */
static void join(char *ret, size_t size, size_t *at, const char *text, char sign)
{
	size_t n = strlen(text);

	if (*at + n + 2 > size)
		return;
	if (*at > 0)
		ret[(*at)++] = sign;
	memcpy(ret + *at, text, n + 1);
	*at += n;
}

static void fill_info(struct cove_key_info *i, const struct key *k)
{
	size_t at = 0;

	str_copy(i->name, sizeof(i->name), k->name);
	str_copy(i->id, sizeof(i->id), k->id);
	i->created_ms = k->created_ms;
	i->revoked_ms = k->revoked_ms;
	i->damaged = k->is_damaged;
	i->boxes = k->quotas[KEY_QUOTA_BOXES];
	i->mem_bytes = k->quotas[KEY_QUOTA_MEM];
	i->cpu_milli = k->quotas[KEY_QUOTA_CPUS];
	i->disk_bytes = k->quotas[KEY_QUOTA_DISK];
	i->snapshots = k->quotas[KEY_QUOTA_SNAPSHOTS];
	i->images = k->quotas[KEY_QUOTA_IMAGES];
	for (size_t n = 0; key_scope_name(n); n++)
		if (k->scopes & 1u << n)
			join(i->scopes, sizeof(i->scopes), &at, key_scope_name(n), ',');
	at = 0;
	for (size_t n = 0; n < k->mount_count; n++)
		join(i->mounts, sizeof(i->mounts), &at, k->mounts[n], '\n');
}

int cove_keys(struct cove *cove, struct cove_key_info **ret, struct cove_error *err)
{
	struct cove_key_info *infos = NULL;
	struct key *list = NULL;
	size_t count = 0;
	struct err e = {0};
	int r = key_list(&cove->state, &list, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list the keys");
	}
	for (size_t i = 0; infos && i < count; i++)
		fill_info(&infos[i], &list[i]);
	key_list_free(list, count);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
}

/* No request can take from them any more. */
static int drop_pools(struct cove *cove, const char *id, struct err *e)
{
	struct warm_pool *list = NULL;
	size_t count = 0;
	int r = warm_pool_list(&cove->state, &list, &count, e);

	for (size_t i = 0; i < count && r == 0; i++)
		if (strcmp(list[i].owner, id) == 0)
			r = warm_pool_remove(&cove->state, id, list[i].image, e);
	free(list);
	return r;
}

int cove_key_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	struct key key = {0};
	/* One that is damaged goes, too. */
	bool known = key_read(&cove->state, name, &key, NULL) == 0;
	int r = key_revoke(&cove->state, name, &e);

	if (r == 0) {
		r = note_key(cove, "remove", known ? key.id : name, known ? key.name : NULL, &e);
		if (r < 0)
			err_prefix(&e, "the key was removed, but not noted in the audit log");
		else if (known && (r = drop_pools(cove, key.id, &e)) < 0)
			err_prefix(&e, "the key was removed, but not its pools");
	}
	key_done(&key);
	return core_return(cove, NULL, r, &e, err);
}

const char *cove_key_scope(size_t i, const char **ret_summary)
{
	if (ret_summary)
		*ret_summary = key_scope_summary(i);
	return key_scope_name(i);
}
