/* The report of `cove doctor`: its JSON, and what it says where no box can run. */
#include "base/fd.h"
#include "base/str.h"
#include "doctor/doctor.h"
#include "tap.h"

static struct doctor_report *new_report(void)
{
	struct doctor_report *r = calloc(1, sizeof(*r));

	CHECK(r != NULL);
	return r;
}

TEST(json_of_a_report)
{
	struct doctor_report *r = new_report();
	autofree char *json = NULL;

	r->count = 2;
	r->checks[0] = (struct doctor_check){
		.name = "memory", .group = DOCTOR_LIMITS, .found = "a \"quote\"\nand a line"};
	r->checks[1] = (struct doctor_check){.name = "io",
					     .group = DOCTOR_LIMITS,
					     .status = DOCTOR_LIMITED,
					     .found = "\xff\xfe",
					     .consequence = "c",
					     .remedy = "r"};
	r->test_count = 1;
	r->tests[0] = (struct doctor_test){.name = "t", .verdict = DOCTOR_FAILED, .saw = "s"};
	r->worst = DOCTOR_LIMITED;
	r->can_run = true;
	json = doctor_json(r);
	CHECK(json != NULL);
	CHECK(strstr(json, "\"status\":\"limited\""));
	CHECK(strstr(json, "\"can_run\":true"));
	CHECK(strstr(json, "a \\\"quote\\\"\\nand a line"));
	CHECK(strstr(json, "\"enforced\":[\"memory\"]"));
	CHECK(strstr(json, "\"not_enforced\":[\"io\"]"));
	CHECK(strstr(json, "\"verdict\":\"failed\""));
	CHECK(!strchr(json, '\xff') && !strchr(json, '\n'));
	CHECK(doctor_has_failed(r));
	free(r);
}

TEST(json_of_the_fullest_report_fits)
{
	struct doctor_report *r = new_report();
	struct doctor_check full = {.name = "name"};
	autofree char *json = NULL;

	memset(full.found, '\1', sizeof(full.found) - 1);
	memset(full.consequence, '\1', sizeof(full.consequence) - 1);
	memset(full.remedy, '\1', sizeof(full.remedy) - 1);
	r->count = DOCTOR_CHECKS_MAX;
	r->test_count = DOCTOR_TESTS_MAX;
	for (size_t i = 0; i < r->count; i++)
		r->checks[i] = full;
	for (size_t i = 0; i < r->test_count; i++) {
		r->tests[i].name = "test";
		memset(r->tests[i].saw, '\1', sizeof(r->tests[i].saw) - 1);
	}
	json = doctor_json(r);
	CHECK(json != NULL);
	CHECK(!doctor_has_failed(r));
	free(r);
}

TEST(a_home_that_cannot_be_is_missing)
{
	struct doctor_report *r = new_report();
	bool told = false;

	doctor_run("/proc/1/none/of/this", true, r);
	CHECK(!r->can_run && r->worst == DOCTOR_MISSING);
	CHECK(r->test_count == 0 && r->not_tested[0]);
	for (size_t i = 0; i < r->count; i++) {
		const struct doctor_check *c = &r->checks[i];

		CHECK(c->name && c->found[0]);
		CHECK(c->status == DOCTOR_OK || (c->consequence[0] && c->remedy[0]));
		told |= strcmp(c->name, "state_directory") == 0 && c->status == DOCTOR_MISSING;
	}
	CHECK(told);
	free(r);
}

TEST(without_a_test_nothing_is_made)
{
	struct doctor_report *r = new_report();
	char home[] = "/tmp/cove-doctor-XXXXXX", below[64];

	CHECK(mkdtemp(home));
	snprintf(below, sizeof(below), "%s/home", home);
	doctor_run(below, false, r);
	CHECK(r->test_count == 0 && strcmp(r->not_tested, "not asked for") == 0);
	CHECK(rmdir(home) == 0);
	free(r);
}

TAP_MAIN
