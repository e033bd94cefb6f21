/* The option table and its parser: every form, every kind of value, every way to be wrong. */
#include "base/fd.h"
#include "base/str.h"
#include "cli/options.h"
#include "tap.h"

#include <stdlib.h>

static const enum opt_id all[] = {OPT_NAME,    OPTS_BOX,    OPT_TTY,	     OPT_INTERACTIVE,
				  OPT_EXEC,    OPT_FROM,    OPT_SIGNAL,	     OPT_GRACE,
				  OPT_ONCE,    OPT_FOR,	    OPT_SECRET_FILE, OPT_SECRET_COMMAND,
				  OPTS_FILES,  OPT_DENIED,  OPT_SINCE,	     OPT_BEFORE,
				  OPT_ADDRESS, OPTS_COMMON, OPTS_LIMITS,     OPT_END};

static int parse(struct options *o, int command_after, struct err *e, ...)
{
	struct opt_spec spec = {.verb = "test", .allowed = all, .command_after = command_after};
	char *argv[48];
	int argc = 0;
	va_list ap;

	va_start(ap, e);
	for (char *s = va_arg(ap, char *); s; s = va_arg(ap, char *))
		argv[argc++] = s;
	va_end(ap);
	return options_parse(o, &spec, argc, argv, e);
}

TEST(values_attached_and_apart)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "--name=a", "--image", "b", "-w/tmp", "-u", "root", "x", NULL),
		 0);
	CHECK_STR(o.box.name, "a");
	CHECK_STR(o.box.image, "b");
	CHECK_STR(o.box.cwd, "/tmp");
	CHECK_STR(o.box.user, "root");
	CHECK_EQ(o.arg_count, 1);
	CHECK_STR(o.args[0], "x");
	CHECK(o.args[1] == NULL);
	options_done(&o);
}

TEST(flags_together_and_value_at_the_end)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "-ite", "A=1", "-v", NULL), 0);
	CHECK(o.tty && o.interactive && o.verbose && !o.json);
	CHECK_EQ(o.env.count, 1);
	CHECK_STR(o.env.items[0], "A=1");
	options_done(&o);
}

TEST(lists_keep_their_order_and_end_with_null)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "--mount", "a:/a", "--mount=b:/b", "--label", "x=1", NULL), 0);
	CHECK_EQ(o.mounts.count, 2);
	CHECK_STR(o.mounts.items[0], "a:/a");
	CHECK_STR(o.mounts.items[1], "b:/b");
	CHECK(o.mounts.items[2] == NULL);
	CHECK_EQ(o.labels.count, 1);
	CHECK(o.env.items == NULL);
	options_done(&o);
}

TEST(files_are_two_places_with_a_colon_between)
{
	static const struct {
		const char *text, *from, *to;
	} in[] = {{"a", "a", "."},	   {"a:", "a", "."},
		  {"a:b", "a", "b"},	   {"a:b:c", "a", "b:c"},
		  {"a\\:b", "a:b", "."},   {"a\\:b:c\\:d", "a:b", "c:d"},
		  {"a\\\\:b", "a\\", "b"}, {"a\\n:\\", "a\\n", "\\"},
		  {"\\:", ":", "."},	   {"./-", "./-", "."},
		  {"-:x", NULL, "x"},	   {"\xff\n:\xfe", "\xff\n", "\xfe"}};
	struct options o;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
		CHECK_EQ(parse(&o, -1, &e, "--in", in[i].text, "--in=z", "--out", in[i].text, NULL),
			 0);
		CHECK_EQ(o.inputs.count, 2);
		CHECK_EQ(o.inputs.items[0].size, sizeof(struct cove_transfer));
		CHECK_EQ(!o.inputs.items[0].from, !in[i].from);
		CHECK_EQ(options_puts_stdin(&o), !in[i].from);
		if (in[i].from)
			CHECK_STR(o.inputs.items[0].from, in[i].from);
		CHECK_STR(o.inputs.items[0].to, in[i].to);
		CHECK_STR(o.inputs.items[1].from, "z");
		CHECK_EQ(o.outputs.count, 1);
		CHECK_STR(o.outputs.items[0].from, in[i].from ? in[i].from : "-");
		CHECK_STR(o.outputs.items[0].to, in[i].to);
		CHECK(!options_gets_stdout(&o));
		options_done(&o);
	}
	CHECK_EQ(parse(&o, -1, &e, "--out", "x:-", NULL), 0);
	CHECK(options_gets_stdout(&o) && !o.outputs.items[0].to);
	CHECK_EQ(o.outputs.items[0].fd, 1);
	options_done(&o);
	for (size_t i = 0; i < 2; i++) {
		CHECK(parse(&o, -1, &e, i ? "--in" : "--out", ":x", NULL) < 0);
		options_done(&o);
		CHECK(parse(&o, -1, &e, i ? "--in" : "--out", "", NULL) < 0);
		options_done(&o);
	}
	CHECK(parse(&o, -1, &e, "--in", "-", NULL) < 0);
	options_done(&o);
	CHECK(parse(&o, -1, &e, "--in", "-:", NULL) < 0);
	options_done(&o);
}

TEST(env_without_value_takes_ours)
{
	struct options o;
	struct err e = {0};

	setenv("COVE_TEST_VAR", "from here", 1);
	CHECK_EQ(parse(&o, -1, &e, "-e", "COVE_TEST_VAR", "-e", "EMPTY=", NULL), 0);
	CHECK_STR(o.env.items[0], "COVE_TEST_VAR=from here");
	CHECK_STR(o.env.items[1], "EMPTY=");
	options_done(&o);
	unsetenv("COVE_TEST_VAR");
	CHECK(parse(&o, -1, &e, "-e", "COVE_TEST_VAR", NULL) < 0);
	CHECK(strstr(e.msg, "COVE_TEST_VAR") && strstr(e.msg, "NAME=VALUE"));
	options_done(&o);
}

TEST(two_dashes_end_options)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "a", "--", "--name", "-x", "--", NULL), 0);
	CHECK(o.box.name == NULL);
	CHECK_EQ(o.arg_count, 4);
	CHECK_STR(o.args[1], "--name");
	CHECK_STR(o.args[3], "--");
	options_done(&o);
}

TEST(the_command_begins_at_its_first_word)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, 0, &e, "-v", "ls", "-l", "--name", "x", NULL), 0);
	CHECK_EQ(o.arg_count, 4);
	CHECK_STR(o.args[1], "-l");
	CHECK(o.box.name == NULL);
	options_done(&o);
	/* With a box before it, options may still stand behind the box. */
	CHECK_EQ(parse(&o, 1, &e, "box", "-w", "/", "ls", "-v", NULL), 0);
	CHECK_EQ(o.arg_count, 3);
	CHECK_STR(o.box.cwd, "/");
	CHECK_STR(o.args[2], "-v");
	CHECK(!o.verbose);
	options_done(&o);
	CHECK_EQ(parse(&o, 1, &e, "box", "--", "-v", NULL), 0);
	CHECK_EQ(o.arg_count, 2);
	CHECK_STR(o.args[1], "-v");
	options_done(&o);
}

TEST(a_dash_alone_is_an_argument)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "-", "--json", NULL), 0);
	CHECK_EQ(o.arg_count, 1);
	CHECK(o.json);
	options_done(&o);
}

TEST(numbers_times_and_signals)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "--timeout", "1.5s", "--exec", "7", "-s", "SIGINT", "--grace=0",
		       NULL),
		 0);
	CHECK_EQ(o.box.timeout_ms, 1500);
	CHECK_EQ(o.exec_id, 7);
	CHECK(o.given[OPT_EXEC] && o.given[OPT_GRACE] && !o.given[OPT_FROM]);
	CHECK_EQ(o.grace_ms, 0);
	CHECK_EQ(o.signal, 2);
	options_done(&o);
	CHECK_EQ(parse(&o, -1, &e, "--from", "4096", NULL), 0);
	CHECK_EQ(o.out_from, 4096);
	CHECK_EQ(o.err_from, 0);
	options_done(&o);
	CHECK_EQ(parse(&o, -1, &e, "--from=10:20", NULL), 0);
	CHECK_EQ(o.out_from, 10);
	CHECK_EQ(o.err_from, 20);
	options_done(&o);
}

TEST(limits)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "x", NULL), 0);
	CHECK(!options_has_limits(&o));
	options_done(&o);
	CHECK_EQ(parse(&o, -1, &e, "--mem", "512M", "--cpus=0.5", "--pids", "64", "--disk",
		       "1.5GiB", "--files", "1024", "--io", "10m", "--ttl", "1h", "--idle=90",
		       "--expire", "remove", "--net-bytes", "1G", "--net-conns", "8", "--storage",
		       "loop", "--best-effort", "--strict", "--ptrace", "--ctl", "info", NULL),
		 0);
	CHECK_EQ(o.box.mem_bytes, 512 << 20);
	CHECK_EQ(o.box.cpu_milli, 500);
	CHECK_EQ(o.box.pids, 64);
	CHECK_EQ(o.box.disk_bytes, 3ull << 29);
	CHECK_EQ(o.box.files, 1024);
	CHECK_EQ(o.box.io_bytes, 10 << 20);
	CHECK_EQ(o.box.ttl_ms, 3600000);
	CHECK_EQ(o.box.idle_ms, 90000);
	CHECK_EQ(o.box.net_bytes, 1 << 30);
	CHECK_EQ(o.box.net_conns, 8);
	CHECK_STR(o.box.expire, "remove");
	CHECK_STR(o.box.storage, "loop");
	CHECK_STR(o.box.ctl, "info");
	CHECK(o.box.best_effort && o.box.strict && o.box.ptrace && options_has_limits(&o));
	options_done(&o);
}

TEST(a_limit_is_lifted_by_0_and_by_none)
{
	static const char *const names[] = {"--mem",	   "--cpus",	 "--pids", "--disk",
					    "--files",	   "--io",	 "--ttl",  "--idle",
					    "--net-bytes", "--net-conns"};
	static const char *const values[] = {"0", "none"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (size_t k = 0; k < 2; k++) {
			struct options o;
			struct err e = {0};

			CHECK_EQ(parse(&o, -1, &e, names[i], values[k], NULL), 0);
			CHECK(options_has_limits(&o));
			CHECK(o.box.mem_bytes == UINT64_MAX || o.box.cpu_milli == UINT64_MAX ||
			      o.box.pids == UINT64_MAX || o.box.disk_bytes == UINT64_MAX ||
			      o.box.files == UINT64_MAX || o.box.io_bytes == UINT64_MAX ||
			      o.box.ttl_ms == UINT64_MAX || o.box.idle_ms == UINT64_MAX ||
			      o.box.net_bytes == UINT64_MAX || o.box.net_conns == UINT64_MAX);
			options_done(&o);
		}
}

TEST(bad_values_are_named)
{
	static const struct {
		const char *option, *value, *said;
	} bad[] = {{"--timeout", "soon", "not a time"},
		   {"--timeout", "", "not a time"},
		   {"--timeout", "-1", "not a time"},
		   {"--exec", "x", "cove ps"},
		   {"--from", "1:2:3", "byte offset"},
		   {"--from", ":", "byte offset"},
		   {"--signal", "NOPE", "signal"},
		   {"--name", "", "empty"},
		   {"--net", "", "empty"},
		   {"--for", "soon", "not a time"},
		   {"--since", "-1h", "not a time"},
		   {"--before", "", "not a time"},
		   {"--address", "", "empty"},
		   {"--from", "99999999999999999999999999", "byte offset"},
		   {"--from", "99999999999999999999999999:1", "byte offset"},
		   {"--mem", "lots", "not a size"},
		   {"--mem", "", "not a size"},
		   {"--mem", "-1", "not a size"},
		   {"--mem", "1.5", "not a size"},
		   {"--mem", "99999999999T", "not a size"},
		   {"--disk", "10 G", "not a size"},
		   {"--io", "1M/s", "not a size"},
		   {"--net-bytes", "None", "not a size"},
		   {"--cpus", "half", "processors"},
		   {"--cpus", "1.0005", "processors"},
		   {"--cpus", "-2", "processors"},
		   {"--pids", "1k", "not a number"},
		   {"--pids", "18446744073709551615", "not a number"},
		   {"--files", "many", "not a number"},
		   {"--net-conns", "", "not a number"},
		   {"--ttl", "soon", "not a time"},
		   {"--idle", "-1", "not a time"},
		   {"--expire", "", "empty"},
		   {"--storage", "", "empty"}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct options o;
		struct err e = {0};

		CHECK(parse(&o, -1, &e, bad[i].option, bad[i].value, NULL) < 0);
		CHECK(strstr(e.msg, bad[i].option));
		CHECK(strstr(e.msg, bad[i].said));
		options_done(&o);
	}
}

TEST(the_network)
{
	struct options o;
	struct err e = {0};

	CHECK_EQ(parse(&o, -1, &e, "--net", "./policy.yaml", "--allow", "a.example:443", "--deny",
		       "b.example", "--allow=*.c.example", NULL),
		 0);
	CHECK_STR(o.box.net, "./policy.yaml");
	CHECK_EQ(o.allow.count, 2);
	CHECK_STR(o.allow.items[0], "a.example:443");
	CHECK_STR(o.allow.items[1], "*.c.example");
	CHECK(!o.allow.items[2]);
	CHECK_EQ(o.deny.count, 1);
	CHECK_STR(o.deny.items[0], "b.example");
	CHECK(!o.given[OPT_FOR] && !o.given[OPT_SINCE] && !o.given[OPT_BEFORE]);
	options_done(&o);
	CHECK_EQ(parse(&o, -1, &e, "--for", "10m", "--since", "1h", "--before", "0", "--once",
		       "--denied", "--file", "/a", "--command", "b c", "--address", "::1", NULL),
		 0);
	CHECK(o.given[OPT_FOR] && o.given[OPT_SINCE] && o.given[OPT_BEFORE] && o.once && o.denied);
	CHECK_EQ(o.for_ms, 600000);
	CHECK_EQ(o.since_ms, 3600000);
	CHECK_EQ(o.before_ms, 0);
	CHECK_STR(o.secret_file, "/a");
	CHECK_STR(o.secret_command, "b c");
	CHECK_STR(o.address, "::1");
	options_done(&o);
}

TEST(unknown_options_get_the_nearest)
{
	struct options o;
	struct err e = {0};

	CHECK(parse(&o, -1, &e, "--imgae", "x", NULL) < 0);
	CHECK(strstr(e.msg, "'--imgae'") && strstr(e.msg, "'--image'") &&
	      strstr(e.msg, "cove help test"));
	options_done(&o);
	CHECK(parse(&o, -1, &e, "--work", NULL) < 0);
	CHECK(strstr(e.msg, "did you mean '--work"));
	options_done(&o);
	CHECK(parse(&o, -1, &e, "--quite-another-thing=1", NULL) < 0);
	CHECK(strstr(e.msg, "'--quite-another-thing'") && !strstr(e.msg, "did you mean"));
	options_done(&o);
	CHECK(parse(&o, -1, &e, "-vZ", NULL) < 0);
	CHECK(strstr(e.msg, "'-Z'"));
	options_done(&o);
}

TEST(missing_and_needless_values)
{
	struct options o;
	struct err e = {0};

	CHECK(parse(&o, -1, &e, "--name", NULL) < 0);
	CHECK(strstr(e.msg, "--name needs a value"));
	options_done(&o);
	CHECK(parse(&o, -1, &e, "-e", NULL) < 0);
	CHECK(strstr(e.msg, "--env needs a value"));
	options_done(&o);
	CHECK(parse(&o, -1, &e, "--json=yes", NULL) < 0);
	CHECK(strstr(e.msg, "takes no value"));
	options_done(&o);
}

TEST(a_very_long_option_is_cut_in_the_message)
{
	autofree char *word = malloc(100001);
	struct options o;
	struct err e = {0};

	CHECK(word);
	memset(word, 'a', 100000);
	memcpy(word, "--", 2);
	word[100000] = 0;
	CHECK(parse(&o, -1, &e, word, NULL) < 0);
	CHECK(strlen(e.msg) < 200);
	options_done(&o);
}

TEST(closest_word)
{
	static const char *const verbs[] = {"run", "create", "rm", "ls", "inspect", NULL};

	CHECK_STR(str_closest("craete", verbs), "create");
	CHECK_STR(str_closest("insp", verbs), "inspect");
	CHECK_STR(str_closest("rn", verbs), "run");
	CHECK(str_closest("x", verbs) == NULL);
	CHECK(str_closest("", verbs) == NULL);
	CHECK(str_closest("completely-different", verbs) == NULL);
}

/* The same letters mean other things there, and sizes are as Docker writes them. */
TEST(the_words_of_sbx)
{
	static const enum opt_id create[] = {OPT_NAME, OPT_SBX_TEMPLATE, OPT_SBX_MEMORY, OPT_QUIET,
					     OPT_END};
	static const char *const good[] = {"8g", "8gb", "8G", "8GiB", "8192m", "8388608K"};
	static const char *const bad[] = {"", "g", "8x", "-8g", "8 g", "8g8g", "99999999999g"};
	struct opt_spec spec = {.verb = "sbx create", .allowed = create, .command_after = -1};
	struct options o;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char *argv[] = {"shell", "-m", (char *)good[i], "-t", "image", "-q", "/w:ro"};

		CHECK_EQ(options_parse(&o, &spec, 7, argv, &e), 0);
		CHECK_EQ(o.box.mem_bytes, 8ull << 30);
		CHECK_STR(o.box.image, "image");
		CHECK(o.quiet && !o.tty && o.arg_count == 2);
		options_done(&o);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *argv[] = {"shell", "--memory", (char *)bad[i], "/w"};

		CHECK_EQ(options_parse(&o, &spec, 4, argv, &e), -EINVAL);
		CHECK(strstr(e.msg, "--memory") && strstr(e.msg, "cove help sbx create"));
		options_done(&o);
	}
}

TEST(help_shows_every_option_within_80_columns)
{
	struct buf b;
	const char *text, *line;
	size_t shown = 0;

	buf_init(&b, 1 << 16);
	options_help(all, &b);
	text = buf_cstr(&b);
	CHECK(text);
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		CHECK(strchr(line, '\n') - line <= 80);
		shown += strncmp(line + 6, "--", 2) == 0;
	}
	CHECK_EQ(shown, sizeof(all) / sizeof(all[0]) - 1);
	buf_done(&b);
}

TAP_MAIN
