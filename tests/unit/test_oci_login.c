/* Logins at registries: the files as Docker and Podman keep them, and credential helpers. */
#include "tap.h"

#include "base/base64.h"
#include "base/fd.h"
#include "oci/login.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct err e;
static struct oci_login l;
static char helper[OCI_HELPER_NAME];

static int parse(const char *text, const char *image)
{
	struct oci_ref ref;

	printf("# %s\n", text);
	oci_login_done(&l);
	e = (struct err){0};
	CHECK_EQ(oci_ref_parse(image, &ref, &e), 0);
	return oci_login_parse(text, strlen(text), &ref, &l, helper, &e);
}

static void is_login(const char *user, const char *secret)
{
	CHECK_EQ(l.kind, OCI_LOGIN_PASSWORD);
	CHECK_STR(l.user, user);
	CHECK_EQ(buf_len(&l.secret), strlen(secret));
	CHECK_MEM(buf_data(&l.secret), secret, strlen(secret));
	CHECK(l.secret.is_secret);
}

/* "dXNlcjpwYTpzcw==" is user:pa:ss */
TEST(entries)
{
	CHECK_EQ(
		parse("{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpwYTpzcw==\"}}}", "r.example/x"),
		0);
	is_login("user", "pa:ss");
	CHECK_STR(helper, "");
	CHECK_EQ(parse("{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpwYTpzcw==\"}}}",
		       "r.example:5000/x"),
		 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	CHECK_EQ(parse("{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":"
		       "\"dXNlcjpwYTpzcw==\"}}}",
		       "debian"),
		 0);
	is_login("user", "pa:ss");
	CHECK_EQ(parse("{\"auths\":{\"https://r.example:5000/v2/\":{\"username\":\"u\","
		       "\"password\":\"p\"}}}",
		       "r.example:5000/x"),
		 0);
	is_login("u", "p");
	CHECK_EQ(parse("{\"auths\":{\"r.example\":{\"identitytoken\":\"idt\",\"auth\":"
		       "\"MDAwOg==\"}}}",
		       "r.example/x"),
		 0);
	CHECK_EQ(l.kind, OCI_LOGIN_REFRESH);
	CHECK_EQ(parse("{\"auths\":{\"r.example\":{\"registrytoken\":\"t\"}}}", "r.example/x"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_TOKEN);
	CHECK_EQ(parse("{}", "x"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	CHECK_EQ(parse("{\"auths\":{\"r.example\":{}}}", "r.example/x"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	oci_login_done(&l);
}

/* No name that only looks like the registry's gets its login, and the closest entry wins. */
TEST(whose_entry_it_is)
{
	static const char text[] = "{\"auths\":{\"r.example\":{\"username\":\"all\","
				   "\"password\":\"1\"},\"r.example/team\":{\"username\":\"team\","
				   "\"password\":\"2\"},\"r.example/team/x\":{\"username\":\"one\","
				   "\"password\":\"3\"},\"evil.example/r.example\":{\"username\":"
				   "\"evil\",\"password\":\"4\"}}}";

	CHECK_EQ(parse(text, "r.example/a"), 0);
	is_login("all", "1");
	CHECK_EQ(parse(text, "r.example/teams"), 0);
	is_login("all", "1");
	CHECK_EQ(parse(text, "r.example/team/y"), 0);
	is_login("team", "2");
	CHECK_EQ(parse(text, "r.example/team/x"), 0);
	is_login("one", "3");
	CHECK_EQ(parse(text, "r.example.evil/x"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	CHECK_EQ(parse(text, "notr.example/x"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	CHECK_EQ(parse(text, "debian"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
}

TEST(helpers_are_named)
{
	CHECK_EQ(parse("{\"credsStore\":\"pass\",\"auths\":{\"r.example\":{}}}", "r.example/x"), 0);
	CHECK_STR(helper, "pass");
	CHECK_EQ(parse("{\"credsStore\":\"pass\",\"credHelpers\":{\"r.example\":\"ecr-login\"}}",
		       "r.example/x"),
		 0);
	CHECK_STR(helper, "ecr-login");
	CHECK_EQ(parse("{\"credsStore\":\"pass\",\"auths\":{\"r.example\":{\"username\":\"u\","
		       "\"password\":\"p\"}}}",
		       "r.example/x"),
		 0);
	CHECK_STR(helper, "");
	CHECK_EQ(parse("{\"credsStore\":\"../../bin/sh\"}", "r.example/x"), -EINVAL);
	CHECK_EQ(parse("{\"credsStore\":\"a b\"}", "r.example/x"), -EINVAL);
	CHECK_EQ(parse("{\"credHelpers\":{\"r.example\":\"\"}}", "r.example/x"), -EINVAL);
	CHECK_EQ(parse("{\"credHelpers\":{\"r.example\":7}}", "r.example/x"), -EINVAL);
}

TEST(what_cannot_be_read_is_said_without_its_text)
{
	static const char *const cases[] = {
		"",
		"[]",
		"{\"auths\":",
		"{\"auths\":{\"r.example\":{\"auth\":\"hunter2!\"}}}",
		"{\"auths\":{\"r.example\":{\"auth\":\"aHVudGVyMg==\"}}}", /* no colon */
		"{\"auths\":{\"r.example\":{\"auth\":\"Omh1bnRlcjI=\"}}}", /* no user */
		"{\"auths\":{\"r.example\":{\"auth\":\"hunter2\"},\"r.example\":{}}}",
		"hunter2",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_EQ(parse(cases[i], "r.example/x"), -EINVAL);
		CHECK_EQ(e.kind, ERR_INVALID);
		CHECK(!strstr(e.msg, "hunter2"));
	}
}

/* ---- files and programs ---- */

static char dir[64];

static void write_file(const char *name, const char *text, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void make_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_EQ(mkdir(path, 0700), 0);
}

static void remove_dir(void)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -rf %s", dir);
	CHECK_EQ(system(line), 0);
}

static void make_place(void)
{
	strcpy(dir, "/tmp/cove-login-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	tap_state.at_end = remove_dir;
}

static int find(const char *const *vars)
{
	struct oci_ref ref;

	oci_login_done(&l);
	e = (struct err){0};
	CHECK_EQ(oci_ref_parse("r.example/x", &ref, &e), 0);
	return oci_login_find(&(struct oci_env){vars}, &ref, &l, &e);
}

#define ENTRY(user) "{\"auths\":{\"r.example\":{\"username\":\"" user "\",\"password\":\"p\"}}}"

TEST(the_first_file_that_has_one)
{
	char home[128], docker[128], file[128], missing[128];

	make_place();
	snprintf(home, sizeof(home), "HOME=%s", dir);
	snprintf(docker, sizeof(docker), "DOCKER_CONFIG=%s/d", dir);
	snprintf(file, sizeof(file), "REGISTRY_AUTH_FILE=%s/file", dir);
	snprintf(missing, sizeof(missing), "REGISTRY_AUTH_FILE=%s/none", dir);
	make_dir(".docker");
	make_dir("d");
	CHECK_EQ(find((const char *const[]){home, docker, NULL}), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	write_file(".docker/config.json", ENTRY("home"), 0600);
	CHECK_EQ(find((const char *const[]){home, docker, NULL}), 0);
	is_login("home", "p");
	write_file("d/config.json", ENTRY("docker"), 0600);
	CHECK_EQ(find((const char *const[]){home, docker, NULL}), 0);
	is_login("docker", "p");
	write_file("file", ENTRY("file"), 0600);
	CHECK_EQ(find((const char *const[]){home, docker, file, NULL}), 0);
	is_login("file", "p");
	CHECK_EQ(find((const char *const[]){home, docker, missing, NULL}), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	write_file("d/config.json", "{", 0600);
	CHECK_EQ(find((const char *const[]){home, docker, NULL}), -EINVAL);
	CHECK(strstr(e.msg, "d/config.json") != NULL);
	CHECK_EQ(find((const char *const[]){NULL}), 0);
	oci_login_done(&l);
	remove_dir();
}

#define ASKS "{\"credsStore\":\"t\"}"

static int ask(const char *script)
{
	char home[128], path[256], secret[] = "TOKEN_OF_THE_CALLER=kept";

	snprintf(home, sizeof(home), "HOME=%s", dir);
	snprintf(path, sizeof(path), "PATH=%s:/usr/bin:/bin", dir);
	setenv("PATH", path + 5, 1);
	if (script)
		write_file("docker-credential-t", script, 0700);
	return find((const char *const[]){home, path, secret, NULL});
}

TEST(a_helper_is_asked)
{
	make_place();
	make_dir(".docker");
	write_file(".docker/config.json", ASKS, 0600);
	CHECK_EQ(ask(NULL), -ENOENT);
	CHECK_EQ(e.kind, ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, "docker-credential-t") != NULL);
	CHECK_EQ(ask("#!/bin/sh\n[ \"$1\" = get ] && [ \"$(cat)\" = r.example ] && "
		     "[ \"$TOKEN_OF_THE_CALLER\" = kept ] && [ \"$(ls /proc/$$/fd | grep -cv 10)\" "
		     "-le 4 "
		     "] "
		     "&& echo "
		     "'{\"ServerURL\":\"r.example\",\"Username\":\"u\",\"Secret\":\"s\"}'\n"),
		 0);
	is_login("u", "s");
	CHECK_EQ(ask("#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"s\"}'\n"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_REFRESH);
	CHECK_EQ(ask("#!/bin/sh\necho credentials not found in native keychain; exit 1\n"), 0);
	CHECK_EQ(l.kind, OCI_LOGIN_NONE);
	CHECK_EQ(ask("#!/bin/sh\necho hunter2; exit 1\n"), -EACCES);
	CHECK(!strstr(e.msg, "hunter2"));
	CHECK_EQ(ask("#!/bin/sh\necho hunter2\n"), -EBADMSG);
	CHECK(!strstr(e.msg, "hunter2"));
	CHECK_EQ(ask("#!/bin/sh\nexec yes\n"), -EFBIG);
	/* What it leaves running with its output open is not waited for. */
	CHECK_EQ(ask("#!/bin/sh\nsleep 1000 &\necho '{\"Username\":\"u\",\"Secret\":\"s\"}'\n"), 0);
	is_login("u", "s");
	CHECK_EQ(ask("#!/bin/sh\nkill -9 $$\n"), -EACCES);
	oci_login_done(&l);
	remove_dir();
}

TAP_MAIN
