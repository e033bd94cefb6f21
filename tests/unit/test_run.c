/* Durable runs: what was done is given again and not done twice, by one owner at a time. */
#include "store_home.h"
#include "tap.h"

#include "rails/run.h"
#include "rails/values.h"
#include "store/blobs.h"

static uint64_t now = 1000000;

static uint64_t on_now(void *arg)
{
	return now;
}

static struct err e;

struct rig {
	struct rails *l;
	struct run_handle h;
};

static void rig_open(struct rig *r, struct state *s)
{
	const struct rails_options o = {.now_ms = on_now};

	if (rails_open(&r->l, s, &o, &e) < 0)
		FAIL(e.msg);
}

static void rig_reopen(struct rig *r, struct state *s)
{
	rails_close(r->l);
	rig_open(r, s);
}

static struct run_handle create(struct rails *l, const char *key)
{
	struct run_create_options o = {.name = "support",
				       .owner = "key-1",
				       .holder = "first",
				       .lease_ms = 5000,
				       .key = key,
				       .entry = "python3 agent.py"};
	struct run_handle h;

	if (run_create(l, &o, &h, &e) < 0)
		FAIL(e.msg);
	return h;
}

#define RUN_TEST(name)                                                                        \
	TEST_IN(name, (struct rig * r, struct state * s), struct state state; struct rig rig; \
		home_open(&state); rig_open(&rig, &state); rig.h = create(rig.l, NULL);       \
		body(&rig, &state); rails_close(rig.l); state_close(&state);)

static struct run_step_spec spec_of(const char *position, const char *arguments)
{
	return (struct run_step_spec){.position = position,
				      .kind = "tool",
				      .name = "git push",
				      .arguments = {arguments, strlen(arguments), 0}};
}

static enum run_begun begin(struct rig *r, const char *position, struct run_begin *ret)
{
	struct run_step_spec spec = spec_of(position, "{}");

	if (run_step_begin(r->l, r->h.id, r->h.fence, &spec, ret, &e) < 0)
		FAIL(e.msg);
	return ret->begun;
}

static void done(struct rig *r, const char *position, uint32_t attempt, const char *result)
{
	struct run_step_end end = {.result = {result, strlen(result), 0}, .tokens_in = 5};

	if (run_step_done(r->l, r->h.id, r->h.fence, position, attempt, &end, &e) < 0)
		FAIL(e.msg);
}

static int fail(struct rig *r, const char *position, uint32_t attempt)
{
	struct run_step_end end = {.error = "it broke"};

	return run_step_done(r->l, r->h.id, r->h.fence, position, attempt, &end, &e);
}

static enum run_status status(struct rig *r)
{
	struct run_state s;
	enum run_status was;

	CHECK_EQ(run_load(r->l, r->h.id, &s, &e), 0);
	was = run_status_at(&s, now);
	run_state_done(&s);
	return was;
}

RUN_TEST(a_finished_step_is_given_again)
{
	struct run_begin b, again;

	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STARTED);
	CHECK_EQ(b.attempt, 1);
	done(r, "1", 1, "result");
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(begin(r, "1", &again), RUN_BEGUN_STORED);
		CHECK_STR((char *)again.result.p, "result");
		CHECK_STR(again.operation_id, b.operation_id);
		run_begin_done(&again);
		rig_reopen(r, s);
	}
	CHECK_EQ(run_end(r->l, r->h.id, r->h.fence, RUN_COMPLETED, NULL, NULL, NULL, &e), 0);
	CHECK_EQ(status(r), RUN_COMPLETED);
	CHECK_EQ(run_release(r->l, r->h.id, r->h.fence, &e), 0);
	CHECK_EQ(run_lease(r->l, r->h.id, "x", 1000, true, &r->h.fence, &e), -EALREADY);
}

RUN_TEST(large_results_are_blobs)
{
	size_t n = RAILS_INLINE_MAX + 1;
	char *big = malloc(n);
	uint64_t size;
	int fd;
	struct run_step_end end = {.result = {big, n, 0}};
	struct run_begin b;

	memset(big, 'x', n);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STARTED);
	CHECK_EQ(run_step_done(r->l, r->h.id, r->h.fence, "1", 1, &end, &e), 0);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STORED);
	CHECK_EQ(b.result.len, n);
	CHECK_MEM(b.result.p, big, n);
	/* With its run, and not among those of images, which go when no image names them. */
	CHECK(!blobs_has(s, b.result.digest));
	CHECK_EQ(run_result_open(r->l, r->h.id, b.result.digest, &fd, &size, &e), 0);
	CHECK_EQ(size, n);
	close(fd);
	CHECK_EQ(run_cancel(r->l, r->h.id, "ann", NULL, &e), 0);
	now += 10000;
	CHECK_EQ(run_remove(r->l, r->h.id, &e), 0);
	CHECK_EQ(run_result_open(r->l, r->h.id, b.result.digest, &fd, &size, &e), -ENOENT);
	run_begin_done(&b);
	free(big);
}

RUN_TEST(results_of_descriptors_are_kept)
{
	size_t sizes[] = {0, 1, RAILS_INLINE_MAX, RAILS_INLINE_MAX + 1, 3 * RAILS_INLINE_MAX};

	for (unsigned i = 0; i < 5; i++) {
		char position[8], *bytes = malloc(sizes[i] + 1);
		int fd = sys_memfd_create("result", 0);
		struct run_step_end end = {.result = {NULL, 0, fd}};
		struct run_begin b;

		memset(bytes, 'a' + (int)i, sizes[i]);
		CHECK_EQ(fd_write_full(fd, bytes, sizes[i]), 0);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		snprintf(position, sizeof(position), "%u", i);
		CHECK_EQ(begin(r, position, &b), RUN_BEGUN_STARTED);
		CHECK_EQ(run_step_done(r->l, r->h.id, r->h.fence, position, 1, &end, &e), 0);
		CHECK_EQ(begin(r, position, &b), RUN_BEGUN_STORED);
		CHECK_EQ(b.result.size, sizes[i]);
		CHECK_MEM(b.result.p, bytes, sizes[i]);
		run_begin_done(&b);
		free(bytes);
		close(fd);
	}
}

RUN_TEST(another_step_at_a_position_is_a_divergence)
{
	struct run_step_spec other = spec_of("1", "{\"x\":1}"), named = spec_of("1", "{}");
	struct run_begin b;

	begin(r, "1", &b);
	done(r, "1", 1, "result");
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &other, &b, &e), -EXDEV);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	named.name = "curl";
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &named, &b, &e), -EXDEV);
	CHECK(strstr(e.msg, "git push") && strstr(e.msg, "curl"));
}

RUN_TEST(an_older_fence_is_refused_by_everything)
{
	struct run_step_spec spec = spec_of("2", "{}");
	struct run_wait_spec wait = {.position = "3", .name = "ok"};
	struct run_step_end end = {0};
	uint64_t fence, old = r->h.fence;
	struct run_begin b;

	begin(r, "1", &b);
	CHECK_EQ(run_lease(r->l, r->h.id, "second", 5000, false, &fence, &e), -EBUSY);
	CHECK_EQ(run_lease(r->l, r->h.id, "second", 5000, true, &fence, &e), 0);
	CHECK(fence > old);
	CHECK_EQ(run_step_begin(r->l, r->h.id, old, &spec, &b, &e), -ESTALE);
	CHECK_EQ(run_step_done(r->l, r->h.id, old, "1", 1, &end, &e), -ESTALE);
	CHECK_EQ(run_wait_begin(r->l, r->h.id, old, &wait, &b, &e), -ESTALE);
	CHECK_EQ(run_signal_take(r->l, r->h.id, old, "4", "go", &b, &e), -ESTALE);
	CHECK_EQ(run_log(r->l, r->h.id, old, 1, "x", NULL, &e), -ESTALE);
	CHECK_EQ(run_renew(r->l, r->h.id, old, &e), -ESTALE);
	CHECK_EQ(run_release(r->l, r->h.id, old, &e), -ESTALE);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, old, "1", RUN_RESOLVE_SKIP, NULL, NULL, NULL, &e),
		 -ESTALE);
	CHECK_EQ(run_end(r->l, r->h.id, old, RUN_COMPLETED, NULL, NULL, NULL, &e), -ESTALE);
	CHECK_EQ(e.kind, ERR_CONFLICT);
}

RUN_TEST(a_lease_that_is_over_can_be_had)
{
	uint64_t fence;

	now += 4000;
	CHECK_EQ(run_renew(r->l, r->h.id, r->h.fence, &e), 0);
	now += 4000;
	CHECK_EQ(run_lease(r->l, r->h.id, "second", 5000, false, &fence, &e), -EBUSY);
	CHECK_EQ(status(r), RUN_RUNNING);
	now += 2000;
	CHECK_EQ(status(r), RUN_INTERRUPTED);
	CHECK_EQ(run_lease(r->l, r->h.id, "second", 5000, false, &fence, &e), 0);
	CHECK_EQ(status(r), RUN_RUNNING);
	CHECK_EQ(run_release(r->l, r->h.id, fence, &e), 0);
	CHECK_EQ(status(r), RUN_WAITING);
}

/* Another owner finds what the first one started. */
static void interrupt(struct rig *r)
{
	now += 10000;
	CHECK_EQ(run_lease(r->l, r->h.id, "next", 5000, false, &r->h.fence, &e), 0);
}

RUN_TEST(an_interrupted_step_is_never_started_by_itself)
{
	struct run_data text = {"skipped", 7, 0};
	struct run_begin b;

	begin(r, "1", &b);
	interrupt(r);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_INTERRUPTED);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, r->h.fence, "1", RUN_RESOLVE_RETRY, NULL, NULL,
				  NULL, &e),
		 -EPERM);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_INTERRUPTED);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, 0, "1", RUN_RESOLVE_RETRY, "ann", "I looked", NULL,
				  &e),
		 0);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STARTED);
	CHECK_EQ(b.attempt, 2);
	interrupt(r);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, r->h.fence, "1", RUN_RESOLVE_SKIP, NULL, NULL,
				  &text, &e),
		 0);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STORED);
	CHECK(b.is_skipped);
	CHECK_STR((char *)b.result.p, "skipped");
	run_begin_done(&b);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, r->h.fence, "1", RUN_RESOLVE_FAIL, NULL, NULL,
				  NULL, &e),
		 -EALREADY);
}

RUN_TEST(an_idempotent_step_may_be_retried_by_its_owner)
{
	struct run_step_spec spec = spec_of("1", "{}");
	struct run_begin b;

	spec.flags = RUN_STEP_IDEMPOTENT;
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), -EINPROGRESS);
	interrupt(r);
	CHECK_EQ(run_step_resolve(r->l, r->h.id, r->h.fence, "1", RUN_RESOLVE_RETRY, NULL, NULL,
				  NULL, &e),
		 0);
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_STARTED);
}

RUN_TEST(a_failed_step_is_tried_again_as_often_as_it_said)
{
	struct run_step_spec spec = spec_of("1", "{}");
	struct run_begin b;

	spec.retries = 1;
	spec.backoff_ms = 100;
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(fail(r, "1", 1), 0);
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_LATER);
	CHECK_EQ(b.retry_at_ms, now + 100);
	run_begin_done(&b);
	now += 100;
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_STARTED);
	CHECK_EQ(b.attempt, 2);
	CHECK_EQ(fail(r, "1", 1), -EALREADY);
	CHECK_EQ(fail(r, "1", 2), 0);
	now += 100000;
	CHECK_EQ(run_lease(r->l, r->h.id, "next", 5000, false, &r->h.fence, &e), 0);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_FAILED);
	CHECK_STR(b.error.msg, "it broke");
	run_begin_done(&b);
	CHECK_EQ(run_end(r->l, r->h.id, r->h.fence, RUN_FAILED, NULL, "step 1", "1", &e), 0);
	CHECK_EQ(status(r), RUN_FAILED);
	CHECK_EQ(run_reopen(r->l, r->h.id, "ann", &e), 0);
	CHECK_EQ(status(r), RUN_INTERRUPTED);
	CHECK_EQ(run_lease(r->l, r->h.id, "again", 5000, false, &r->h.fence, &e), 0);
	CHECK_EQ(begin(r, "1", &b), RUN_BEGUN_STARTED);
	CHECK_EQ(b.attempt, 3);
}

RUN_TEST(the_same_key_is_the_same_run)
{
	struct run_create_options o = {
		.holder = "second", .lease_ms = 5000, .key = "order 7", .request = {1}};
	struct run_handle first = create(r->l, "order 6"), h;

	CHECK(first.is_new);
	o.key = "order 6";
	CHECK_EQ(run_create(r->l, &o, &h, &e), -EEXIST);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	o.request[0] = 0;
	CHECK_EQ(run_create(r->l, &o, &h, &e), 0);
	CHECK(!h.is_new && h.fence == 0);
	CHECK_STR(h.id, first.id);
	now += 6000;
	CHECK_EQ(run_create(r->l, &o, &h, &e), 0);
	CHECK(!h.is_new && h.fence > first.fence);
	o.scope = "other";
	CHECK_EQ(run_create(r->l, &o, &h, &e), 0);
	CHECK(h.is_new);
	/* When it is gone its key is free. */
	CHECK_EQ(run_cancel(r->l, h.id, "ann", NULL, &e), 0);
	CHECK_EQ(run_remove(r->l, h.id, &e), 0);
	CHECK_EQ(run_remove(r->l, h.id, &e), 0);
	rig_reopen(r, s);
	CHECK_EQ(run_create(r->l, &o, &h, &e), 0);
	CHECK(h.is_new);
}

RUN_TEST(a_wait_is_answered_once_and_not_by_its_owner)
{
	struct run_wait_spec spec = {
		.position = "1", .name = "deploy", .question = "Now?", .who = "ann, bob"};
	struct run_answer answer = {
		.outcome = RUN_APPROVED, .by = "key-1", .value = {"yes", 3, 0}, .reason = "fine"};
	struct run_begin b;

	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_WAITING);
	CHECK_EQ(status(r), RUN_WAITING);
	CHECK_EQ(run_release(r->l, r->h.id, r->h.fence, &e), 0);
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "1", &answer, &e), -EPERM);
	answer.by = "carl";
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "1", &answer, &e), -EPERM);
	answer.by = "bob";
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "2", &answer, &e), -ENOENT);
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "1", &answer, &e), 0);
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "1", &answer, &e), -EALREADY);
	CHECK_EQ(run_lease(r->l, r->h.id, "next", 5000, false, &r->h.fence, &e), 0);
	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_STORED);
	CHECK_EQ(b.outcome, RUN_APPROVED);
	CHECK_STR((char *)b.result.p, "yes");
	CHECK_STR(b.by, "bob");
	CHECK_STR(b.reason, "fine");
	run_begin_done(&b);
}

RUN_TEST(waits_and_sleeps_end_with_their_time)
{
	struct run_wait_spec wait = {.position = "1", .name = "ok", .until_ms = now + 100};
	struct run_wait_spec sleep = {
		.position = "2", .name = "nap", .until_ms = now + 50, .is_sleep = true};
	struct run_answer answer = {.outcome = RUN_ANSWERED, .by = "ann"};
	struct run_begin b;
	struct run_state st;

	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &wait, &b, &e), 0);
	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &sleep, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_WAITING);
	CHECK_EQ(run_load(r->l, r->h.id, &st, &e), 0);
	CHECK_EQ(run_next_time(&st), now + 50);
	run_state_done(&st);
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "2", &answer, &e), -ENOENT);
	now += 100;
	CHECK_EQ(run_wait_answer(r->l, r->h.id, "1", &answer, &e), -EALREADY);
	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &sleep, &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_STORED);
	CHECK_EQ(b.outcome, RUN_SLEPT);
	run_begin_done(&b);
	CHECK_EQ(run_wait_begin(r->l, r->h.id, r->h.fence, &wait, &b, &e), 0);
	CHECK_EQ(b.outcome, RUN_TIMED_OUT);
	run_begin_done(&b);
}

RUN_TEST(signals_are_taken_in_order_and_once)
{
	struct run_data one = {"one", 3, 0}, two = {"two", 3, 0};
	struct run_begin b;

	CHECK_EQ(run_signal_take(r->l, r->h.id, r->h.fence, "1", "go", &b, &e), 0);
	CHECK_EQ(b.begun, RUN_BEGUN_WAITING);
	CHECK_EQ(run_signal(r->l, r->h.id, "go", "ann", &one, &e), 0);
	CHECK_EQ(run_signal(r->l, r->h.id, "go", "ann", &two, &e), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(run_signal_take(r->l, r->h.id, r->h.fence, "1", "go", &b, &e), 0);
		CHECK_STR((char *)b.result.p, "one");
		run_begin_done(&b);
		CHECK_EQ(run_signal_take(r->l, r->h.id, r->h.fence, "2", "go", &b, &e), 0);
		CHECK_STR((char *)b.result.p, "two");
		run_begin_done(&b);
	}
	CHECK_EQ(run_signal_take(r->l, r->h.id, r->h.fence, "2", "other", &b, &e), -EXDEV);
}

RUN_TEST(what_is_cancelled_may_still_say_what_it_did)
{
	struct run_step_spec spec = spec_of("2", "{}");
	struct run_begin b;

	begin(r, "1", &b);
	CHECK_EQ(run_cancel(r->l, r->h.id, "ann", "enough", &e), 0);
	CHECK_EQ(run_cancel(r->l, r->h.id, "ann", "enough", &e), 0);
	CHECK_EQ(status(r), RUN_CANCELLED);
	done(r, "1", 1, "late");
	CHECK_EQ(run_step_begin(r->l, r->h.id, r->h.fence, &spec, &b, &e), -EALREADY);
	CHECK_EQ(run_signal(r->l, r->h.id, "go", "ann", NULL, &e), -EALREADY);
}

RUN_TEST(values_have_versions)
{
	struct run_result got;
	uint64_t version;

	CHECK_EQ(run_load_value(r->l, "agent", "notes", 0, &got, NULL, &e), -ENOENT);
	for (unsigned i = 1; i <= 3; i++) {
		char text[16];
		struct run_data value = {text, (size_t)snprintf(text, sizeof(text), "v%u", i), 0};

		CHECK_EQ(run_save(r->l, "agent", "notes", "ann", &value, &version, &e), 0);
		CHECK_EQ(version, i);
		CHECK_EQ(run_save(r->l, "agent", "other", "ann", &value, &version, &e), 0);
		rig_reopen(r, s);
	}
	CHECK_EQ(run_load_value(r->l, "agent", "notes", 0, &got, &version, &e), 0);
	CHECK_STR((char *)got.p, "v3");
	CHECK_EQ(version, 3);
	run_result_done(&got);
	CHECK_EQ(run_load_value(r->l, "agent", "notes", 2, &got, NULL, &e), 0);
	CHECK_STR((char *)got.p, "v2");
	run_result_done(&got);
	CHECK_EQ(run_load_value(r->l, "agent", "notes", 4, &got, NULL, &e), -ENOENT);
	CHECK_EQ(run_load_value(r->l, "else", "notes", 0, &got, NULL, &e), -ENOENT);
	CHECK_EQ(run_values_remove(r->l, "agent", &e), 0);
	CHECK_EQ(run_load_value(r->l, "agent", "notes", 0, &got, NULL, &e), -ENOENT);
}

struct counted {
	unsigned rows;
	uint64_t last;
};

static bool on_row(void *arg, const struct run_row *row)
{
	struct counted *c = arg;

	c->rows++;
	c->last = row->number;
	return c->rows < 3;
}

RUN_TEST(rows_are_read_from_a_number_on)
{
	struct counted c = {0};

	for (int i = 0; i < 5; i++)
		CHECK_EQ(run_log(r->l, r->h.id, r->h.fence, 1, "line", NULL, &e), 0);
	CHECK_EQ(run_rows(r->l, r->h.id, 2, on_row, &c, &e), 0);
	CHECK_EQ(c.rows, 3);
	CHECK_EQ(c.last, 5);
	c = (struct counted){0};
	CHECK_EQ(run_rows(r->l, r->h.id, 6, on_row, &c, &e), 0);
	CHECK_EQ(c.rows, 1);
	CHECK_EQ(run_rows(r->l, "0123", 0, on_row, &c, &e), -ENOENT);
}

/* Two ledgers, as two processes have them: each sees what the other did. */
RUN_TEST(processes_take_turns)
{
	struct rig other = {.h = r->h};
	struct run_begin b;

	rig_open(&other, s);
	for (unsigned i = 0; i < 10; i++) {
		char position[8];

		snprintf(position, sizeof(position), "%u", i);
		CHECK_EQ(begin(i % 2 ? r : &other, position, &b), RUN_BEGUN_STARTED);
		done(i % 2 ? &other : r, position, 1, "x");
		CHECK_EQ(begin(r, position, &b), RUN_BEGUN_STORED);
		run_begin_done(&b);
	}
	CHECK_EQ(run_cancel(other.l, r->h.id, "ann", NULL, &e), 0);
	CHECK_EQ(run_remove(other.l, r->h.id, &e), 0);
	CHECK_EQ(run_log(r->l, r->h.id, r->h.fence, 1, "x", NULL, &e), -ENOENT);
	rails_close(other.l);
}

TAP_MAIN
