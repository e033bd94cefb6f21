/* Room on this host; see admission.h. */
#include "core/admission.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"
#include "core/core.h"
#include "core/walls.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

enum { MEMINFO_MAX = 64 << 10, SAY_OWNERS = 3, OWNERS_MAX = 64 };

/* What one box may use. */
struct room {
	uint64_t memory, disk;
};

struct held_box {
	char name[BOX_NAME_MAX + 1], owner[KEY_ID_SIZE];
	struct room room; /* memory: 0 where it does not run */
};

struct core_hold {
	struct core_admission *of;
	struct core_hold *next;
	struct held_box box;
	bool over; /* its record tells, as soon as the records are read */
};

struct waiter {
	struct waiter *next;
};

struct core_admission {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct core_admission_options o;
	struct core_hold *holds; /* owned */
	struct held_box *seen;	 /* owned: what the records said at seen_ms, by name */
	size_t seen_count;
	uint64_t seen_ms;
	struct waiter *first; /* on the stacks of those who wait */
	unsigned waiting;
};

/* What a question is about. */
struct admission_ask {
	struct core_admission *a;
	struct cove *cove;
	struct held_box box;
	struct room total; /* of the host; 0: it has no share */
	struct room now;
	uint64_t came_ms;
};

bool core_share_parse(const char *text, struct core_share *ret)
{
	size_t n = strlen(text);
	char digits[16];

	*ret = (struct core_share){0};
	if (n == 0 || text[n - 1] != '%')
		return size_parse(text, &ret->bytes) && ret->bytes > 0;
	if (n > sizeof(digits))
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)(n - 1), text);
	return str_parse_u64(digits, 100000, &ret->percent) && ret->percent > 0;
}

struct core_admission *core_admission_new(const struct core_admission_options *o)
{
	struct core_admission *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	a->o = *o;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->changed, &attr);
	pthread_condattr_destroy(&attr);
	return a;
}

void core_admission_set(struct core_admission *a, const struct core_admission_options *o)
{
	pthread_mutex_lock(&a->lock);
	a->o = *o;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

void core_admission_free(struct core_admission *a)
{
	if (!a)
		return;
	while (a->holds) {
		struct core_hold *h = a->holds;

		a->holds = h->next;
		free(h);
	}
	free(a->seen);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* ---- what the boxes hold ---- */

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void box_of(struct held_box *ret, const struct spec *spec, bool runs)
{
	struct key_usage u = {0};

	key_usage_add_box(&u, spec);
	*ret = (struct held_box){.room = {runs ? u.of[KEY_QUOTA_MEM] : 0, u.of[KEY_QUOTA_DISK]}};
	str_copy(ret->name, sizeof(ret->name), spec->name);
	str_copy(ret->owner, sizeof(ret->owner), spec->owner ? spec->owner : "");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct held_box *)a)->name, ((const struct held_box *)b)->name);
}

static bool has_share(const struct core_admission_options *o)
{
	return o->memory.percent || o->memory.bytes || o->disk.percent || o->disk.bytes;
}

static void drop_over(struct core_admission *a)
{
	struct core_hold **at = &a->holds;

	while (*at) {
		struct core_hold *h = *at;

		if (h->over) {
			*at = h->next;
			free(h);
		} else {
			at = &h->next;
		}
	}
}

static int look(struct core_admission *a, struct cove *cove, struct err *e)
{
	struct held_box *seen;
	uint64_t began_ms = clock_mono_ms();
	size_t count, n = 0;
	char **names;
	int r = record_names(&cove->state, &names, &count, e);

	if (r < 0)
		return r;
	seen = calloc(count + 1, sizeof(*seen));
	for (size_t i = 0; seen && i < count; i++) {
		struct record record;

		if (record_load(&cove->state, names[i], &record, NULL) < 0)
			continue;
		box_of(&seen[n++], &record.spec, record.state == BOX_RUNNING);
		record_done(&record);
	}
	state_names_free(names, count);
	if (!seen)
		return err_errno(e, ENOMEM, "count the boxes");
	qsort(seen, n, sizeof(*seen), by_name);
	free(a->seen);
	a->seen = seen;
	a->seen_count = n;
	a->seen_ms = began_ms;
	return 0;
}

/* What the records do not say yet of those that are on their way. */
static struct room beyond(const struct core_admission *a, const struct held_box *b)
{
	const struct held_box *s =
		a->seen_count ? bsearch(b, a->seen, a->seen_count, sizeof(*b), by_name) : NULL;
	struct room has = s ? s->room : (struct room){0};

	return (struct room){b->room.memory > has.memory ? b->room.memory - has.memory : 0,
			     b->room.disk > has.disk ? b->room.disk - has.disk : 0};
}

static void add_room(struct room *to, struct room r)
{
	to->memory = plus(to->memory, r.memory);
	to->disk = plus(to->disk, r.disk);
}

static struct room sum(const struct core_admission *a)
{
	struct room all = {0};

	for (size_t i = 0; i < a->seen_count; i++)
		add_room(&all, a->seen[i].room);
	for (const struct core_hold *h = a->holds; h; h = h->next)
		add_room(&all, beyond(a, &h->box));
	return all;
}

/* ---- what the host has ---- */

int core_host_memory(uint64_t *ret_total, uint64_t *ret_available, struct err *e)
{
	autofree char *text = NULL;
	const char *total, *available;
	int r = fd_read_file(AT_FDCWD, "/proc/meminfo", MEMINFO_MAX, &text, NULL);

	if (r < 0)
		return err_errno(e, -r, "read /proc/meminfo");
	total = strstr(text, "MemTotal:");
	available = strstr(text, "MemAvailable:");
	if (!total || !available)
		return err_set(e, ERR_INTERNAL, EINVAL, "/proc/meminfo does not say what is free");
	*ret_total = strtoull(total + strlen("MemTotal:"), NULL, 10) << 10;
	*ret_available = strtoull(available + strlen("MemAvailable:"), NULL, 10) << 10;
	return 0;
}

uint64_t core_disk_reserve(const struct cove *cove)
{
	struct core_admission *a = cove->admission;
	uint64_t reserve;

	if (!a)
		return 0;
	pthread_mutex_lock(&a->lock);
	reserve = a->o.disk_reserve;
	pthread_mutex_unlock(&a->lock);
	return reserve;
}

int core_disk_check(const struct cove *cove, struct err *e)
{
	uint64_t reserve = core_disk_reserve(cove);
	struct statvfs disk;

	if (!reserve)
		return 0;
	if (statvfs(cove->state.home, &disk) < 0)
		return err_errno(e, errno, "look at the disk of '%s'", cove->state.home);
	if ((uint64_t)disk.f_bavail * disk.f_frsize >= reserve)
		return 0;
	return err_set(e, ERR_FULL, ENOSPC,
		       "the server's disk has no room for the request: its operator can make some "
		       "with `cove system prune` (--disk-reserve)");
}

static uint64_t share_of(const struct core_share *s, uint64_t whole)
{
	return s->percent ? whole / 100 * s->percent : s->bytes;
}

static int below_reserve(const char *what, uint64_t left, uint64_t reserve, const char *flag,
			 struct err *e)
{
	char has[SIZE_TEXT], want[SIZE_TEXT];

	if (!reserve || left >= reserve)
		return 0;
	return err_set(e, ERR_LIMIT, EAGAIN,
		       "this host has %s of %s left, and boxes begin while it has %s (--%s)",
		       size_format(has, left), what, size_format(want, reserve), flag);
}

/* Sets q->total; refuses where the host itself runs short. */
static int ask_host(struct admission_ask *q, struct err *e)
{
	const struct core_admission_options *o = &q->a->o;
	uint64_t memory = 0, available = 0;
	struct statvfs disk;
	int r = core_host_memory(&memory, &available, e);

	if (r < 0)
		return r;
	if (statvfs(q->cove->state.home, &disk) < 0)
		return err_errno(e, errno, "look at the disk of '%s'", q->cove->state.home);
	q->total.memory = share_of(&o->memory, memory);
	q->total.disk = share_of(&o->disk, (uint64_t)disk.f_blocks * disk.f_frsize);
	r = below_reserve("memory", available, o->memory_reserve, "memory-reserve", e);
	if (r == 0)
		r = below_reserve("disk", (uint64_t)disk.f_bavail * disk.f_frsize, o->disk_reserve,
				  "disk-reserve", e);
	return r;
}

/* ---- the answer in numbers ---- */

struct admission_owner {
	char id[KEY_ID_SIZE];
	uint64_t held;
	unsigned boxes;
};

static void count_owner(struct admission_owner *all, size_t *count, const char *id, uint64_t held,
			bool more)
{
	size_t i = 0;

	if (!held)
		return;
	while (i < *count && strcmp(all[i].id, id) != 0)
		i++;
	if (i == OWNERS_MAX)
		i--; /* the last stands for all that have no row */
	if (i == *count)
		str_copy(all[(*count)++].id, KEY_ID_SIZE, id);
	all[i].held = plus(all[i].held, held);
	all[i].boxes += more;
}

static int by_held(const void *a, const void *b)
{
	uint64_t x = ((const struct admission_owner *)a)->held,
		 y = ((const struct admission_owner *)b)->held;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* To a key, two rows: its own and all others, whose names and number are not its to know. */
static const char *owner_row(const struct admission_ask *q, const char *id)
{
	return !*q->box.owner || strcmp(id, q->box.owner) == 0 ? id : "others";
}

static const char *owner_name(const struct admission_ask *q, const char *id, char ret[24])
{
	if (*q->box.owner)
		return strcmp(id, "others") == 0 ? "others" : "you";
	snprintf(ret, 24, "%s%.8s", *id ? "key " : "the operator", id);
	return ret;
}

static void say_owners(const struct admission_ask *q, bool is_memory, char *ret, size_t size)
{
	struct admission_owner all[OWNERS_MAX] = {0};
	size_t count = 0, at = 0;
	const struct core_admission *a = q->a;
	char held[SIZE_TEXT], name[24];

	for (size_t i = 0; i < a->seen_count; i++) {
		const struct held_box *b = &a->seen[i];

		count_owner(all, &count, owner_row(q, b->owner),
			    is_memory ? b->room.memory : b->room.disk, true);
	}
	for (const struct core_hold *h = a->holds; h; h = h->next) {
		struct room r = beyond(a, &h->box);

		/* One that starts is in the records with its disk, and counted. */
		count_owner(all, &count, owner_row(q, h->box.owner), is_memory ? r.memory : r.disk,
			    is_memory || r.disk == h->box.room.disk);
	}
	qsort(all, count, sizeof(all[0]), by_held);
	ret[0] = 0;
	for (size_t i = 0; i < count && i < SAY_OWNERS && at < size; i++) {
		const char *of = owner_name(q, all[i].id, name);
		int n = all[i].held == UINT64_MAX
				? snprintf(ret + at, size - at, "%s%s without limit", i ? ", " : "",
					   of)
				: snprintf(ret + at, size - at, "%s%s %s", i ? ", " : "", of,
					   size_format(held, all[i].held));

		at += (size_t)n;
		if (at < size && strcmp(of, "others") != 0)
			at += (size_t)snprintf(ret + at, size - at, " in %u", all[i].boxes);
	}
}

static int over(const struct admission_ask *q, bool is_memory, uint64_t total, struct err *e)
{
	uint64_t asked = is_memory ? q->box.room.memory : q->box.room.disk;
	char owners[120], whole[SIZE_TEXT], want[SIZE_TEXT];
	bool is_all = asked == UINT64_MAX;

	say_owners(q, is_memory, owners, sizeof(owners));
	return err_set(e, ERR_LIMIT, EAGAIN,
		       "boxes may use %s of %s together (--%s-share); held: %s; this one may use "
		       "%s",
		       size_format(whole, total), is_memory ? "memory" : "disk",
		       is_memory ? "memory" : "disk", *owners ? owners : "none",
		       is_all ? "all: give it a limit" : size_format(want, asked));
}

static bool fits(uint64_t total, uint64_t now, uint64_t more)
{
	return !total || !more || (more <= total && now <= total - more);
}

/* Is it more than the whole share? Then waiting is of no use. */
static bool is_hopeless(const struct admission_ask *q)
{
	return !fits(q->total.memory, 0, q->box.room.memory) ||
	       !fits(q->total.disk, 0, q->box.room.disk);
}

static int compare(struct admission_ask *q, struct err *e)
{
	struct room more = beyond(q->a, &q->box);

	q->now = sum(q->a);
	if (!fits(q->total.memory, q->now.memory, more.memory))
		return over(q, true, q->total.memory, e);
	if (!fits(q->total.disk, q->now.disk, more.disk))
		return over(q, false, q->total.disk, e);
	return 0;
}

/* One look: 0 is yes. What refuses has read the records after it was asked. */
static int judge(struct admission_ask *q, struct err *e)
{
	struct core_admission *a = q->a;
	int r = ask_host(q, e);

	if (r < 0 || (!q->total.memory && !q->total.disk))
		return r;
	if (a->seen && clock_mono_ms() - a->seen_ms < ADMISSION_STALE_MS) {
		r = compare(q, e);
		if (r == 0 || a->seen_ms > q->came_ms)
			return r;
	}
	/* What ended before this look is in the records now. */
	drop_over(a);
	r = look(a, q->cove, e);
	return r < 0 ? r : compare(q, e);
}

/* ---- waiting ---- */

static void wait_a_moment(struct core_admission *a, uint64_t until_ms)
{
	uint64_t now = clock_mono_ms(), to = now + ADMISSION_LOOK_MS;
	struct timespec at;

	to = to < until_ms ? to : until_ms;
	at = (struct timespec){.tv_sec = (time_t)(to / 1000),
			       .tv_nsec = (long)(to % 1000) * 1000000};
	pthread_cond_timedwait(&a->changed, &a->lock, &at);
}

/* Behind those who wait already; r and *e are why. */
static int queue(struct admission_ask *q, int r, struct err *e)
{
	const struct core_patience *p = &q->cove->patience;
	struct core_admission *a = q->a;
	uint64_t until_ms = clock_mono_ms() + p->wait_ms;
	struct waiter me = {0}, **at = &a->first;

	while (*at)
		at = &(*at)->next;
	*at = &me;
	a->waiting++;
	while (r == -EAGAIN && clock_mono_ms() < until_ms) {
		wait_a_moment(a, until_ms);
		q->came_ms = clock_mono_ms();
		/* Who asked has gone: the box would be of no use. */
		if (p->goes_on && !p->goes_on(p->arg))
			break;
		if (a->first == &me)
			r = judge(q, e);
	}
	for (at = &a->first; *at != &me; at = &(*at)->next)
		;
	*at = me.next;
	a->waiting--;
	pthread_cond_broadcast(&a->changed);
	return r;
}

static int hold_new(struct admission_ask *q, struct core_hold **ret, struct err *e)
{
	struct core_hold *h = calloc(1, sizeof(*h));

	if (!h)
		return err_errno(e, ENOMEM, "make room for box '%s'", q->box.name);
	h->of = q->a;
	h->box = q->box;
	h->next = q->a->holds;
	q->a->holds = h;
	*ret = h;
	return 0;
}

/* A box that is rolled back is held before it ends, and then it starts. */
static bool is_held(const struct core_admission *a, const char *name)
{
	for (const struct core_hold *h = a->holds; h; h = h->next)
		if (!h->over && strcmp(h->box.name, name) == 0)
			return true;
	return false;
}

int core_admit(struct cove *cove, const struct spec *spec, struct core_hold **ret, struct err *e)
{
	struct admission_ask q = {.a = cove->admission, .cove = cove, .came_ms = clock_mono_ms()};
	int r;

	*ret = NULL;
	if (!q.a)
		return 0;
	box_of(&q.box, spec, true);
	pthread_mutex_lock(&q.a->lock);
	if (q.a->o.min_wall && wall_is_weaker(spec->wall, q.a->o.min_wall)) {
		r = err_set(e, ERR_DENIED, EACCES,
			    "box '%s' has the wall '%s', and this server lets boxes with '%s' or a "
			    "stronger one begin (--min-wall)",
			    str_plain_name(spec->name), spec->wall, q.a->o.min_wall);
		pthread_mutex_unlock(&q.a->lock);
		return r;
	}
	if (is_held(q.a, q.box.name)) {
		pthread_mutex_unlock(&q.a->lock);
		return 0;
	}
	r = judge(&q, e);
	/* Who comes later does not overtake. */
	if (r == 0 && q.a->first && (q.total.memory || q.total.disk))
		r = err_set(e, ERR_LIMIT, EAGAIN, "others wait for room on this host already");
	if (r == -EAGAIN && cove->patience.wait_ms && !is_hopeless(&q) &&
	    q.a->waiting < q.a->o.waiting_max)
		r = queue(&q, r, e);
	if (r == 0 && (q.total.memory || q.total.disk))
		r = hold_new(&q, ret, e);
	pthread_mutex_unlock(&q.a->lock);
	return r;
}

struct core_hold *core_hold_keep(struct cove *cove, const struct spec *spec)
{
	struct core_admission *a = cove->admission;
	struct admission_ask q = {.a = a, .cove = cove};
	struct core_hold *h = NULL;
	struct err e;

	if (!a)
		return NULL;
	box_of(&q.box, spec, true);
	pthread_mutex_lock(&a->lock);
	if (hold_new(&q, &h, &e) < 0)
		h = NULL;
	pthread_mutex_unlock(&a->lock);
	return h;
}

void core_hold_end(struct core_hold *h)
{
	struct core_admission *a = h ? h->of : NULL;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	h->over = true;
	if (!has_share(&a->o))
		drop_over(a);
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}
