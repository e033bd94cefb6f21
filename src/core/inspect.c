/* Everything known about a box, as one JSON object: its record, and what its keeper says. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/core.h"
#include "core/door.h"
#include "core/exec.h"
#include "core/life.h"
#include "core/stats.h"
#include "core/view.h"
#include "store/net.h"
#include "store/record_run.h"
#include "store/restart.h"
#include "wall/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a box's commands the last few are shown; `cove ps` has them all. */
enum { INSPECT_BYTES_MAX = 8 << 20, INSPECT_COMMANDS = 16 };

/* What a keeper says, one string for each line, and one more; null of a box that does not run. */
static void put_lines(struct json *j, bool up, const char *text, const char *more)
{
	if (!up) {
		json_nil(j);
		return;
	}
	json_array_begin(j);
	while (text && *text) {
		size_t n = strcspn(text, "\n");

		if (n > 0)
			json_strn(j, text, n);
		text += n + (text[n] == '\n');
	}
	if (more)
		json_str(j, more);
	json_array_end(j);
}

static void put_strings(struct json *j, const char *key, const char *const *items, size_t count)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < count; i++)
		json_str(j, items[i]);
	json_array_end(j);
}

static void put_mounts(struct json *j, const struct spec *s)
{
	json_key(j, "mounts");
	json_array_begin(j);
	for (size_t i = 0; i < s->mount_count; i++) {
		json_object_begin(j);
		json_kv_str(j, "source", s->mounts[i].src);
		json_kv_str(j, "target", s->mounts[i].dst);
		json_kv_bool(j, "read_only", s->mounts[i].read_only);
		json_kv_str(j, "env", s->mounts[i].env);
		json_object_end(j);
	}
	json_array_end(j);
}

/* clang-format off */
#define S(name) FIELD_ALWAYS(spec, name)
static const struct wire_named_field spec_names[] = {
	S(name), S(owner), S(image), S(wall), S(session), S(workspace), S(workspace_dir), {0}};
static const struct wire_named_field spec_use[] = {
	S(one_shot), S(user), S(cwd), S(timeout_ms), {0}};
static const struct wire_named_field record_fields[] = {
	FIELD_KNOWN(record, cause), FIELD_KNOWN(record, by), FIELD_ALWAYS(record, started_ms),
	FIELD_ALWAYS(record, ended_ms), {0}};
static const struct wire_named_field on_start_fields[] = {
	FIELD_ALWAYS(cove_exec_info, exec_id), FIELD_ALWAYS(cove_exec_info, state),
	FIELD_IF(cove_exec_info, exit_code, has_exit), FIELD_KNOWN(cove_exec_info, cause), {0}};
/* clang-format on */

static void put_spec(struct json *j, const struct spec *s)
{
	wire_fields_json(j, spec_names, s);
	json_kv_str(j, "persistence", persistence_name(s->persistence));
	wire_fields_json(j, spec_use, s);
	put_mounts(j, s);
	put_strings(j, "env", s->env, s->env_count);
	core_put_labels(j, s);
	json_kv_u64(j, "created_ms", s->created_ms);
}

/* What separates the box from the host, as its keeper says: of a stopped one it is not known, since
 * its next start may find other ids. */
static void put_isolation(struct json *j, const char *ids, const struct spec *s)
{
	const struct wall_info *wall = wall_info_find(s->wall);
	unsigned flags = wall ? wall->flags : 0; /* a record of another version of Cove */

	json_key(j, "isolation");
	if (!ids) {
		json_nil(j);
		return;
	}
	json_object_begin(j);
	json_kv_str(j, "ids", ids);
	json_kv_bool(j, "root_inside",
		     strcmp(ids, "single") != 0 && !s->strict && (flags & WALL_ROOT_INSIDE));
	json_kv_bool(j, "shared_kernel", flags & WALL_SHARED_KERNEL);
	json_object_end(j);
}

/* What every box is refused whatever it asks. */
static const char *const refused[] = {
	"docker: a container engine cannot run inside a box",
	"nested user namespaces: programs with a sandbox of their own (some browsers) must be "
	"started without it",
	"network: nothing but the box's own loopback and what its policy lets through the door "
	"(TCP, names) is reachable",
};

/* Does a line of notes begin with "word:"? */
static bool has_note(const char *notes, const char *word)
{
	size_t n = strlen(word);

	while (notes && *notes) {
		if (strncmp(notes, word, n) == 0 && notes[n] == ':')
			return true;
		notes = strchr(notes, '\n');
		notes = notes ? notes + 1 : NULL;
	}
	return false;
}

/* It holds if the keeper counts against it, where it counts, and says nothing to the contrary. */
static bool is_enforced(enum limit_id id, const struct cove_stats *stats, const char *notes)
{
	if (has_note(notes, limit_word(id)))
		return false;
	switch (id) {
	case LIMIT_MEM:
		return stats->mem_limit_bytes != 0;
	case LIMIT_CPUS:
		return stats->cpu_limit_milli != 0;
	case LIMIT_PIDS:
		return stats->pids_limit != 0;
	case LIMIT_DISK:
		return stats->disk_limit_bytes != 0;
	default:
		return true;
	}
}

/* What was wanted, and what may take as much as there is, each for itself. */
static void put_disks(struct json *j, const struct spec *s)
{
	char line[BOX_NAME_MAX + 16];

	view_known_u64(j, "wanted", s->limits[LIMIT_DISK]);
	json_key(j, "each");
	json_array_begin(j);
	json_str(j, "box");
	if (s->workspace) {
		snprintf(line, sizeof(line), "workspace %s", s->workspace);
		json_str(j, line);
	}
	json_array_end(j);
}

/* What a limit is, who wanted it, and whether it holds: without stats that is not known, since the
 * next start of a stopped box may find another host. */
static void put_limits(struct json *j, const struct spec *s, const struct cove_stats *stats,
		       const char *notes)
{
	json_key(j, "limits");
	json_object_begin(j);
	for (unsigned i = 0; i < LIMIT_COUNT; i++) {
		enum limit_id id = (enum limit_id)i;
		uint64_t value = s->limits[i];

		/* Where the host has little room the keeper makes a smaller disk than the
		 * default. */
		if (id == LIMIT_DISK && value && stats && stats->disk_own_limit_bytes)
			value = stats->disk_own_limit_bytes;
		json_key(j, limit_key(id));
		json_object_begin(j);
		view_known_u64(j, "value", value);
		json_kv_bool(j, "asked", s->limits_asked & 1u << i);
		if (id == LIMIT_DISK && s->limits[i])
			put_disks(j, s);
		json_key(j, "enforced");
		if (s->limits[i] == 0 || !stats)
			json_nil(j);
		else
			json_bool(j, is_enforced(id, stats, notes));
		json_object_end(j);
	}
	json_object_end(j);
	json_kv_bool(j, "best_effort", s->best_effort);
	json_kv_bool(j, "strict", s->strict);
	json_kv_bool(j, "trust_dir", s->trust_dir);
	json_kv_bool(j, "workspace_copy", s->workspace_copy);
	json_kv_bool(j, "ptrace", s->ptrace);
	json_kv_str(j, "ctl", s->ctl);
	json_kv_str(j, "expire", expiry_name(s->expiry));
}

/* clang-format off */
#define A(name) FIELD_ALWAYS(wire_door_status, name)
static const struct wire_named_field door_fields[] = {
	A(running), FIELD_NAMED(wire_door_status, policy), FIELD_NAMED(wire_door_status, trouble),
	{0}};
static const struct wire_named_field door_counts[] = {
	A(connections), A(bytes_up), A(bytes_down), A(asks), {0}};
static const struct wire_named_field door_limits[] = {
	A(connections_max), A(bytes_max), A(memory_locked), {0}};
/* clang-format on */

/* How the box's programs reach its door (everything by redirect, or only who minds the proxy
 * variables), what the door goes by, and how it is: it is started when something asks. How it is
 * reached is known of a running box only. */
static void put_network(struct json *j, const struct spec *s, bool up, const struct wire_status *st,
			const struct wire_door_status *door)
{
	const struct wire_door_status mute = {.running = st->door,
					      .trouble = "it does not say how it is"};
	bool closed = net_is_closed(s->net);

	json_key(j, "network");
	json_object_begin(j);
	json_kv_str(j, "policy", closed ? "closed" : s->net);
	json_kv_str(j, "mode", closed ? "none" : up ? st->network : NULL);
	json_key(j, "door");
	if (closed || !up) {
		json_nil(j);
	} else {
		json_object_begin(j);
		wire_fields_json(j, door_fields, door ? door : &mute);
		if (door)
			wire_fields_json(j, door_counts, door);
		if (door && door->running)
			wire_fields_json(j, door_limits, door);
		json_object_end(j);
	}
	json_object_end(j);
}

/* The line, and what became of it in the box's last run. */
static void put_on_start(struct json *j, const struct record *r, const struct cove_exec_info *infos,
			 int count)
{
	json_key(j, "on_start");
	if (!r->spec.on_start) {
		json_nil(j);
		return;
	}
	json_object_begin(j);
	json_kv_str(j, "line", r->spec.on_start);
	for (int i = count - 1; i >= 0 && r->on_start; i--) {
		if (infos[i].exec_id != r->on_start)
			continue;
		wire_fields_json(j, on_start_fields, &infos[i]);
		break;
	}
	json_object_end(j);
}

/* at_ms: when it is started again, of one that will be. */
static void put_restart(struct json *j, struct cove *cove, const struct record *r)
{
	char boot[RECORD_BOOT_LEN + 1];
	autoclose int box_fd = -1;
	struct restart_state s = {0};

	json_key(j, "restart");
	json_object_begin(j);
	json_kv_str(j, "policy", restart_name(r->spec.restart));
	if (r->spec.restart != RESTART_NO && box_open_dir(cove, r->spec.name, &box_fd, NULL) == 0 &&
	    restart_read(box_fd, &s) == 0) {
		uint64_t now_ms = clock_wall_ms(), at_ms = restart_at_ms(r, &s, now_ms);

		record_boot_id(boot);
		json_kv_u64(j, "count", s.count);
		json_key(j, "at_ms");
		if (restart_wants(r, &s, boot))
			json_u64(j, at_ms > now_ms ? at_ms : now_ms);
		else
			json_nil(j);
	}
	json_object_end(j);
}

static void put_commands(struct json *j, struct cove *cove, const struct record *r)
{
	autofree struct cove_exec_info *infos = NULL;
	int count = core_exec_infos(cove, r->spec.name, &infos, NULL);
	int from = count > INSPECT_COMMANDS ? count - INSPECT_COMMANDS : 0;

	put_on_start(j, r, infos, count);
	json_key(j, "commands");
	json_array_begin(j);
	for (int i = from; i < count; i++) {
		json_object_begin(j);
		wire_fields_json(j, view_exec_fields, &infos[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* stats is NULL of a box that does not run, or whose keeper does not answer. */
static void put_live(struct json *j, const struct record *r, const struct wire_status *status,
		     const struct cove_stats *stats, const struct wire_door_status *door)
{
	if (stats) {
		json_kv_i64(j, "keeper_pid", r->keeper_pid);
		json_kv_u64(j, "init_pid", status->init_pid);
		json_kv_u64(j, "init_revision", status->init_revision);
		json_kv_bool(j, "outdated", status_is_outdated(status));
		json_kv_u64(j, "uptime_ms",
			    clock_wall_since_ms(status->started_ms ? status->started_ms
								   : r->started_ms));
		json_kv_u64(j, "execs_running", status->execs_running);
		json_kv_u64(j, "clients", status->clients);
	}
	json_kv_bool(j, "paused", status->paused);
	json_kv_str(j, "storage", status->storage ? status->storage : r->spec.storage);
	put_isolation(j, status->ids, &r->spec);
	json_key(j, "walls");
	put_lines(j, stats != NULL, status->walls, NULL);
	json_key(j, "pinned");
	put_lines(j, stats != NULL, status->pinned, NULL);
	put_limits(j, &r->spec, stats, status->notes);
	put_network(j, &r->spec, stats != NULL, status, door);
	put_strings(j, "refused", refused, sizeof(refused) / sizeof(refused[0]));
	json_key(j, "not_enforced");
	put_lines(j, stats != NULL, status->notes,
		  door && door->running && !door->memory_locked
			  ? "locked memory: credentials in the door's memory may be swapped to disk"
			  : NULL);
	if (stats) {
		json_key(j, "usage");
		json_object_begin(j);
		wire_fields_json(j, view_stats_fields, stats);
		json_object_end(j);
	}
}

static void put_box(struct json *j, struct cove *cove, const struct record *r)
{
	struct wire_status status = {0};
	struct cove_stats stats = {0};
	struct net_door door;
	bool has_door;
	struct core_call call = {0};
	struct core_conn *c = NULL;
	struct err e = {0};
	bool up = r->state == BOX_RUNNING;

	json_object_begin(j);
	put_spec(j, &r->spec);
	json_kv_str(j, "state", box_state_name(r->state));
	wire_fields_json(j, record_fields, r);
	/* The status last: it points into the connection. */
	if (up && (core_conn_connect(NULL, cove->state.run_fd, r->spec.name, &c, &e) < 0 ||
		   stats_ask(c, &stats, &e) < 0 ||
		   stats_ask_status(&call, c, STOP_WAIT_MS, &status, &e) < 0)) {
		status = (struct wire_status){0};
		up = false;
		json_kv_str(j, "problem", e.msg);
	}
	/* A door that does not answer is shown as such. */
	has_door = up && !net_is_closed(r->spec.net) &&
		   net_door_status(cove, r->spec.name, &door, NULL) == 0;
	put_live(j, r, &status, up ? &stats : NULL, has_door ? &door.status : NULL);
	core_call_end(&call, up);
	core_conn_free(c);
	put_restart(j, cove, r);
	put_commands(j, cove, r);
	json_object_end(j);
}

static int inspect(struct cove *cove, const char *name, char **ret, struct err *e)
{
	char policy[NET_NAME_MAX];
	autoclose int box_fd = -1;
	struct record record;
	struct json j;
	struct buf b;
	int r;

	core_sweep(cove);
	r = record_load(&cove->state, name, &record, e);
	if (r < 0)
		return r;
	/* It may have another policy than the one it was made with. */
	if (!net_is_closed(record.spec.net) && box_open_dir(cove, name, &box_fd, NULL) == 0) {
		net_policy_name(box_fd, record.spec.net, policy);
		record.spec.net = policy;
	}
	buf_init(&b, INSPECT_BYTES_MAX);
	json_init(&j, &b);
	put_box(&j, cove, &record);
	record_done(&record);
	*ret = j.error == 0 && buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
	buf_done(&b);
	return *ret ? 0 : err_errno(e, ENOMEM, "describe box '%s'", name);
}

int cove_inspect(struct cove *cove, const char *name, char **ret_json, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, name, inspect(cove, name, ret_json, &e), &e, err);
}
