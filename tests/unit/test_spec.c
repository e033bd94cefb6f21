/* Specs: there and back, and everything that must not get in. */
#include "base/str.h"
#include "store/spec.h"
#include "tap.h"

static struct spec good(void)
{
	return (struct spec){.name = "dev", .image = "base", .wall = "native"};
}

static int parse(const char *text, struct err *e)
{
	static struct spec s;
	char *copy = strdup(text);
	int r = spec_parse(&s, copy, strlen(text), e);

	free(copy);
	return r;
}

TEST(whose_a_box_is_stands_in_its_name)
{
	static const struct {
		const char *name, *owner, *workspace;
		bool ok;
	} cases[] = {
		{"1a2b3c4d_web", "1a2b3c4d", NULL, true},
		{"1a2b3c4d_web", "1a2b3c4d", "1a2b3c4d_data", true},
		{"web", NULL, "1a2b3c4d_data", true}, /* the operator looks at it */
		{"1a2b3c4d_web", NULL, NULL, false},
		{"1a2b3c4d_web", "1a2b3c4e", NULL, false},
		{"web", "1a2b3c4d", NULL, false},
		{"1a2b3c4d", "1a2b3c4d", NULL, false},
		{"1a2b3c4d_web", "1a2b3c4d", "data", false},
		{"1a2b3c4d_web", "1a2b3c4d", "1a2b3c4e_data", false},
		{"1a2b3c4d_web", "1a2b3c4", NULL, false},
		{"1a2b3c4d_web", "", NULL, false},
		{"1a2b3c4d_web", "../../..", NULL, false},
	};
	struct err e = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spec s = good(), got;
		struct buf b;
		char *text;

		s.name = cases[i].name;
		s.owner = cases[i].owner;
		s.workspace = cases[i].workspace;
		CHECK_EQ(spec_check(&s, &e) == 0, cases[i].ok);
		buf_init(&b, SPEC_BYTES_MAX);
		CHECK_EQ(spec_format(&s, &b), 0);
		text = strdup(buf_cstr(&b));
		/* No record says otherwise, whoever wrote it. */
		CHECK_EQ(spec_parse(&got, text, buf_len(&b), &e) == 0, cases[i].ok);
		if (cases[i].ok && s.owner)
			CHECK_STR(got.owner, s.owner);
		free(text);
		buf_done(&b);
	}
}

TEST(everything_comes_back)
{
	struct spec s = good(), got;
	struct err e = {0};
	struct buf b;
	char *text;

	s.workspace = "dev";
	s.user = "user";
	s.cwd = "/tmp";
	s.session = "a session\nwith \\ lines\xff";
	s.persistence = PERSIST_BOX;
	s.one_shot = true;
	s.timeout_ms = 5000;
	s.created_ms = 1700000000000;
	s.storage = "tmpfs";
	s.net = "balanced";
	s.best_effort = s.strict = s.ptrace = true;
	s.ctl = "info,snapshot=3";
	s.expiry = EXPIRE_REMOVE;
	s.on_start = "redis-server &\nnginx # \\ both";
	for (unsigned i = 0; i < LIMIT_COUNT; i++)
		s.limits[i] = 100000000 + i;
	s.limits_asked = 1u << LIMIT_MEM | 1u << LIMIT_NET_CONNS;
	s.limits[LIMIT_CPUS] = 500;
	s.limits[LIMIT_PIDS] = 4;
	s.limits[LIMIT_FILES] = 1024;
	s.limits[LIMIT_NET_CONNS] = 0;
	s.env[s.env_count++] = "A=1";
	s.env[s.env_count++] = "B=two words\nand a line";
	s.env[s.env_count++] = "EMPTY=";
	s.labels[s.label_count++] = "team=a b";
	s.mounts[s.mount_count++] = (struct spec_mount){
		.src = "data", .dst = "/data", .env = "DATA", .read_only = true};
	s.mounts[s.mount_count++] =
		(struct spec_mount){.src = "/opt", .dst = "/opt/x", .owner = "4242:0"};
	buf_init(&b, SPEC_BYTES_MAX);
	CHECK_EQ(spec_format(&s, &b), 0);
	text = strdup(buf_cstr(&b));
	CHECK_EQ(spec_parse(&got, text, buf_len(&b), &e), 0);
	CHECK_STR(got.name, "dev");
	CHECK_STR(got.session, s.session);
	CHECK_EQ(got.persistence, PERSIST_BOX);
	CHECK(got.one_shot && got.timeout_ms == 5000 && got.created_ms == s.created_ms);
	CHECK_EQ(memcmp(got.limits, s.limits, sizeof(s.limits)), 0);
	CHECK_EQ(got.limits_asked, s.limits_asked);
	CHECK_STR(got.ctl, "info,snapshot=3");
	CHECK(got.best_effort && got.strict && got.ptrace && got.expiry == EXPIRE_REMOVE);
	CHECK_STR(got.on_start, s.on_start);
	CHECK_STR(got.storage, "tmpfs");
	CHECK_STR(got.net, "balanced");
	CHECK_EQ(got.env_count, 3);
	CHECK_STR(got.env[1], s.env[1]);
	CHECK_STR(got.env[2], "EMPTY=");
	CHECK_STR(got.labels[0], "team=a b");
	CHECK_EQ(got.mount_count, 2);
	CHECK(got.mounts[0].read_only && !got.mounts[1].read_only);
	CHECK_STR(got.mounts[0].env, "DATA");
	CHECK(got.mounts[1].env == NULL && got.workspace_dir == NULL);
	free(text);
	buf_done(&b);
}

#define HEAD "name dev\nimage base\nwall native\n"

TEST(strict_reading)
{
	static const char *const bad[] = {
		"",
		"name dev\n",
		HEAD "future 1\n",
		HEAD "name again\n",
		HEAD "one_shot 2\n",
		HEAD "one_shot 1\none_shot 1\n",
		HEAD "persistence maybe\n",
		HEAD "persistence box\npersistence box\n",
		HEAD "timeout_ms -1\n",
		HEAD "timeout_ms 99999999999999999999\n",
		HEAD "created_ms 1\ncreated_ms 2\n",
		HEAD "mount_dst /x\n",
		HEAD "mount_src /x\n",
		HEAD "mount_src /x\nmount_dst /y\nmount_dst /z\n",
		HEAD "mount_src /x\nmount_dst /proc/self\n",
		HEAD "cwd relative\n",
		HEAD "env NOVALUE\n",
		HEAD "cwd /tmp",
		HEAD "cwd /t\\mp\n",
		HEAD "Cwd /tmp\n",
		HEAD "\n",
		HEAD "mem_bytes 0\n",
		HEAD "mem_bytes 1\n",
		HEAD "mem_bytes 99999999999999999999\n",
		HEAD "mem_bytes 512M\n",
		HEAD "mem_bytes 33554432\nmem_bytes 33554432\n",
		HEAD "pids 3\n",
		HEAD "asked\n",
		HEAD "asked memory\n",
		HEAD "asked pids\nasked pids\n",
		HEAD "best_effort 0\n",
		HEAD "strict 1\nstrict 1\n",
		HEAD "expire stop\n",
		HEAD "expire remove\nexpire remove\n",
		HEAD "expire pause\nexpire remove\n",
		HEAD "expire freeze\n",
		HEAD "restart no\n",
		HEAD "restart on-failure\n",
		HEAD "restart always\nrestart always\n",
		HEAD "restart always\none_shot 1\n",
		HEAD "expire pause\none_shot 1\n",
		HEAD "on_start a\non_start b\n",
		HEAD "storage btrfs\n",
		HEAD "storage\n",
		HEAD "net wide\n",
		HEAD "net\n",
		HEAD "net open\nnet open\n",
		"name ../x\nimage base\nwall native\n",
		"name dev\nimage ../../etc\nwall native\n",
	};
	struct err e = {0};

	CHECK_EQ(parse(HEAD, &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){0};
		if (parse(bad[i], &e) >= 0)
			FAIL(bad[i]);
		CHECK(e.msg[0]);
	}
}

TEST(what_becomes_of_it_over_time)
{
	static const char *const texts[] = {"expire remove", "expire pause", "restart on-reboot",
					    "restart always"};
	char long_line[SPEC_ON_START_MAX + 2];
	struct spec s = good();
	struct err e = {0};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[100];

		snprintf(text, sizeof(text), HEAD "%s\n", texts[i]);
		CHECK_EQ(parse(text, &e), 0);
	}
	CHECK_STR(expiry_name(EXPIRE_PAUSE), "pause");
	CHECK_STR(restart_name(RESTART_ON_REBOOT), "on-reboot");
	CHECK(!expiry_parse("", &s.expiry) && !restart_parse("Always", &s.restart));
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = 0;
	s.on_start = long_line;
	CHECK_EQ(spec_check(&s, &e), -E2BIG);
	s.on_start = long_line + 1;
	CHECK_EQ(spec_check(&s, &e), 0);
}

TEST(a_nul_inside_does_not_hide_the_rest)
{
	char text[] = HEAD "cwd /tmp\n\0user root\n";
	struct spec s;

	CHECK(spec_parse(&s, text, sizeof(text) - 1, NULL) < 0);
}

TEST(counts_and_sizes_are_bounded)
{
	char text[65536], *at = text, *big = malloc(SPEC_BYTES_MAX + 10);
	struct spec s = good();
	struct err e = {0};

	at += sprintf(at, HEAD);
	for (unsigned i = 0; i <= SPEC_ENV_MAX; i++)
		at += sprintf(at, "env A%u=1\n", i);
	CHECK(parse(text, NULL) < 0);
	at = text + sprintf(text, HEAD);
	for (unsigned i = 0; i <= SPEC_MOUNT_MAX; i++)
		at += sprintf(at, "mount_src /a\nmount_dst /b%u\n", i);
	CHECK(parse(text, NULL) < 0);
	memset(big, 'x', SPEC_BYTES_MAX);
	memcpy(big, "A=", 2);
	big[SPEC_BYTES_MAX] = 0;
	s.env[s.env_count++] = big;
	CHECK_EQ(spec_check(&s, &e), -E2BIG);
	CHECK_EQ(e.kind, ERR_LIMIT);
	free(big);
}

TEST(names_users_and_workspaces_are_checked)
{
	static const char *const users[] = {"", "-x", "a b", "a/b", "a\n", "x;y"};
	struct spec s = good();
	struct err e = {0};

	CHECK_EQ(spec_check(&s, &e), 0);
	s.name = "Bad";
	CHECK(spec_check(&s, &e) < 0);
	s = good();
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		s.user = users[i];
		CHECK(spec_check(&s, NULL) < 0);
	}
	s.user = "1000:1000";
	CHECK_EQ(spec_check(&s, NULL), 0);
	s.workspace = "w";
	s.workspace_dir = "/w";
	CHECK(spec_check(&s, NULL) < 0);
	s.workspace = NULL;
	CHECK_EQ(spec_check(&s, NULL), 0);
}

/* What is refused says which flag, what it was and where the bound is. */
TEST(limits_have_bounds)
{
	static const struct {
		enum limit_id id;
		uint64_t least;
		const char *flag, *said;
	} limits[] = {
		{LIMIT_MEM, 16 << 20, "--mem 16777215 B", "at least 16 MiB"},
		{LIMIT_CPUS, 10, "--cpus 0.009", "at least 0.01"},
		{LIMIT_PIDS, 4, "--pids 3", "at least 4"},
		{LIMIT_DISK, 8 << 20, "--disk 8388607 B", "at least 8 MiB"},
		{LIMIT_FILES, 64, "--files 63", "at least 64"},
		{LIMIT_IO, 64 << 10, "--io 65535 B/s", "at least 64 KiB/s"},
		{LIMIT_TTL, 100, "--ttl 99 ms", "at least 100 ms"},
		{LIMIT_IDLE, 100, "--idle 99 ms", "at least 100 ms"},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct spec s = good();
		struct err e = {0};

		s.limits[limits[i].id] = limits[i].least;
		CHECK_EQ(spec_check(&s, &e), 0);
		s.limits[limits[i].id] = limits[i].least - 1;
		CHECK_EQ(spec_check(&s, &e), -EINVAL);
		CHECK_EQ(e.kind, ERR_INVALID);
		if (!strstr(e.msg, limits[i].flag) || !strstr(e.msg, limits[i].said))
			FAIL(e.msg);
		s.limits[limits[i].id] = UINT64_MAX;
		CHECK_EQ(spec_check(&s, &e), -EINVAL);
		CHECK(strstr(e.msg, limit_flag(limits[i].id)) && strstr(e.msg, "at most"));
	}
}

TEST(limits_in_words)
{
	char text[LIMIT_TEXT];

	CHECK_STR(limit_format(LIMIT_MEM, 0, text), "none");
	CHECK_STR(limit_format(LIMIT_MEM, 512 << 20, text), "512 MiB");
	CHECK_STR(limit_format(LIMIT_MEM, 3ull << 29, text), "1536 MiB");
	CHECK_STR(limit_format(LIMIT_IO, 1 << 20, text), "1 MiB/s");
	CHECK_STR(limit_format(LIMIT_CPUS, 1500, text), "1.5");
	CHECK_STR(limit_format(LIMIT_PIDS, 1024, text), "1024");
	CHECK_STR(limit_format(LIMIT_TTL, 90000, text), "90 s");
	CHECK_STR(limit_format(LIMIT_TTL, 1500, text), "1500 ms");
	CHECK_STR(limit_format(LIMIT_IDLE, 7200000, text), "2 h");
	CHECK_STR(limit_format(LIMIT_IDLE, 3 * 86400000, text), "3 d");
	for (unsigned i = 0; i < LIMIT_COUNT; i++) {
		CHECK(str_starts(limit_flag((enum limit_id)i), "--"));
		CHECK(limit_key((enum limit_id)i)[0] && limit_word((enum limit_id)i)[0]);
	}
}

static int mount_of(const char *text, struct spec_mount *ret, struct err *e)
{
	static char copy[256];

	str_copy(copy, sizeof(copy), text);
	return spec_mount_parse(ret, copy, e);
}

TEST(mounts_as_people_write_them)
{
	struct spec_mount m;

	CHECK_EQ(mount_of("/a:/b", &m, NULL), 0);
	CHECK_STR(m.src, "/a");
	CHECK_STR(m.dst, "/b");
	CHECK(!m.read_only && !m.env);
	CHECK_EQ(mount_of("./data/:/mnt/data/:ro,env=DATA_DIR", &m, NULL), 0);
	CHECK_STR(m.src, "data");
	CHECK_STR(m.dst, "/mnt/data");
	CHECK(m.read_only);
	CHECK_STR(m.env, "DATA_DIR");
	CHECK_EQ(mount_of("x:/y,env=E", &m, NULL), 0);
	CHECK(!m.read_only);
	CHECK_STR(m.env, "E");
}

TEST(an_unknown_mount_option_is_named)
{
	struct spec_mount m;
	struct err e = {0};

	CHECK(mount_of("/a:/b:rw", &m, &e) < 0);
	CHECK(strstr(e.msg, "unknown mount option 'rw'"));
	CHECK(mount_of("/a:b", &m, &e) < 0);
	CHECK(strstr(e.msg, "not an absolute path"));
}

TEST(two_mounts_at_one_place)
{
	struct spec s = {.name = "box", .image = "base", .wall = "native", .mount_count = 2};
	struct err e = {0};

	s.mounts[0] = (struct spec_mount){.src = "/a", .dst = "/data"};
	s.mounts[1] = (struct spec_mount){.src = "/b", .dst = "/other"};
	CHECK_EQ(spec_check(&s, &e), 0);
	s.mounts[1].dst = "/data";
	CHECK(spec_check(&s, &e) < 0);
	CHECK(strstr(e.msg, "two mounts at '/data'"));
}

TEST(mounts_that_are_none)
{
	static const char *const bad[] = {
		"",	    "/a",	   ":/b",	 "/a:",		 "/a:b",
		"/a:/b:rw", "/a:/b:ro:ro", "/a:/b,env=", "/a:/b,env=1X", "/a:/b,env=A,env=B",
		"/a:/b,ro", "/a:/b:/c"};
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct spec_mount m;

		e = (struct err){0};
		if (mount_of(bad[i], &m, &e) >= 0)
			FAIL(bad[i]);
		CHECK(strstr(e.msg, "SRC:DST") != NULL);
	}
}

TEST(mounts_stay_where_they_may)
{
	static const struct {
		const char *src, *dst;
	} bad[] = {{"../x", "/d"}, {"a/../../x", "/d"},	 {"", "/d"},	  {".", "/d"},
		   {"a//b", "/d"}, {"/a", "/"},		 {"/a", "/proc"}, {"/a", "/dev/x"},
		   {"/a", "/sys"}, {"/a", "/b/../proc"}, {"/a", "//b"},	  {"/a", "b"}};
	struct spec s = good();
	struct err e = {0};

	s.workspace = "w";
	s.mount_count = 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		s.mounts[0] = (struct spec_mount){.src = bad[i].src, .dst = bad[i].dst};
		if (spec_check(&s, NULL) >= 0)
			FAIL(bad[i].src);
	}
	s.mounts[0] = (struct spec_mount){.src = "a/b", .dst = "/procession"};
	CHECK_EQ(spec_check(&s, NULL), 0);
	s.workspace = NULL;
	CHECK(spec_check(&s, &e) < 0 && strstr(e.msg, "--workspace"));
}

TEST(session_names)
{
	char name[BOX_NAME_MAX + 1], again[BOX_NAME_MAX + 1], id[SESSION_ID_MAX + 2];
	char prefix[SESSION_PREFIX_MAX + 2];
	struct err e = {0};

	CHECK_EQ(spec_session_name("support-prod-acme", "abc", name, &e), 0);
	CHECK_STR(name, "support-prod-acme-ba7816bf8f01cfea");
	CHECK_EQ(spec_session_name(NULL, "abc", again, &e), 0);
	CHECK_STR(again, "session-ba7816bf8f01cfea");
	memset(prefix, 'a', sizeof(prefix));
	prefix[SESSION_PREFIX_MAX] = 0;
	CHECK_EQ(spec_session_name(prefix, "x", name, &e), 0);
	CHECK_EQ(strlen(name), BOX_NAME_MAX);
	prefix[SESSION_PREFIX_MAX] = 'a';
	prefix[SESSION_PREFIX_MAX + 1] = 0;
	CHECK_EQ(spec_session_name(prefix, "x", name, &e), -EINVAL);
	CHECK_EQ(spec_session_name("Upper", "x", name, &e), -EINVAL);
	CHECK_EQ(spec_session_name("-x", "x", name, &e), -EINVAL);
	CHECK_EQ(spec_session_name("", "x", name, &e), -EINVAL);
	CHECK_EQ(spec_session_name("a", "", name, &e), -EINVAL);
	memset(id, 'i', sizeof(id));
	id[SESSION_ID_MAX + 1] = 0;
	CHECK_EQ(spec_session_name("a", id, name, &e), -EINVAL);
	id[SESSION_ID_MAX] = 0;
	CHECK_EQ(spec_session_name("a", id, name, &e), 0);
}

TAP_MAIN
