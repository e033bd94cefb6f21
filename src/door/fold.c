/* See fold.h. A full table gives up its oldest, which is written. */
#include "door/fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/audit_row.h"

static bool is_one_of(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (s && strcmp(s, *list) == 0)
			return true;
	return false;
}

/* A connection or request that was let through stands for itself: what became of it is another
 * row, and it is on disk before a byte leaves. So does what a person did. That a name was looked up
 * again says nothing new. */
static bool may_fold(const struct audit_row *row)
{
	static const char *const kinds[] = {"name", "connect", "request", NULL};
	static const char *const verdicts[] = {"deny", "ask", "failed", NULL};

	return is_one_of(row->kind, kinds) && !row->about &&
	       (is_one_of(row->verdict, verdicts) || strcmp(row->kind, "name") == 0);
}

/* Writes its count, if it has any. */
static int flush(struct folds *f, struct fold *one)
{
	struct audit_row row;
	char *text;
	int r;

	if (one->count == 0)
		return 0;
	text = strdup(one->text);
	r = text ? audit_row_unpack(&row, text) : -ENOMEM;
	if (r == 0) {
		row.count = one->count;
		r = f->write(f->arg, &row);
	}
	one->count = 0;
	free(text);
	return r;
}

static int drop(struct folds *f, struct fold *one)
{
	int r = flush(f, one);

	free(one->text);
	*one = (struct fold){0};
	return r;
}

int folds_take(struct folds *f, const struct audit_row *row, uint64_t now_ms)
{
	struct audit_row same = *row;
	struct fold *place = &f->list[0];
	struct buf packed;
	char *text;
	int r;

	if (!may_fold(row))
		return 0;
	same.seq = same.time_ms = same.count = same.duration_ms = 0;
	buf_init(&packed, AUDIT_ROW_MAX);
	r = audit_row_pack(&packed, &same);
	text = r == 0 && buf_cstr(&packed) ? strdup(buf_cstr(&packed)) : NULL;
	buf_done(&packed);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < FOLDS_MAX; i++) {
		struct fold *one = &f->list[i];

		if (one->text && strcmp(one->text, text) == 0) {
			one->count++;
			free(text);
			return 1;
		}
		if (place->text && (!one->text || one->until_ms < place->until_ms))
			place = one;
	}
	r = drop(f, place);
	*place = (struct fold){.text = text, .until_ms = now_ms + FOLD_MS};
	return r;
}

int folds_due(struct folds *f, uint64_t now_ms, uint64_t *ret_next_ms)
{
	int r = 0, failed = 0;

	*ret_next_ms = 0;
	for (size_t i = 0; i < FOLDS_MAX; i++) {
		struct fold *one = &f->list[i];

		if (!one->text)
			continue;
		if (one->until_ms <= now_ms && one->count == 0) {
			(void)drop(f, one);
			continue;
		}
		/* It goes on, perhaps: the next ones are counted too. */
		if (one->until_ms <= now_ms) {
			r = flush(f, one);
			failed = r < 0 ? r : failed;
			one->until_ms = now_ms + FOLD_MS;
		}
		if (*ret_next_ms == 0 || one->until_ms < *ret_next_ms)
			*ret_next_ms = one->until_ms;
	}
	return failed;
}

int folds_done(struct folds *f)
{
	int failed = 0;

	for (size_t i = 0; i < FOLDS_MAX; i++) {
		int r = drop(f, &f->list[i]);

		failed = r < 0 ? r : failed;
	}
	return failed;
}

void row_rate_init(struct row_rate *r, uint64_t now_ms)
{
	*r = (struct row_rate){.left = AUDIT_BURST, .at_ms = now_ms};
}

uint64_t row_rate_pay(struct row_rate *r, uint64_t bytes, uint64_t now_ms)
{
	const uint64_t full_ms = 2000ull * AUDIT_BURST / AUDIT_RATE; /* enough for any debt */
	uint64_t passed = now_ms > r->at_ms ? now_ms - r->at_ms : 0;

	r->left += (int64_t)((passed < full_ms ? passed : full_ms) * AUDIT_RATE / 1000);
	if (r->left > (int64_t)AUDIT_BURST)
		r->left = AUDIT_BURST;
	r->at_ms = now_ms;
	r->left -= (int64_t)bytes;
	return r->left < 0 ? 1 + (uint64_t)-r->left * 1000 / AUDIT_RATE : 0;
}
