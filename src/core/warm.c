/* Boxes that are made ahead of time; see warm.h. */
#include "core/warm.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/pass.h"
#include "base/str.h"
#include "core/door.h"
#include "core/key_usage.h"
#include "core/life.h"
#include "core/walls.h"
#include "storage/storage.h"
#include "store/pins.h"
#include "store/premade.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	AT_ONCE = 4, /* keepers that start side by side, in one pass */
	AGE_MAX_MS =
		3600000, /* then another takes its place: an older one's parts get out of date */
	BACK_OFF_MS = 2000,
	BACK_OFF_MAX_MS = 60000,
	LOOK_AGAIN_MS = 3000,	 /* at the image of a pool, and at what is there */
	MEMORY_LEAST_SHARE = 10, /* percent that the host is to have left */
	END_MS = 5000,
};

struct back_off {
	char pool[WARM_ID_SIZE];
	uint64_t until_ms, wait_ms;
	char why[WARM_WHY_MAX];
};

/* The layers that a pool's boxes stand on stay, although no record names them. */
struct warm_pins {
	char pool[WARM_ID_SIZE]; /* "": of none */
	struct layer_pins pins;
};

struct core_warm {
	pthread_mutex_t lock; /* of the list alone */
	struct core_premade *list;
	int wake_fd;   /* owned: core_warm_fd */
	int stop_fd;   /* owned: readable once passes are to end */
	int filler_fd; /* owned; -1: another server fills, or there is no pool */
	struct warm_pins pins[WARM_POOLS_MAX];
	struct back_off failed[WARM_POOLS_MAX];
	size_t failed_count;
	struct warm_pool published[WARM_POOLS_MAX]; /* what was written last */
	size_t published_count;
};

int core_warm_new(struct core_warm **ret)
{
	struct core_warm *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->filler_fd = -1;
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->stop_fd = w->wake_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->stop_fd < 0) {
		int r = -errno;

		fd_close(&w->wake_fd);
		free(w);
		return r;
	}
	pthread_mutex_init(&w->lock, NULL);
	*ret = w;
	return 0;
}

/* ---- the layers below ---- */

static void pins_close(struct cove *cove, struct warm_pins *p)
{
	if (p->pool[0] && core_ids(cove, NULL) == 0)
		layer_pins_close(&cove->state, &cove->ids, &p->pins);
	p->pool[0] = 0;
}

static bool pins_are(const struct warm_pins *p, const struct spec *spec)
{
	if (p->pins.count != spec->layer_count)
		return false;
	for (size_t i = 0; i < spec->layer_count; i++)
		if (strcmp(p->pins.ids[i], spec->layers[i]) != 0)
			return false;
	return true;
}

static int pins_open(struct cove *cove, struct warm_pins *p, const char *pool,
		     const struct spec *spec, struct err *e)
{
	autoclose int lock = -1;
	int r;

	p->pins = LAYER_PINS_NONE;
	r = layer_pins_open(&cove->state, &p->pins, e);
	if (r < 0)
		return r;
	str_copy(p->pool, sizeof(p->pool), pool);
	r = layers_lock(&cove->state, &lock, e);
	for (size_t i = 0; i < spec->layer_count && r == 0; i++)
		r = layer_pins_add(&cove->state, &p->pins, spec->layers[i], e);
	if (r < 0)
		pins_close(cove, p);
	return r;
}

/* Those of this pool, as they are to be. */
static int pins_hold(struct cove *cove, const char *pool, const struct spec *spec, struct err *e)
{
	struct core_warm *w = cove->warm;
	struct warm_pins *at = NULL;

	for (size_t i = 0; i < WARM_POOLS_MAX; i++)
		if (strcmp(w->pins[i].pool, pool) == 0) {
			if (pins_are(&w->pins[i], spec))
				return 0;
			at = &w->pins[i];
			pins_close(cove, at);
		}
	for (size_t i = 0; i < WARM_POOLS_MAX && !at; i++)
		if (!w->pins[i].pool[0])
			at = &w->pins[i];
	return at ? pins_open(cove, at, pool, spec, e)
		  : err_set(e, ERR_LIMIT, E2BIG, "too many pools");
}

/* ---- one of them ---- */

static void options_free(struct cove_box_options *o)
{
	if (!o)
		return;
	free((char *)(uintptr_t)o->image);
	free((char *)(uintptr_t)o->owner);
	free(o);
}

void core_premade_free(struct core_premade *p)
{
	if (!p)
		return;
	fd_close(&p->sock);
	fd_close(&p->dir_fd);
	if (p->spec)
		core_spec_done(p->spec);
	free(p->spec);
	options_free(p->options);
	free(p);
}

/* Its keeper takes back what it made, and the directory goes. */
static void premade_end(struct cove *cove, struct core_premade *p)
{
	struct pollfd end = {.fd = p->sock, .events = POLLIN};
	char gone[32], rest[256];
	struct err e = {0};

	if (p->sock >= 0) {
		shutdown(p->sock, SHUT_WR);
		while (poll(&end, 1, END_MS) > 0 && read(p->sock, rest, sizeof(rest)) > 0)
			;
	}
	state_gone_name(gone);
	if (renameat(cove->state.boxes_fd, p->dir, cove->state.boxes_fd, gone) == 0 &&
	    (core_ids(cove, &e) < 0 ||
	     storage_delete(cove->state.home_fd, cove->state.boxes_fd, gone, &cove->ids, &e) < 0))
		log_debug("delete what was made ahead: %s", e.msg);
	core_premade_free(p);
}

/* While it waits its keeper sends nothing. */
static bool is_alive(const struct core_premade *p)
{
	struct pollfd event = {.fd = p->sock, .events = POLLIN};

	return poll(&event, 1, 0) == 0;
}

/* ---- taking ---- */

static struct core_premade *find(struct core_warm *w, const struct spec *asked)
{
	for (struct core_premade **at = &w->list; *at; at = &(*at)->next) {
		struct core_premade *p = *at;

		if (!premade_fits(&p->spec->spec, asked) || !is_alive(p))
			continue;
		*at = p->next;
		p->next = NULL;
		return p;
	}
	return NULL;
}

struct core_premade *core_warm_take(struct cove *cove, const struct core_spec *asked)
{
	const uint64_t one = 1;
	struct core_warm *w = cove->warm;
	struct core_premade *p;

	if (!w || asked->keep || asked->secret_count || asked->makes_workspace ||
	    cove->wall_program)
		return NULL;
	pthread_mutex_lock(&w->lock);
	p = find(w, &asked->spec);
	pthread_mutex_unlock(&w->lock);
	if (p && write(w->wake_fd, &one, sizeof(one)) < 0)
		ASSERT(errno == EAGAIN);
	return p;
}

int core_warm_fd(const struct core_warm *w)
{
	return w->wake_fd;
}

void core_warm_give_back(struct cove *cove, struct core_premade *p)
{
	struct core_warm *w = cove->warm;

	pthread_mutex_lock(&w->lock);
	p->next = w->list;
	w->list = p;
	pthread_mutex_unlock(&w->lock);
}

void core_warm_stop(struct core_warm *w)
{
	const uint64_t one = 1;

	if (write(w->stop_fd, &one, sizeof(one)) < 0)
		ASSERT(errno == EAGAIN);
}

static bool is_stopped(const struct core_warm *w)
{
	struct pollfd stop = {.fd = w->stop_fd, .events = POLLIN};

	return poll(&stop, 1, 0) > 0;
}

static int stopped(struct err *e)
{
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "the server ends");
}

void core_warm_free(struct core_warm *w, struct cove *cove)
{
	struct core_premade *p;

	if (!w)
		return;
	for (p = w->list; p; p = p->next) /* all at once */
		shutdown(p->sock, SHUT_WR);
	while ((p = w->list)) {
		w->list = p->next;
		premade_end(cove, p);
	}
	for (size_t i = 0; i < WARM_POOLS_MAX; i++)
		pins_close(cove, &w->pins[i]);
	fd_close(&w->filler_fd);
	fd_close(&w->wake_fd);
	fd_close(&w->stop_fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* ---- making ---- */

/* As what a pool's boxes are made: as one whose maker asks for nothing but the image. */
static int pool_spec(struct cove *cove, const struct warm_pool *pool, struct core_premade *p,
		     struct err *e)
{
	struct cove_box_options *o = calloc(1, sizeof(*o));
	int r;

	p->options = o;
	p->spec = calloc(1, sizeof(*p->spec));
	if (!o || !p->spec)
		return err_errno(e, ENOMEM, "make a box ahead");
	*o = (struct cove_box_options){.size = sizeof(*o), .disk_bytes = pool->disk_bytes};
	o->image = strdup(pool->image);
	o->owner = pool->owner[0] ? strdup(pool->owner) : NULL;
	if (!o->image || (pool->owner[0] && !o->owner))
		return err_errno(e, ENOMEM, "make a box ahead");
	r = core_spec_init(p->spec, o, NULL, NULL, e);
	if (r == 0)
		r = wall_choose(cove, p->spec, e);
	if (r == 0)
		r = network_choose(cove, p->spec, o, e);
	if (r == 0)
		r = life_image(cove, &p->spec->spec, &p->spec->image, e);
	if (r == 0 && !(wall_info_find(p->spec->spec.wall)->flags & WALL_PREMADE))
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "boxes behind the wall '%s' cannot be made ahead", p->spec->spec.wall);
	/* Never the way of no network, whatever the default policy is: it is the door's to read. */
	if (r == 0 && net_is_closed(p->spec->spec.net))
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "the default policy is 'closed': such boxes are not made ahead");
	return r;
}

static int premade_new(struct cove *cove, const struct warm_pool *pool, struct core_premade **ret,
		       struct err *e)
{
	struct core_premade *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_errno(e, ENOMEM, "make a box ahead");
	p->dir_fd = p->sock = -1;
	str_copy(p->pool, sizeof(p->pool), pool->id);
	r = pool_spec(cove, pool, p, e);
	if (r < 0)
		core_premade_free(p);
	else
		*ret = p;
	return r;
}

static int premade_start(struct cove *cove, struct core_premade *p, struct err *e)
{
	int r = spawn_find_programs(cove, e);

	if (r == 0)
		r = state_make(&cove->state, e);
	if (r < 0)
		return r;
	r = state_new_dir(cove->state.boxes_fd, p->dir, &p->dir_fd);
	if (r < 0)
		return state_error(&cove->state, -r, "make a box ahead in", e);
	r = record_prepare(&cove->state, p->dir_fd, e);
	if (r < 0)
		return r;
	p->made_ms = clock_mono_ms();
	return life_spawn_keeper(
		cove,
		&(struct life_start){
			.spec = &p->spec->spec, .lock_fd = -1, .warm_fd = -1, .premade = p->dir},
		&p->sock, e);
}

/* A keeper that could not do it says why, as it would to any first client. */
static int take_error(int sock, const uint8_t *first, size_t n, struct err *e)
{
	struct wire_decoder d;
	struct wire_frame f;
	struct wire_error m;
	uint8_t *space;
	size_t room;
	int r = 0;

	wire_decoder_init(&d);
	space = wire_decoder_space(&d, &room);
	n = n < room ? n : room;
	if (space && n > 0) {
		memcpy(space, first, n);
		wire_decoder_fill(&d, n);
		r = wire_decoder_next(&d, &f);
	}
	while (r == 0 && n > 0 && (space = wire_decoder_space(&d, &room))) {
		ssize_t got = read(sock, space, room);

		if (got <= 0)
			break;
		wire_decoder_fill(&d, (size_t)got);
		r = wire_decoder_next(&d, &f);
	}
	if (r > 0 && f.type == WIRE_ERROR && wire_error_decode(&f, &m) == 0)
		err_set(e, ERR_INTERNAL, m.code ? (int)m.code : EIO, "%s", m.msg ? m.msg : "");
	else
		err_set(e, ERR_INTERNAL, EIO, "the keeper of a box that is made ahead died");
	wire_decoder_done(&d);
	return -EIO;
}

static int premade_await_ready(struct core_warm *w, struct core_premade *p, struct err *e)
{
	struct pollfd fds[] = {{.fd = p->sock, .events = POLLIN},
			       {.fd = w->stop_fd, .events = POLLIN}};
	uint64_t end = p->made_ms + START_WAIT_MS, now = clock_mono_ms();
	uint8_t byte;
	ssize_t n;

	while (poll(fds, 2, now < end ? (int)(end - now) : 0) < 0 && errno == EINTR)
		now = clock_mono_ms();
	if (!fds[0].revents && fds[1].revents)
		return stopped(e);
	if (!fds[0].revents)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "a box was not made ahead within %d s",
			       START_WAIT_MS / 1000);
	n = read(p->sock, &byte, 1);
	if (n == 1 && byte == PREMADE_READY)
		return 0;
	return take_error(p->sock, &byte, n == 1, e);
}

static int premake(struct cove *cove, const struct warm_pool *pool, size_t count,
		   struct core_warm_passed *ret, struct err *e)
{
	struct core_premade *made[AT_ONCE] = {NULL};
	struct core_warm *w = cove->warm;
	struct err why;
	int first = 0, r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = is_stopped(w) ? stopped(e) : premade_new(cove, pool, &made[i], e);
		if (r == 0)
			r = premade_start(cove, made[i], e);
	}
	for (size_t i = 0; i < count && made[i]; i++) {
		bool started = made[i]->sock >= 0;
		int got = started ? premade_await_ready(w, made[i], &why) : -1;

		if (got == 0) {
			core_warm_give_back(cove, made[i]);
			ret->made++;
			continue;
		}
		if (started && first == 0) {
			first = got;
			if (r == 0)
				*e = why;
		}
		premade_end(cove, made[i]);
	}
	return r < 0 ? r : first;
}

/* ---- a pass ---- */

/* As what a pool's boxes are made today. */
struct pool_now {
	struct core_premade *like; /* owned; NULL: none can be made */
	bool is_unknown;	   /* it could not be found out: those that wait stay */
};

/* What is short for a moment (descriptors, memory, a disk that fails) says nothing of the pool. */
static bool is_passing(const struct err *e)
{
	return e->kind == ERR_LIMIT || e->kind == ERR_FULL || e->kind == ERR_INTERNAL ||
	       e->kind == ERR_TIMEOUT || e->kind == ERR_CONFLICT;
}

static const struct warm_pool *pool_of(const struct core_premade *p, const struct warm_pool *pools,
				       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(pools[i].id, p->pool) == 0)
			return &pools[i];
	return NULL;
}

/* Of pools that are gone, whose boxes are, too. */
static void drop_pins(struct cove *cove, const struct warm_pool *pools, const struct pool_now *now,
		      size_t count)
{
	struct core_warm *w = cove->warm;

	for (size_t i = 0; i < WARM_POOLS_MAX; i++) {
		bool is_there = false;

		for (size_t k = 0; k < count; k++)
			is_there = is_there || ((now[k].like || now[k].is_unknown) &&
						strcmp(pools[k].id, w->pins[i].pool) == 0);
		if (!is_there)
			pins_close(cove, &w->pins[i]);
	}
}

static bool is_fit(const struct core_premade *p, const struct pool_now *now)
{
	if (clock_mono_ms() - p->made_ms >= AGE_MAX_MS || !is_alive(p))
		return false;
	return now->is_unknown ||
	       (now->like && premade_fits(&p->spec->spec, &now->like->spec->spec));
}

/* A list of those that are to go, taken out; the rest is counted in the pools. */
static struct core_premade *pick_stale(struct cove *cove, struct warm_pool *pools,
				       const struct pool_now *now, size_t count)
{
	struct core_warm *w = cove->warm;
	struct core_premade *stale = NULL, **at = &w->list;

	pthread_mutex_lock(&w->lock);
	while (*at) {
		struct core_premade *p = *at;
		const struct warm_pool *pool = pool_of(p, pools, count);
		size_t i = pool ? (size_t)(pool - pools) : 0;

		if (pool && pools[i].ready < pools[i].size && is_fit(p, &now[i])) {
			pools[i].ready++;
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = stale;
		stale = p;
	}
	pthread_mutex_unlock(&w->lock);
	return stale;
}

static struct back_off *back_off_of(struct core_warm *w, const char *pool, bool make)
{
	for (size_t i = 0; i < w->failed_count; i++)
		if (strcmp(w->failed[i].pool, pool) == 0)
			return &w->failed[i];
	if (!make)
		return NULL;
	if (w->failed_count == WARM_POOLS_MAX) /* pools come and go */
		w->failed_count = 0;
	w->failed[w->failed_count] = (struct back_off){.wait_ms = BACK_OFF_MS / 2};
	str_copy(w->failed[w->failed_count].pool, WARM_ID_SIZE, pool);
	return &w->failed[w->failed_count++];
}

static void forget_failure(struct core_warm *w, const char *pool)
{
	struct back_off *b = back_off_of(w, pool, false);

	if (b)
		*b = w->failed[--w->failed_count];
}

static void note_failure(struct core_warm *w, struct warm_pool *pool, const struct err *e,
			 struct core_warm_passed *ret)
{
	struct back_off *b = back_off_of(w, pool->id, true);

	b->wait_ms = b->wait_ms * 2 < BACK_OFF_MAX_MS ? b->wait_ms * 2 : BACK_OFF_MAX_MS;
	b->until_ms = clock_mono_ms() + b->wait_ms;
	snprintf(b->why, sizeof(b->why), "%.*s", WARM_WHY_MAX - 1, e->msg);
	str_copy(pool->why, sizeof(pool->why), b->why);
	ret->failed++;
	if (!ret->why[0])
		str_copy(ret->why, sizeof(ret->why), b->why);
	if (b->wait_ms < ret->next_ms)
		ret->next_ms = b->wait_ms;
}

/* The same that is found in each pass, whatever is tried. */
static void note_still(struct core_warm *w, struct warm_pool *pool, const struct err *e,
		       struct core_warm_passed *ret)
{
	const struct back_off *b = back_off_of(w, pool->id, false);

	if (b && b->until_ms > clock_mono_ms())
		str_copy(pool->why, sizeof(pool->why), b->why);
	else
		note_failure(w, pool, e, ret);
}

/* While this host has little memory left boxes that somebody asks for come first. */
static bool is_short_of_memory(void)
{
	uint64_t total, left;

	return core_host_memory(&total, &left, NULL) == 0 &&
	       left < total / 100 * MEMORY_LEAST_SHARE;
}

/* Whose it is; 1: the operator's, who has no quotas. */
static int read_owner(struct cove *cove, const struct warm_pool *pool, struct key *ret,
		      struct err *e)
{
	int r;

	*ret = (struct key){0};
	if (!pool->owner[0])
		return 1;
	r = key_read(&cove->state, pool->owner, ret, e);
	return r == 0 && ret->revoked_ms
		       ? err_set(e, ERR_DENIED, EACCES, "the key whose it is was removed")
		       : r;
}

/* What the key has: its boxes, and those that wait in its other pools. */
static int usage_of(struct cove *cove, const struct warm_pool *pool, const struct key *key,
		    struct key_usage *ret, struct err *e)
{
	struct core_key_workspaces workspaces = {0};
	struct core_warm *w = cove->warm;
	int r = key->quotas[KEY_QUOTA_DISK]
			? core_key_workspaces_look(cove, pool->owner, &workspaces, e)
			: 0;

	if (r == 0)
		r = core_key_usage(cove, pool->owner, NULL, &workspaces, ret, NULL, NULL, e);
	core_key_workspaces_done(&workspaces);
	pthread_mutex_lock(&w->lock);
	for (const struct core_premade *p = w->list; p; p = p->next)
		if (strcmp(p->pool, pool->id) != 0 && p->spec->spec.owner &&
		    strcmp(p->spec->spec.owner, pool->owner) == 0)
			key_usage_add_box(ret, &p->spec->spec);
	pthread_mutex_unlock(&w->lock);
	return r;
}

/* What is made ahead is to fit into what a key's boxes and its other pools leave of its quotas:
 * *count may be less then. 0 and *count 0 is not: an error says why none fits. */
static int fit_quota(struct cove *cove, const struct warm_pool *pool, const struct spec *spec,
		     size_t *count, struct err *e)
{
	struct key_usage now = {0};
	struct key key;
	int r = read_owner(cove, pool, &key, e);

	if (r == 0)
		r = usage_of(cove, pool, &key, &now, e);
	for (bool fits = r != 0; !fits && r == 0;) {
		struct key_usage ahead = {0};

		for (size_t i = 0; i < pool->ready + *count; i++)
			key_usage_add_box(&ahead, spec);
		fits = key_quota_check(&key, &now, &ahead, e) == 0;
		if (!fits && --*count == 0)
			r = -EAGAIN;
	}
	key_done(&key);
	return r < 0 ? r : 0;
}

/* Up to AT_ONCE more for one pool. */
static void fill(struct cove *cove, struct warm_pool *pool, const struct core_premade *like,
		 uint64_t room, struct core_warm_passed *ret)
{
	struct core_warm *w = cove->warm;
	struct back_off *b = back_off_of(w, pool->id, false);
	uint64_t now_ms = clock_mono_ms(), made = ret->made;
	uint64_t max = pool->owner[0] ? WARM_KEYS_MAX : WARM_TOTAL_MAX;
	struct core_hold *hold = NULL;
	size_t count = pool->size - pool->ready < AT_ONCE ? pool->size - pool->ready : AT_ONCE;
	struct err e = {0};
	int r = 0;

	if (b && b->until_ms > now_ms) {
		str_copy(pool->why, sizeof(pool->why), b->why);
		if (b->until_ms - now_ms < ret->next_ms)
			ret->next_ms = b->until_ms - now_ms;
		return;
	}
	if (count > room)
		count = room;
	if (count == 0)
		r = err_set(&e, ERR_LIMIT, E2BIG, "%s together hold %u boxes at most",
			    pool->owner[0] ? "the pools of all keys" : "all pools", (unsigned)max);
	else if (is_short_of_memory())
		r = err_set(&e, ERR_LIMIT, ENOMEM, "less than %d %% of this host's memory is left",
			    MEMORY_LEAST_SHARE);
	else
		r = fit_quota(cove, pool, &like->spec->spec, &count, &e);
	/* What boxes must have, and what is to be left of this host, as for any that begins. */
	if (r == 0)
		r = core_admit(cove, &like->spec->spec, &hold, &e);
	core_hold_end(hold); /* only asked: one that was not taken takes no room from others */
	if (r == 0)
		r = pins_hold(cove, pool->id, &like->spec->spec, &e);
	if (r == 0)
		r = premake(cove, pool, count, ret, &e);
	pool->ready += ret->made - made;
	if (r < 0 && r != -ECANCELED)
		note_failure(w, pool, &e, ret);
	else if (r == 0)
		forget_failure(w, pool->id);
	if (r == 0 && pool->ready < pool->size)
		ret->next_ms = 0;
}

static bool is_published(const struct core_warm *w, const struct warm_pool *pools, size_t count)
{
	const struct warm_pool *was = w->published;

	if (w->published_count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (was[i].ready != pools[i].ready || was[i].created_ms != pools[i].created_ms ||
		    strcmp(was[i].id, pools[i].id) != 0 || strcmp(was[i].why, pools[i].why) != 0)
			return false;
	return true;
}

/* What could not be written is tried again by the next pass. */
static void state_publish(struct cove *cove, const struct warm_pool *pools, size_t count)
{
	struct core_warm *w = cove->warm;

	if (is_published(w, pools, count))
		return;
	if (warm_state_write(&cove->state, pools, count) < 0) {
		log_debug("the state of the pools could not be written");
		return;
	}
	w->published_count = count;
	memcpy(w->published, pools, count * sizeof(*pools));
}

static uint64_t room_for(const struct warm_pool *pool, uint64_t total, uint64_t of_keys)
{
	uint64_t all = total < WARM_TOTAL_MAX ? WARM_TOTAL_MAX - total : 0;
	uint64_t keys = of_keys < WARM_KEYS_MAX ? WARM_KEYS_MAX - of_keys : 0;

	return pool->owner[0] && keys < all ? keys : all;
}

static void look_at_pools(struct cove *cove, struct warm_pool *pools, size_t count,
			  struct core_warm_passed *ret)
{
	struct pool_now now[WARM_POOLS_MAX] = {0};
	struct core_premade *stale, *next;
	uint64_t total = 0, of_keys = 0;

	for (size_t i = 0; i < count; i++) {
		struct err e = {0};
		struct key key;

		pools[i].ready = 0;
		pools[i].why[0] = 0;
		if (read_owner(cove, &pools[i], &key, &e) < 0 ||
		    premade_new(cove, &pools[i], &now[i].like, &e) < 0) {
			now[i].is_unknown = is_passing(&e);
			note_still(cove->warm, &pools[i], &e, ret);
		}
		key_done(&key);
	}
	stale = pick_stale(cove, pools, now, count);
	for (; stale; stale = next) {
		next = stale->next;
		premade_end(cove, stale);
		ret->dropped++;
	}
	drop_pins(cove, pools, now, count);
	for (size_t i = 0; i < count; i++) {
		total += pools[i].ready;
		of_keys += pools[i].owner[0] ? pools[i].ready : 0;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t had = pools[i].ready, more;

		if (now[i].like && pools[i].ready < pools[i].size && !is_stopped(cove->warm))
			fill(cove, &pools[i], now[i].like, room_for(&pools[i], total, of_keys),
			     ret);
		more = pools[i].ready - had;
		total += more;
		of_keys += pools[i].owner[0] ? more : 0;
	}
	for (size_t i = 0; i < count; i++)
		core_premade_free(now[i].like);
}

int core_warm_pass(struct cove *cove, struct core_warm_passed *ret, struct err *e)
{
	struct core_warm *w = cove->warm;
	struct warm_pool *pools = NULL;
	size_t count = 0;
	int r = warm_pool_list(&cove->state, &pools, &count, e);

	*ret = (struct core_warm_passed){.next_ms = UINT64_MAX};
	if (r < 0)
		return r;
	cove->patience = (struct core_patience){0}; /* who asks comes first */
	if (count > 0 && w->filler_fd < 0)
		r = warm_filler_lock(&cove->state, &w->filler_fd);
	if (r == 0) {
		if (count > 0)
			ret->next_ms = LOOK_AGAIN_MS;
		look_at_pools(cove, pools, count, ret);
		if (w->filler_fd >= 0)
			state_publish(cove, pools, count);
	} else if (r == -EBUSY) { /* another server's */
		ret->next_ms = LOOK_AGAIN_MS;
		r = 0;
	} else {
		state_error(&cove->state, -r, "fill the pools of", e);
	}
	free(pools);
	return r;
}
