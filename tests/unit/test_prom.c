/* The text format of Prometheus, and what is counted below a maximum. */
#include "tap.h"

#include "api/figures.h"
#include "api/prom.h"

#include <stdio.h>
#include <string.h>

static struct buf out;

static const char *text(void)
{
	return buf_cstr(&out);
}

TEST(values_of_labels_are_escaped)
{
	struct prom p = {.out = &out};

	buf_init(&out, 1 << 20);
	prom_metric(&p, "m", "gauge", "Help.");
	prom_u64(&p, (struct prom_label[]){{"a", "x\"y\\z\nw"}, {"b", NULL}, {0}}, 7);
	prom_seconds(&p, NULL, 1500, 1000);
	CHECK_EQ(p.error, 0);
	CHECK_STR(text(), "# HELP m Help.\n# TYPE m gauge\nm{a=\"x\\\"y\\\\z\\nw\",b=\"\"} 7\n"
			  "m 1.500000\n");
	buf_done(&out);
}

TEST(steps_of_a_histogram_add_up)
{
	struct prom p = {.out = &out};
	struct prom_times t = {0};

	buf_init(&out, 1 << 20);
	prom_times_add(&t, 0);
	prom_times_add(&t, 1000);
	prom_times_add(&t, 1001);
	prom_times_add(&t, UINT32_MAX);
	prom_metric(&p, "h", "histogram", "Help.");
	prom_times_write(&p, NULL, &t);
	CHECK(strstr(text(), "h_bucket{le=\"0.0005\"} 1\n"));
	CHECK(strstr(text(), "h_bucket{le=\"0.001\"} 2\nh_bucket{le=\"0.0025\"} 3\n"));
	CHECK(strstr(text(), "h_bucket{le=\"1800\"} 3\nh_bucket{le=\"+Inf\"} 4\n"));
	CHECK(strstr(text(), "h_count 4\n"));
	buf_done(&out);
}

static void stopped(struct figures *f, const char *box, const char *label, const char *value)
{
	json_t *row = json_pack("{s:s,s:s,s:{s:s},s:{s:i,s:i}}", "type", "box.stopped", "box", box,
				"labels", label, value, "data", "alive_ms", 1000, "cpu_us", 10);

	figures_event(f, row);
	json_decref(row);
}

static size_t count_of(const char *what)
{
	size_t n = 0;

	for (const char *at = text(); (at = strstr(at, what)); at++)
		n++;
	return n;
}

TEST(who_makes_up_labels_and_owners_meets_a_maximum)
{
	static const char *const labels[] = {"team"};
	struct figures *f = figures_new(labels, 1);
	char name[40], value[40];
	json_t *saved;

	for (int i = 0; i < 1000; i++) {
		snprintf(value, sizeof(value), "v%d", i);
		stopped(f, "mine", "team", value);
		stopped(f, "mine", "other", value);
	}
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "%08x_b", i);
		stopped(f, name, "team", "x");
	}
	buf_init(&out, 16 << 20);
	CHECK_EQ(figures_write(f, NULL, &out), 0);
	CHECK(strstr(text(), "cove_alive_seconds_total{key=\"\",value=\"\"} 1000.000000\n") ==
	      NULL);
	CHECK(strstr(text(), "cove_alive_seconds_total{key=\"\"} 2000.000000\n"));
	CHECK(strstr(text(), "cove_label_alive_seconds_total{key=\"\",label=\"team\",value="
			     "\"(other)\"} 936.000000\n"));
	CHECK_EQ(count_of("cove_label_alive_seconds_total{key=\"\","), FIGURES_VALUES_MAX + 1);
	CHECK(count_of("cove_alive_seconds_total{key=") <= FIGURES_GROUPS_MAX);
	/* What was counted is there again. */
	saved = figures_save(f);
	figures_free(f);
	f = figures_new(labels, 1);
	figures_load(f, saved);
	json_decref(saved);
	buf_clear(&out);
	CHECK_EQ(figures_write(f, "", &out), 0);
	CHECK(strstr(text(), "cove_alive_seconds_total{key=\"\"} 2000.000000\n"));
	CHECK(strstr(text(), "cove_events_total{type=\"box.stopped\"} 2000\n"));
	CHECK(!strstr(text(), "key=\"00000001\""));
	figures_free(f);
	buf_done(&out);
}
