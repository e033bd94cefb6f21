/*
 * The report of `cove doctor`: which checks there are, in which order, and its form in JSON; see
 * doctor.h. One table lists the checks; each fills its own line.
 */
#include "doctor/doctor.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "doctor/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_BYTES_MAX = 256 << 10 };

/* The state directory, or the nearest directory above it that is there. */
static void find_place(struct doctor *d, const char *home)
{
	struct state *s = &d->cove.state;

	d->place_fd = -1;
	if (state_open(s, home, false, &d->state_error) < 0)
		return;
	str_copy(d->place, sizeof(d->place), s->home);
	if (s->home_fd >= 0) {
		d->place_fd = fcntl(s->home_fd, F_DUPFD_CLOEXEC, 3);
		return;
	}
	do {
		char *slash = strrchr(d->place, '/');

		slash[slash == d->place] = 0;
		d->place_fd = open(d->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} while (d->place_fd < 0 && errno == ENOENT && d->place[1]);
	if (d->place_fd < 0)
		err_errno(&d->state_error, errno, "open '%.140s'", d->place);
}

void doctor_set(struct doctor_check *c, enum doctor_status status, const char *consequence,
		const char *remedy)
{
	c->status = status;
	str_copy(c->consequence, sizeof(c->consequence), consequence);
	str_copy(c->remedy, sizeof(c->remedy), remedy);
}

void doctor_found(struct doctor_check *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->found, sizeof(c->found), fmt, args);
	va_end(args);
}

static const struct {
	const char *name;
	enum doctor_group group;
	doctor_check_fn *run;
} checks[] = {
	{"kernel", DOCTOR_HOST, doctor_check_kernel},
	{"kernel_calls", DOCTOR_HOST, doctor_check_calls},
	{"capabilities", DOCTOR_HOST, doctor_check_caps},
	{"programs", DOCTOR_HOST, doctor_check_programs},
	{"door", DOCTOR_HOST, doctor_check_door},
	{"state_directory", DOCTOR_HOST, doctor_check_state},
	{"base_image", DOCTOR_HOST, doctor_check_image},
	{"boxes", DOCTOR_HOST, doctor_check_boxes},
	{"user_namespaces", DOCTOR_WALLS, doctor_check_user_ns},
	{"namespaces", DOCTOR_WALLS, doctor_check_namespaces},
	{"ids", DOCTOR_WALLS, doctor_check_ids},
	{"overlay", DOCTOR_WALLS, doctor_check_overlay},
	{"idmapped_mounts", DOCTOR_WALLS, doctor_check_idmap},
	{"seccomp", DOCTOR_WALLS, doctor_check_seccomp},
	{"landlock", DOCTOR_WALLS, doctor_check_landlock},
	{"nftables", DOCTOR_WALLS, doctor_check_nftables},
	{"bpf_memory", DOCTOR_WALLS, doctor_check_bpf},
	{"core_dumps", DOCTOR_WALLS, doctor_check_core_dumps},
	{"cgroup", DOCTOR_LIMITS, doctor_check_cgroup},
	{"memory", DOCTOR_LIMITS, doctor_check_memory},
	{"cpus", DOCTOR_LIMITS, doctor_check_cpus},
	{"pids", DOCTOR_LIMITS, doctor_check_pids},
	{"io", DOCTOR_LIMITS, doctor_check_io},
	{"disk", DOCTOR_LIMITS, doctor_check_disk},
	{"tmpfs", DOCTOR_LIMITS, doctor_check_tmpfs},
	{"pool", DOCTOR_LIMITS, doctor_check_pool},
	{"kvm", DOCTOR_OTHERS, doctor_check_kvm},
	{"gvisor", DOCTOR_OTHERS, doctor_check_gvisor},
	{"docker", DOCTOR_OTHERS, doctor_check_docker},
};
_Static_assert(sizeof(checks) / sizeof(checks[0]) <= DOCTOR_CHECKS_MAX, "they fit the report");

void doctor_run(const char *home, bool test, struct doctor_report *ret)
{
	struct doctor d = {0};

	memset(ret, 0, sizeof(*ret));
	find_place(&d, home);
	cgroup_probe(&d.offer);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct doctor_check *c = &ret->checks[ret->count++];

		c->name = checks[i].name;
		c->group = checks[i].group;
		checks[i].run(&d, c);
		if (c->status > ret->worst && c->status != DOCTOR_ABSENT)
			ret->worst = c->status;
	}
	ret->can_run = ret->worst != DOCTOR_MISSING;
	if (test)
		doctor_selftest(&d, home, ret);
	else
		str_copy(ret->not_tested, sizeof(ret->not_tested), "not asked for");
	fd_close(&d.place_fd);
	state_close(&d.cove.state);
}

bool doctor_has_failed(const struct doctor_report *report)
{
	for (size_t i = 0; i < report->test_count; i++) {
		if (report->tests[i].verdict == DOCTOR_FAILED)
			return true;
	}
	return false;
}

static const char *const status_names[] = {"ok", "absent", "limited", "missing"};
static const char *const group_names[] = {"host", "walls", "limits", "others"};
static const char *const verdict_names[] = {"held", "skipped", "failed"};

static void write_checks(struct json *j, const struct doctor_report *report)
{
	json_key(j, "checks");
	json_array_begin(j);
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *c = &report->checks[i];

		json_object_begin(j);
		json_kv_str(j, "name", c->name);
		json_kv_str(j, "group", group_names[c->group]);
		json_kv_str(j, "status", status_names[c->status]);
		json_kv_str(j, "found", c->found);
		json_kv_str(j, "consequence", c->consequence[0] ? c->consequence : NULL);
		json_kv_str(j, "remedy", c->remedy[0] ? c->remedy : NULL);
		json_object_end(j);
	}
	json_array_end(j);
}

/* The names of the limits, and of the walls that not every kernel has. */
static void write_enforced(struct json *j, const struct doctor_report *report, bool enforced)
{
	json_key(j, enforced ? "enforced" : "not_enforced");
	json_array_begin(j);
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *c = &report->checks[i];
		bool is_one = c->group == DOCTOR_LIMITS || c->group == DOCTOR_WALLS;

		if (is_one && c->status != DOCTOR_ABSENT && (c->status == DOCTOR_OK) == enforced)
			json_str(j, c->name);
	}
	json_array_end(j);
}

static void write_tests(struct json *j, const struct doctor_report *report)
{
	json_key(j, "self_test");
	json_object_begin(j);
	json_kv_str(j, "skipped", report->not_tested[0] ? report->not_tested : NULL);
	json_key(j, "tests");
	json_array_begin(j);
	for (size_t i = 0; i < report->test_count; i++) {
		const struct doctor_test *t = &report->tests[i];

		json_object_begin(j);
		json_kv_str(j, "name", t->name);
		json_kv_str(j, "verdict", verdict_names[t->verdict]);
		json_kv_str(j, "saw", t->saw);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

char *doctor_json(const struct doctor_report *report)
{
	struct json j;
	struct buf b;
	const char *text;
	char *copy;

	buf_init(&b, REPORT_BYTES_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_str(&j, "status", status_names[report->worst]);
	json_kv_bool(&j, "can_run", report->can_run);
	write_checks(&j, report);
	write_enforced(&j, report, true);
	write_enforced(&j, report, false);
	write_tests(&j, report);
	json_object_end(&j);
	text = j.error == 0 ? buf_cstr(&b) : NULL;
	copy = text ? strdup(text) : NULL;
	buf_done(&b);
	return copy;
}
