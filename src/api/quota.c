/*
 * Quotas of keys. What a key has is what its boxes may use, running or not, its workspaces, and the
 * layers that these, its snapshots and images stand on (core/key_usage.h); a box that is being made
 * counts from before it is begun, so that many requests at once get no more than one after the
 * other, and no less. How large a snapshot or an image is shows when it is made: it is looked at
 * then, and goes again where it does not fit.
 */
#include "api/quota.h"
#include "api/call.h"
#include "api/handlers.h"

#include "base/fd.h"
#include "core/core.h"
#include "core/key_usage.h"
#include "store/snapshot.h"

#include <errno.h>
#include <pthread.h>

/* One that is being made: by its name it is not counted twice once its record is there. */
struct named_box {
	char name[BOX_NAME_MAX + 1];
	struct key_usage usage;
};

struct api_hold {
	char key_id[KEY_ID_SIZE];
	struct key_usage usage;		  /* of what has no name yet */
	char workspace[BOX_NAME_MAX + 1]; /* of the one box, or "" */
	uint64_t workspace_bytes;	  /* of the usage, for it */
	bool is_new;			  /* of an image: none has its name */
	struct api_hold *next;
	struct named_box *boxes; /* owned */
	size_t count;
};

struct api_quotas {
	pthread_mutex_t lock;
	struct api_hold *holds;
};

struct api_quotas *api_quotas_new(void)
{
	struct api_quotas *q = calloc(1, sizeof(*q));

	if (q)
		pthread_mutex_init(&q->lock, NULL);
	return q;
}

void api_quotas_free(struct api_quotas *q)
{
	if (!q)
		return;
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void add_usage(struct key_usage *to, const struct key_usage *u)
{
	for (size_t i = 0; i < KEY_QUOTA_COUNT; i++)
		if (__builtin_add_overflow(to->of[i], u->of[i], &to->of[i]))
			to->of[i] = KEY_EVERYTHING;
}

/* The box of a build's RUN: the build holds what one may use from its beginning to its end. */
static bool is_of_build(const struct spec *s)
{
	return s->one_shot && strcmp(s->image, "build") == 0 &&
	       str_starts(key_name_plain(KEY_OF_BOX, s->name), API_BUILD_BOX);
}

static void take_usage(struct key_usage *from, const struct key_usage *u)
{
	for (size_t i = 0; i < KEY_QUOTA_COUNT; i++)
		if (from->of[i] != KEY_EVERYTHING)
			from->of[i] -= u->of[i] < from->of[i] ? u->of[i] : from->of[i];
}

static void take_less(struct key_usage *u, const struct key_usage *max)
{
	for (size_t i = 0; i < KEY_QUOTA_COUNT; i++)
		if (u->of[i] > max->of[i])
			u->of[i] = max->of[i];
}

static void hold_free(struct api_hold *h)
{
	free(h->boxes);
	free(h);
}

void api_quota_name(void *call, const struct spec *spec)
{
	struct api_call *c = call;
	struct api_hold *h = c->hold;
	struct named_box *boxes;

	if (!h || !spec->owner || strcmp(spec->owner, h->key_id) != 0 || is_of_build(spec))
		return;
	pthread_mutex_lock(&c->api->quotas->lock);
	boxes = reallocarray(h->boxes, h->count + 1, sizeof(*boxes));
	/* Without memory it is counted twice for a moment. */
	if (boxes) {
		h->boxes = boxes;
		boxes[h->count] = (struct named_box){0};
		str_copy(boxes[h->count].name, sizeof(boxes->name), spec->name);
		key_usage_add_box(&boxes[h->count].usage, spec);
		take_less(&boxes[h->count].usage, &h->usage);
		take_usage(&h->usage, &boxes[h->count++].usage);
	}
	pthread_mutex_unlock(&c->api->quotas->lock);
}

static bool has_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* What is on its way, but for what `names` has already. */
static void add_holds(const struct api_quotas *q, const char *key_id, char *const *names,
		      size_t count, struct key_usage *ret)
{
	for (const struct api_hold *h = q->holds; h; h = h->next) {
		if (strcmp(h->key_id, key_id) != 0)
			continue;
		add_usage(ret, &h->usage);
		for (size_t i = 0; i < h->count; i++)
			if (!has_name((const char *const *)names, count, h->boxes[i].name))
				add_usage(ret, &h->boxes[i].usage);
	}
}

static int boxes_of(struct api_call *c, struct cove *cove, struct core_key_workspaces *w,
		    struct key_usage *ret, struct err *e)
{
	char **names;
	size_t count;
	int r = core_key_usage(cove, c->who.key->id, is_of_build, w, ret, &names, &count, e);

	if (r < 0)
		return r;
	add_holds(c->api->quotas, c->who.key->id, names, count, ret);
	state_names_free(names, count);
	return 0;
}

static int snapshots_of(struct api_call *c, struct cove *cove, struct key_usage *ret, struct err *e)
{
	struct cove_snapshot_info *rows = NULL;
	struct cove_error err;
	int count = cove_snapshots(cove, NULL, &rows, &err);

	for (int i = 0; i < count; i++)
		ret->of[KEY_QUOTA_SNAPSHOTS] +=
			api_name_shown(c, KEY_OF_SNAPSHOT, rows[i].name, NULL);
	free(rows);
	return count < 0 ? api_failed(count, &err, e) : 0;
}

static int images_of(struct api_call *c, struct cove *cove, struct key_usage *ret, struct err *e)
{
	struct cove_image_info *rows = NULL;
	struct cove_error err;
	int count = cove_images(cove, &rows, &err);

	for (int i = 0; i < count; i++)
		ret->of[KEY_QUOTA_IMAGES] += api_name_shown(c, KEY_OF_IMAGE, rows[i].name, NULL);
	free(rows);
	return count < 0 ? api_failed(count, &err, e) : 0;
}

/* What the key has of all that is asked for. */
static int usage_of(struct api_call *c, struct cove *cove, const struct key_usage *more,
		    struct core_key_workspaces *w, struct key_usage *ret, struct err *e)
{
	int r = boxes_of(c, cove, w, ret, e);

	if (r == 0 && more->of[KEY_QUOTA_SNAPSHOTS])
		r = snapshots_of(c, cove, ret, e);
	if (r == 0 && more->of[KEY_QUOTA_IMAGES])
		r = images_of(c, cove, ret, e);
	return r;
}

static bool has_quotas(const struct key *k)
{
	for (size_t i = 0; i < KEY_QUOTA_COUNT; i++)
		if (k->quotas[i])
			return true;
	return false;
}

/* What counts of a workspace that is there is not asked for again by the box that will have it. */
static void take_known_workspace(struct api_hold *hold, const struct core_key_workspaces *w)
{
	uint64_t known = core_key_workspace_rest(w, hold->workspace);
	struct key_usage u = {0};

	u.of[KEY_QUOTA_DISK] = known < hold->workspace_bytes ? known : hold->workspace_bytes;
	take_usage(&hold->usage, &u);
}

static int look_at_workspaces(struct api_call *c, struct cove *cove, const struct api_hold *hold,
			      struct core_key_workspaces *w, struct err *e)
{
	if (!hold->usage.of[KEY_QUOTA_DISK] || !c->who.key->quotas[KEY_QUOTA_DISK])
		return 0;
	return core_key_workspaces_look(cove, c->who.key->id, w, e);
}

/* Takes hold; it is the call's until api_quota_release. */
static int hold_take(struct api_call *c, struct cove *cove, struct api_hold *hold, struct err *e)
{
	struct api_quotas *q = c->api->quotas;
	struct core_key_workspaces w = {0};
	struct key_usage now = {0};
	int r = look_at_workspaces(c, cove, hold, &w, e);

	str_copy(hold->key_id, sizeof(hold->key_id), c->who.key->id);
	pthread_mutex_lock(&q->lock);
	if (r == 0) /* what came meanwhile */
		r = look_at_workspaces(c, cove, hold, &w, e);
	if (r == 0)
		r = usage_of(c, cove, &hold->usage, &w, &now, e);
	if (r == 0)
		take_known_workspace(hold, &w);
	if (r == 0)
		r = key_quota_check(c->who.key, &now, &hold->usage, e);
	if (r == 0) {
		hold->next = q->holds;
		q->holds = hold;
		c->hold = hold;
	}
	pthread_mutex_unlock(&q->lock);
	core_key_workspaces_done(&w);
	if (r < 0)
		hold_free(hold);
	return r;
}

static int hold_new(struct api_call *c, struct api_hold **ret, struct err *e)
{
	*ret = NULL;
	if (c->who.is_operator || !has_quotas(c->who.key))
		return 0;
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : err_errno(e, ENOMEM, "look at the key's quotas");
}

static bool has_image(struct cove *cove, const char *name)
{
	struct image image;
	bool has = image_find(&cove->state, name, &image, NULL) == 0;

	image_done(&image);
	return has;
}

/* Of a list that ends with NULL those that are not there yet, each once. */
static uint64_t new_images(struct cove *cove, const char *const *names)
{
	uint64_t count = 0;

	for (size_t i = 0; names && names[i]; i++)
		count += !has_name(names, i, names[i]) && !has_image(cove, names[i]);
	return count;
}

static int hold_box(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
		    const char *const *images, struct err *e)
{
	struct api_hold *hold;
	struct core_spec spec;
	int r = hold_new(c, &hold, e);

	if (r < 0 || !hold)
		return r;
	r = core_spec_init(&spec, o, NULL, NULL, e);
	if (r < 0) {
		free(hold);
		return r;
	}
	key_usage_add_box(&hold->usage, &spec.spec);
	if (spec.spec.workspace) {
		str_copy(hold->workspace, sizeof(hold->workspace), spec.spec.workspace);
		hold->workspace_bytes = spec.spec.limits[LIMIT_DISK];
	}
	hold->usage.of[KEY_QUOTA_IMAGES] = new_images(cove, images);
	core_spec_done(&spec);
	return hold_take(c, cove, hold, e);
}

int api_quota_hold(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
		   struct err *e)
{
	return hold_box(c, cove, o, NULL, e);
}

int api_quota_hold_build(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
			 const char *const *images, struct err *e)
{
	return hold_box(c, cove, o, images, e);
}

int api_quota_hold_image(struct api_call *c, struct cove *cove, const char *image, struct err *e)
{
	return has_image(cove, image) ? 0 : api_quota_hold_one(c, cove, KEY_QUOTA_IMAGES, e);
}

int api_quota_hold_kept(struct api_call *c, struct cove *cove, enum key_quota_id what,
			const char *image, struct err *e)
{
	struct api_hold *hold;
	int r = hold_new(c, &hold, e);

	if (r < 0 || !hold)
		return r;
	hold->usage.of[what] = !image || !has_image(cove, image);
	hold->usage.of[KEY_QUOTA_DISK] = 1;
	hold->is_new = hold->usage.of[what];
	return hold_take(c, cove, hold, e);
}

/* What is held is not counted, but for others: this call's byte is the thing itself. */
int api_quota_rest(struct api_call *c, struct cove *cove, uint64_t *ret, struct err *e)
{
	uint64_t quota = c->who.is_operator ? 0 : c->who.key->quotas[KEY_QUOTA_DISK];
	struct core_key_workspaces w = {0};
	struct key_usage now = {0};
	uint64_t used;
	int r;

	*ret = 0;
	if (!quota)
		return 0;
	r = core_key_workspaces_look(cove, c->who.key->id, &w, e);
	if (r == 0) {
		pthread_mutex_lock(&c->api->quotas->lock);
		r = boxes_of(c, cove, &w, &now, e);
		pthread_mutex_unlock(&c->api->quotas->lock);
	}
	core_key_workspaces_done(&w);
	if (r < 0)
		return r;
	used = now.of[KEY_QUOTA_DISK];
	if (c->hold && used != KEY_EVERYTHING)
		used -= c->hold->usage.of[KEY_QUOTA_DISK];
	if (used <= quota) {
		*ret = quota - used;
		return 0;
	}
	return err_set(e, ERR_LIMIT, EDQUOT,
		       "the quota disk of key '%s' does not hold it: remove a box, snapshot or "
		       "image first, or make it smaller",
		       c->who.key->name);
}

bool api_quota_holds_new(const struct api_call *c)
{
	return c->hold && c->hold->is_new;
}

int api_quota_hold_one(struct api_call *c, struct cove *cove, enum key_quota_id what, struct err *e)
{
	return api_quota_hold_amount(c, cove, what, 1, e);
}

int api_quota_hold_amount(struct api_call *c, struct cove *cove, enum key_quota_id what,
			  uint64_t amount, struct err *e)
{
	struct api_hold *hold;
	int r = hold_new(c, &hold, e);

	if (r < 0 || !hold)
		return r;
	hold->usage.of[what] = amount;
	return hold_take(c, cove, hold, e);
}

/* What a fork may use is in the spec of its source; that of a snapshot is with it. */
static int usage_like(struct cove *cove, const char *source, uint64_t count, struct key_usage *u,
		      struct err *e)
{
	bool is_box = str_starts(source, "box:");
	struct snapshot sn;
	struct record record;
	struct spec spec;
	int r;

	if (is_box) {
		r = record_load(&cove->state, source + strlen("box:"), &record, e);
		for (uint64_t i = 0; r == 0 && i < count; i++)
			key_usage_add_box(u, &record.spec);
		if (r == 0)
			record_done(&record);
		return r;
	}
	r = snapshot_find(&cove->state, source + strlen("snapshot:"), &sn, e);
	if (r == 0) {
		autofree char *text = strdup(sn.spec);

		r = text ? spec_parse(&spec, text, strlen(text), e)
			 : err_errno(e, ENOMEM, "look at the snapshot");
		for (uint64_t i = 0; r == 0 && i < count; i++)
			key_usage_add_box(u, &spec);
	}
	snapshot_done(&sn);
	return r;
}

int api_quota_hold_like(struct api_call *c, struct cove *cove, const char *source, uint64_t count,
			struct err *e)
{
	struct api_hold *hold;
	int r;

	if (count == 0 || count > FORKS_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "'count' is 1 to %u", FORKS_MAX);
	r = hold_new(c, &hold, e);
	if (r < 0 || !hold)
		return r;
	r = usage_like(cove, source, count, &hold->usage, e);
	if (r < 0) {
		free(hold);
		return r;
	}
	return hold_take(c, cove, hold, e);
}

void api_quota_release(struct api_call *c)
{
	struct api_quotas *q = c->api->quotas;
	struct api_hold **at;

	if (!c->hold)
		return;
	pthread_mutex_lock(&q->lock);
	for (at = &q->holds; *at != c->hold; at = &(*at)->next)
		;
	*at = c->hold->next;
	pthread_mutex_unlock(&q->lock);
	hold_free(c->hold);
	c->hold = NULL;
}
