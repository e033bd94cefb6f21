/* Values across runs; see values.h. A scope's journal is folded as a run's is (fold_value). */
#include "rails/values.h"

#include "base/fd.h"
#include "base/str.h"
#include "rails/run_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct run_saving {
	char id[RAILS_ID + 1];
	char position[RUN_POSITION_MAX + 1];
	struct run_row row;
};

static void scope_id(const char *scope, char ret[RAILS_ID + 1])
{
	char hex[SHA256_HEX_SIZE];
	uint8_t sum[SHA256_BYTES];
	struct sha sha;

	sha256_init(&sha);
	sha_add(&sha, "cove values", 11);
	sha_add(&sha, scope, strlen(scope));
	sha_end(&sha, sum);
	str_hex(sum, sizeof(sum), hex);
	snprintf(ret, RAILS_ID + 1, "%c%.19s", RUN_ID_OF_VALUES, hex);
}

static int check_names(const char *scope, const char *name, struct err *e)
{
	int r = run_check_text("a scope", scope, RUN_TEXT_MAX, true, e);

	return r < 0 ? r : run_check_text("the name of a value", name, RUN_NAME_MAX, true, e);
}

static int turn_save(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_saving *g = arg;
	const struct run_step *old;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);
	bool is_new = r == -ENOENT;

	if (is_new)
		r = run_in_turn_new(b, g->id, &s, e);
	if (r < 0)
		return r;
	old = run_step_find(s, g->position);
	g->row.version = old ? old->attempts + 1u : 1;
	r = run_put(b, s, &g->row, e);
	if (r < 0 && is_new)
		run_forget(b, g->id);
	return r;
}

int run_save(struct rails *l, const char *scope, const char *name, const char *by,
	     const struct run_data *value, uint64_t *ret_version, struct err *e)
{
	struct run_saving g = {0};
	struct run_kept kept;
	int r = check_names(scope, name, e);

	if (r == 0)
		r = run_check_text("who saves it", by, RUN_WHO_MAX, false, e);
	scope_id(scope ? scope : "", g.id);
	if (r == 0)
		r = run_keep(l, g.id, true, value, &kept, e);
	if (r < 0)
		return r;
	run_value_position(name, g.position);
	g.row = (struct run_row){.type = RUN_ROW_VALUE,
				 .name = run_bytes(name),
				 .by = run_bytes(by),
				 .result = kept.payload};
	r = rails_commit(l, run_put_room(&g.row), turn_save, &g, e);
	run_kept_done(&kept);
	if (r == 0 && ret_version)
		*ret_version = g.row.version;
	return r;
}

static int no_value(const char *name, uint64_t version, struct err *e)
{
	if (version)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no version %llu of value '%s'",
			       (unsigned long long)version, name);
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no value '%s'", name);
}

/* An older version is looked for in the journal. */
struct run_older {
	const char *name;
	uint64_t version, at;
	struct run_place place;
};

static int64_t on_older(void *arg, const uint8_t *p, size_t n)
{
	struct run_older *older = arg;
	size_t at = 0;

	while (at < n) {
		struct run_row row;
		int bytes = run_row_decode(&row, p + at, n - at);

		if (bytes <= 0)
			return bytes < 0 ? bytes : (int64_t)at;
		if (row.version == older->version && row.name.len == strlen(older->name) &&
		    memcmp(row.name.p, older->name, row.name.len) == 0)
			older->place = (struct run_place){older->at, (uint32_t)bytes};
		at += (size_t)bytes;
		older->at += (size_t)bytes;
	}
	return (int64_t)at;
}

static int find_older(struct rails *l, const struct rails_name *id, struct run_older *older,
		      struct err *e)
{
	autoclose int fd = -1;
	int r = rails_journal_open(l, id, &fd);

	if (r == 0)
		r = run_read_bytes(fd, 0, on_older, older);
	/* Behind it a row may be on its way. */
	if (r < 0 && older->place.bytes == 0)
		return run_read_error(id->id, r, e);
	return older->place.bytes ? 0 : no_value(older->name, older->version, e);
}

int run_load_value(struct rails *l, const char *scope, const char *name, uint64_t version,
		   struct run_result *ret, uint64_t *ret_version, struct err *e)
{
	char id[RAILS_ID + 1], position[RUN_POSITION_MAX + 1];
	struct run_older older = {.name = name, .version = version};
	const struct run_step *step;
	struct run_state s;
	struct run_row row;
	uint8_t *text;
	int r = check_names(scope, name, e);

	if (r < 0)
		return r;
	scope_id(scope, id);
	run_value_position(name, position);
	r = run_load_any(l, id, &s, e);
	if (r < 0)
		return r == -ENOENT ? no_value(name, version, e) : r;
	step = run_step_find(&s, position);
	if (!step || version > step->attempts)
		r = no_value(name, version, e);
	else if (version == 0 || version == step->attempts)
		older.place = step->last;
	else
		r = find_older(l, &s.id, &older, e);
	if (r == 0)
		r = run_row_read(l, &s.id, &older.place, &row, &text, e);
	run_state_done(&s);
	if (r < 0)
		return r;
	r = run_result_read(l, id, &row.result, ret, e);
	if (r == 0 && ret_version)
		*ret_version = row.version;
	free(text);
	return r;
}

static int turn_values_remove(void *arg, struct rails_batch *b, struct err *e)
{
	struct rails_name name = {.space = RAILS_VALUES};

	str_copy(name.id, sizeof(name.id), arg);
	rails_add_removal(b, &name);
	run_forget(b, arg);
	return 0;
}

int run_values_remove(struct rails *l, const char *scope, struct err *e)
{
	char id[RAILS_ID + 1];
	int r = run_check_text("a scope", scope, RUN_TEXT_MAX, true, e);

	if (r < 0)
		return r;
	scope_id(scope, id);
	return rails_commit(l, RAILS_ROW_COST, turn_values_remove, id, e);
}
