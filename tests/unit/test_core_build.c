/* Parts of a build that need no box: what is taken out of a layer, sources, owners, pins. */
#include "store_home.h"
#include "tap.h"

#include "base/str.h"
#include "build/words.h"
#include "core/build_copy.h"
#include "core/build_scrub.h"
#include "core/build_secret.h"
#include "core/build_source.h"
#include "store/pins.h"
#include "store/refs.h"

#include <sys/eventfd.h>
#include <sys/stat.h>

#define CERT(x) "-----BEGIN CERTIFICATE-----\n" x "\n-----END CERTIFICATE-----\n"

static int dir_at(int at, const char *path)
{
	CHECK(mkdirat(at, path, 0755) == 0 || errno == EEXIST);
	return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(int at, const char *path, const char *text)
{
	autoclose int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void dirs(int at, const char *const *paths)
{
	for (; *paths; paths++)
		CHECK_EQ(mkdirat(at, *paths, 0755), 0);
}

static bool is_there(int at, const char *path)
{
	struct stat st;

	return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(certificates_are_cut_out)
{
	char text[] = CERT("one") CERT("box") CERT("two") CERT("host") CERT("box");
	size_t n = build_scrub_pem(text, strlen(text), CERT("box") "# note\n" CERT("host"));

	text[n] = 0;
	CHECK_STR(text, CERT("one") CERT("two"));
	CHECK_EQ(build_scrub_pem(text, n, "-----BEGIN CERTIFICATE-----\ncut"), n);
}

TEST(a_layer_without_coves_own)
{
	static const char *const made[] = {"proc",
					   "dev",
					   "etc",
					   "etc/ssl",
					   "etc/ssl/certs",
					   "usr",
					   "usr/local",
					   "usr/local/share",
					   "usr/local/share/ca-certificates",
					   "run",
					   "run/secrets",
					   "cache",
					   "cache/d",
					   NULL};
	static const char *const lower_made[] = {"etc", "etc/ssl",   "etc/ssl/certs",
						 "usr", "usr/local", NULL};
	int home = open(home_make(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int root = dir_at(home, "upper"), lower = dir_at(home, "lower");
	struct stack_layer layer = {.fd = lower};
	struct stack below = {.layers = &layer, .count = 1};
	struct build_words places = {0}, drops = {0};
	struct build_scrub s = {
		.below = &below, .pem = CERT("box"), .places = &places, .drops = &drops};
	struct err e = {0};
	struct stat st;

	dirs(root, made);
	dirs(lower, lower_made);
	CHECK_EQ(fchmodat(lower, "usr/local", 02775, 0), 0);
	put(lower, "etc/ssl/certs/ca-certificates.crt", CERT("one"));
	put(root, "etc/ssl/certs/ca-certificates.crt", CERT("one") CERT("box"));
	put(root, "usr/local/share/ca-certificates/cove-box.crt", CERT("box"));
	put(root, "usr/local/share/ca-certificates/mine.crt", CERT("mine"));
	CHECK_EQ(symlinkat("cove-box.pem", root, "etc/ssl/certs/0a1b2c3d.0"), 0);
	CHECK_EQ(symlinkat("/usr/local/share/ca-certificates/cove-box.crt", root,
			   "etc/ssl/certs/cove-box.pem"),
		 0);
	put(root, "etc/hosts", "");
	put(root, "etc/hostname", "changed");
	put(root, "run/secrets/tok", "");
	put(root, "cache/d/file", "x");
	CHECK_EQ(build_words_add(&places, "/run/secrets/tok"), 0);
	CHECK_EQ(build_words_add(&drops, "/cache/d"), 0);
	CHECK_EQ(build_scrub_run(root, &s, &e), 0);
	CHECK(!is_there(root, "etc/ssl/certs/ca-certificates.crt")); /* as the image's own */
	CHECK(!is_there(root, "etc/ssl/certs/cove-box.pem"));
	CHECK(!is_there(root, "etc/ssl/certs/0a1b2c3d.0"));
	CHECK(!is_there(root, "usr/local/share/ca-certificates/cove-box.crt"));
	CHECK(is_there(root, "usr/local/share/ca-certificates/mine.crt"));
	CHECK(!is_there(root, "proc") && !is_there(root, "dev") && !is_there(root, "run"));
	CHECK(!is_there(root, "etc/hosts") && is_there(root, "etc/hostname"));
	CHECK(!is_there(root, "cache"));
	CHECK_EQ(fstatat(root, "usr/local", &st, 0), 0);
	if (getuid() == 0)
		CHECK_EQ(st.st_mode & 07777, 02775);
	build_words_done(&places);
	build_words_done(&drops);
}

struct seen {
	char text[512];
};

static int on_found(void *arg, const struct build_found *found, struct err *e)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	(void)e;
	snprintf(s->text + n, sizeof(s->text) - n, "%s;", found->path);
	return 0;
}

TEST(sources)
{
	int home = open(home_make(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int root = dir_at(home, "ctx");
	struct build_ignore ignore = {0};
	struct build_source s = {.root_fd = root, .ignore = &ignore};
	struct build_words found = {0};
	struct seen seen = {0};
	struct err e = {0};

	put(home, "outside", "secret");
	dirs(root, (const char *const[]){"d", "d/e", NULL});
	put(root, "a.txt", "a");
	put(root, "b.txt", "b");
	put(root, "d/c.txt", "c");
	put(root, "d/e/x", "x");
	CHECK_EQ(symlinkat("../outside", root, "out"), 0);
	CHECK_EQ(symlinkat("/outside", root, "abs"), 0);
	CHECK_EQ(symlinkat("..", root, "up"), 0);
	CHECK_EQ(build_ignore_parse(&ignore, "d/e\nb.txt\n", 10, &e), 0);
	CHECK_EQ(build_source_find(&s, "./*.txt", &found, &e), 0);
	CHECK_EQ(found.count, 1);
	CHECK_STR(found.list[0], "a.txt");
	build_words_done(&found);
	CHECK_EQ(build_source_find(&s, "d/../d//*", &found, &e), 0);
	CHECK_EQ(found.count, 1);
	build_words_done(&found);
	CHECK_EQ(build_source_find(&s, "../outside", &found, &e), -EINVAL);
	CHECK_EQ(build_source_find(&s, "b.txt", &found, &e), -ENOENT);
	CHECK_EQ(build_source_find(&s, "z*", &found, &e), -ENOENT);
	CHECK_EQ(build_source_walk(&s, "d", on_found, &seen, &e), 0);
	CHECK_STR(seen.text, ";c.txt;");
	seen.text[0] = 0;
	CHECK_EQ(build_source_walk(&s, ".", on_found, &seen, &e), 0);
	CHECK_STR(seen.text, ";a.txt;abs;d;d/c.txt;out;up;");
	/* A link ends at the root of the context. */
	CHECK_EQ(build_source_walk(&s, "out", on_found, &seen, &e), -ENOENT);
	CHECK_EQ(build_source_walk(&s, "abs", on_found, &seen, &e), -ENOENT);
	CHECK_EQ(build_source_walk(&s, "up/outside", on_found, &seen, &e), -ENOENT);
	CHECK_EQ(build_source_walk(&s, "up/a.txt", on_found, &seen, &e), 0);
	build_ignore_done(&ignore);
	CHECK_EQ(build_ignore_parse(&ignore, "d\n!d/e/x\n", 9, &e), 0);
	seen.text[0] = 0;
	CHECK_EQ(build_source_walk(&s, "d", on_found, &seen, &e), 0);
	CHECK_STR(seen.text, ";e;e/x;");
	/* Nobody waits for it any more. */
	s.cancel_fd = eventfd(1, EFD_CLOEXEC);
	CHECK_EQ(build_source_walk(&s, "d", on_found, &seen, &e), -ECANCELED);
	CHECK_EQ(build_source_find(&s, "*.txt", &found, &e), -ECANCELED);
	fd_close(&s.cancel_fd);
	/* Patterns that would take long. */
	s.steps = UINT64_MAX;
	CHECK_EQ(build_source_walk(&s, ".", on_found, &seen, &e), -E2BIG);
	CHECK_EQ(e.kind, ERR_LIMIT);
	build_words_done(&found);
	build_ignore_done(&ignore);
}

static void owner(int root, const char *text, int code, uid_t uid, gid_t gid)
{
	struct err e = {0};
	uid_t u = 0;
	gid_t g = 0;

	CHECK_EQ(build_owner_find(root, text, &u, &g, &e), code);
	CHECK_EQ(u, uid);
	CHECK_EQ(g, gid);
}

TEST(owners)
{
	int home = open(home_make(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int root = dir_at(home, "root");

	owner(root, "5", 0, 5, 5);
	owner(root, "5:6", 0, 5, 6);
	owner(root, "app", -ENOENT, 0, 0);
	owner(root, "70000", -ENOENT, 0, 0);
	dirs(root, (const char *const[]){"etc", NULL});
	put(root, "etc/passwd", "root:x:0:0::/:/bin/sh\nbad line\napp:x:500:501::/:\n");
	put(root, "etc/group", "staff:x:50:\n");
	owner(root, "app", 0, 500, 501);
	owner(root, "500", 0, 500, 500);
	owner(root, "500:staff", 0, 500, 50);
	owner(root, "app:staff", 0, 500, 50);
	owner(root, "app:7", 0, 500, 7);
	owner(root, "app:none", -ENOENT, 0, 0);
	CHECK_EQ(unlinkat(root, "etc/passwd", 0), 0);
	CHECK_EQ(symlinkat("../../passwd", root, "etc/passwd"), 0);
	put(home, "passwd", "app:x:1:1::/:\n");
	owner(root, "app", -ENOENT, 0, 0); /* not through a link that leads out */
}

TEST(pins_hold_layers)
{
	static const char id[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct state s;
	struct ids ids;
	struct refs refs;
	struct layer_pins pins;
	struct err e = {0};
	char path[160];

	home_make();
	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	CHECK_EQ(state_open(&s, NULL, true, &e), 0);
	CHECK_EQ(layer_pins_open(&s, &pins, &e), 0);
	CHECK_EQ(layer_pins_add(&s, &pins, id, &e), -ENOENT);
	CHECK_EQ(mkdirat(s.layers_fd, id, 0755), 0);
	snprintf(path, sizeof(path), "%s/rootfs", id);
	CHECK_EQ(mkdirat(s.layers_fd, path, 0755), 0);
	CHECK_EQ(layer_pins_add(&s, &pins, id, &e), 0);
	CHECK_EQ(layer_pins_add(&s, &pins, id, &e), 0);
	CHECK_EQ(refs_collect(&s, &refs, &e), 0);
	CHECK_EQ(refs_count(&refs, id), 1);
	refs_done(&refs);
	layer_pins_close(&s, &ids, &pins);
	CHECK_EQ(refs_collect(&s, &refs, &e), 0);
	CHECK(!refs_has(&refs, id));
	refs_done(&refs);
	state_close(&s);
}

TEST(secrets)
{
	int home = open(home_make(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char file[128];
	const char *given[] = {file, "id=b,env=S7_SECRET", NULL};
	struct build_mount mounts[] = {
		{.kind = MOUNT_SECRET, .id = (char *)"a"},
		{.kind = MOUNT_SECRET, .id = (char *)"b", .target = (char *)"/x/../y", .uid = 5},
		{.kind = MOUNT_SECRET, .id = (char *)"none"},
		{.kind = MOUNT_CACHE, .target = (char *)"/c"},
	};
	struct build_step step = {.mounts = mounts, .mount_count = 4};
	struct core_spec *spec = calloc(1, sizeof(*spec));
	struct build_words places = {0};
	struct build_secrets s;
	struct err e = {0};

	CHECK(spec);
	put(home, "s", "value");
	setenv("S7_SECRET", "other", 1);
	snprintf(file, sizeof(file), "id=a,src=%s/s", home_path);
	CHECK_EQ(build_secrets_init(&s, given, &e), 0);
	CHECK_EQ(build_secrets_show(&s, &step, spec, &places, &e), 0);
	CHECK_EQ(spec->secret_count, 2);
	CHECK_STR(spec->secrets[0].path, "/run/secrets/a");
	CHECK_MEM(spec->secrets[0].data, "value", 5);
	CHECK_EQ(spec->secrets[0].mode, 0400);
	CHECK_STR(spec->secrets[1].path, "/y");
	CHECK_EQ(spec->secrets[1].uid, 5);
	mounts[2].required = true;
	CHECK_EQ(build_secrets_show(&s, &step, spec, &places, &e), -ENOENT);
	mounts[2] = (struct build_mount){
		.kind = MOUNT_SECRET, .id = (char *)"a", .env = (char *)"TOKEN"};
	CHECK_EQ(build_secrets_show(&s, &step, spec, &places, &e), -EOPNOTSUPP);
	build_secrets_done(&s);
	given[0] = "id=../a,src=/x";
	CHECK_EQ(build_secrets_init(&s, given, &e), -EINVAL);
	given[0] = "id=a,src=/nowhere/at/all";
	CHECK_EQ(build_secrets_init(&s, given, &e), -ENOENT);
	build_words_done(&places);
	free(spec);
}

TAP_MAIN
