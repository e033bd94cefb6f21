/* What is kept of a box's network: the default, the authorities, the live grants. */
#include "base/limits.h"
#include "base/str.h"
#include "store/net.h"
#include "store_home.h"

#include <sys/stat.h>
#include <sys/wait.h>

static const char good[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
			   "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n";
static const char good_cert[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

static int make_box(struct state *s, const char *name)
{
	int fd;

	CHECK_EQ(mkdirat(s->boxes_fd, name, 0700), 0);
	fd = openat(s->boxes_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void put(int dir_fd, const char *name, const char *text)
{
	CHECK_EQ(fd_write_file(dir_fd, name, text, strlen(text), 0600, false), 0);
}

TEST(presets)
{
	static char many[10001];

	CHECK(net_is_preset("closed") && net_is_preset("none") && net_is_preset("balanced") &&
	      net_is_preset("open"));
	CHECK(!net_is_preset("file") && !net_is_preset("") && !net_is_preset(NULL) &&
	      !net_is_preset("Open"));
	CHECK(net_is_preset("balanced,conda") && net_is_preset("closed,git-lfs,conda,conda"));
	CHECK(!net_is_preset(",") && !net_is_preset("balanced,") &&
	      !net_is_preset("balanced,,conda") && !net_is_preset(",balanced") &&
	      !net_is_preset("conda,balanced") && !net_is_preset("balancedconda") &&
	      !net_is_preset("balanced,Conda") && !net_is_preset("balanced, conda") &&
	      !net_is_preset("balanced,./conda") && !net_is_preset("balanced,conda\nopen"));
	memset(many, ',', sizeof(many) - 1);
	CHECK(!net_is_preset(many));
	snprintf(many, sizeof(many), "balanced,%0*d", NET_NAME_MAX - 1 - 9, 0);
	CHECK(net_is_preset(many));
	snprintf(many, sizeof(many), "balanced,%0*d", NET_NAME_MAX - 9, 0);
	CHECK(!net_is_preset(many));
	CHECK(!net_is_closed("closed,conda"));
	CHECK(net_is_closed(NULL) && net_is_closed("none") && net_is_closed("closed"));
	CHECK(!net_is_closed("balanced") && !net_is_closed("open") && !net_is_closed("file"));
}

TEST(comments_are_cut_out_and_nothing_else)
{
	static const char *const cases[][2] = {
		{"# ours\nrules: # ten\n  - allow: a.com\t#x\n#end",
		 "\nrules:\n  - allow: a.com\n"},
		{"a: b#c\nd: \"x # y\" # z\n", "a: b#c\nd: \"x # y\"\n"},
		{"a: 'it''s # in' # out", "a: 'it''s # in'"},
		{"a: \"\\\" # in\" # out\n", "a: \"\\\" # in\"\n"},
		{"use: ['a#b', c] #\n", "use: ['a#b', c]\n"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		autofree char *text = strdup(cases[i][0]);

		net_drop_comments(text);
		CHECK_STR(text, cases[i][1]);
	}
}

HOME_TEST(the_default)
{
	autofree char *text = NULL;
	struct err e;
	char is[NET_NAME_MAX];
	size_t len;

	CHECK_EQ(net_default(s, is, &e), 0);
	CHECK_STR(is, "balanced");
	CHECK_EQ(net_set_default(s, "closed", NULL, 0, &e), 0);
	CHECK_EQ(net_default(s, is, &e), 0);
	CHECK_STR(is, "closed");
	CHECK_EQ(net_set_default(s, "balanced,huggingface,pytorch,conda", NULL, 0, &e), 0);
	CHECK_EQ(net_default(s, is, &e), 0);
	CHECK_STR(is, "balanced,huggingface,pytorch,conda");
	CHECK_EQ(net_set_default(s, "balanced,", NULL, 0, &e), -EINVAL);
	CHECK_EQ(net_set_default(s, "file", "version: 1\n", 11, &e), 0);
	CHECK_EQ(net_default(s, is, &e), 0);
	CHECK_STR(is, "file");
	CHECK_EQ(net_default_text(s, &text, &len, &e), 0);
	CHECK_EQ(len, 11);
	CHECK_STR(text, "version: 1\n");
	CHECK_EQ(net_set_default(s, "file", "", 0, &e), -EINVAL);
	CHECK_EQ(net_set_default(s, "wide-open", NULL, 0, &e), -EINVAL);
	CHECK_EQ(net_set_default(s, NULL, NULL, 0, &e), -EINVAL);
	CHECK_EQ(net_default(s, is, &e), 0);
	CHECK_STR(is, "file");
}

/* What is not understood is never taken for something that lets more through. */
HOME_TEST(a_damaged_default_is_an_error)
{
	static const char *const texts[] = {"", "\n", "wide\n", "open\nopen\n",
					    "balanced balanced balanced balanced\n"};
	autoclose int door = -1;
	struct err e;
	char is[NET_NAME_MAX];

	CHECK_EQ(net_set_default(s, "open", NULL, 0, &e), 0);
	door = openat(s->home_fd, "door", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put(door, "default", texts[i]);
		CHECK_EQ(net_default(s, is, &e), -EBADMSG);
	}
	CHECK_EQ(fd_write_file(door, "default", "open\0x\n", 7, 0600, false), 0);
	CHECK_EQ(net_default(s, is, &e), -EBADMSG);
}

HOME_TEST(an_authority_is_taken_and_given_back)
{
	autoclose int ca = -1, used = -1;
	autofree char *cert = NULL, *again = NULL;
	char name[NET_CA_NAME_MAX], first[NET_CA_NAME_MAX];
	struct stat st;
	struct err e;

	CHECK_EQ(net_ca_take(s, "a", name, &cert, &e), -ENOENT);
	ca = net_ca_dir(s, true, &e);
	CHECK(ca >= 0);
	CHECK_EQ(net_ca_take(s, "a", name, &cert, &e), -ENOENT);
	put(ca, "00.pem", good);
	CHECK_EQ(net_ca_take(s, "a", name, &cert, &e), 0);
	CHECK_STR(cert, good_cert);
	CHECK_STR(name, "a.00.pem");
	CHECK_EQ(count_names(ca), 0);
	used = openat(s->home_fd, NET_USED_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(fstatat(used, name, &st, 0), 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	net_ca_return(s->home, name);
	CHECK_EQ(count_names(ca), 1);
	CHECK_EQ(count_names(used), 0);
	memcpy(first, name, sizeof(first));
	CHECK_EQ(net_ca_take(s, "a", name, &again, &e), 0);
	CHECK_STR(again, good_cert);
	/* Its name is new, so whoever is late with the old one does it no harm. */
	CHECK(strcmp(first, name) != 0);
	net_ca_drop(s->home, first);
	net_ca_return(s->home, first);
	CHECK_EQ(count_names(used), 1);
	net_ca_drop(s->home, name);
	net_ca_drop(s->home, name);
	CHECK_EQ(count_names(ca) + count_names(used), 0);
}

static bool is_here(void *arg, const char *box)
{
	return strcmp(box, "here") == 0;
}

HOME_TEST(authorities_of_boxes_that_are_gone_are_swept)
{
	autoclose int ca = -1, box = -1, used = -1;
	char name[NET_CA_NAME_MAX];
	struct err e;

	box = make_box(s, "here");
	net_ca_sweep(s, is_here, NULL);
	ca = net_ca_dir(s, true, &e);
	for (int i = 0; i < 2; i++) {
		autofree char *cert = NULL;

		put(ca, "00.pem", good);
		CHECK_EQ(net_ca_take(s, i ? "here" : "gone", name, &cert, &e), 0);
	}
	used = openat(s->home_fd, NET_USED_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(faccessat(used, "gone.00.pem", F_OK, 0) == 0);
	CHECK(faccessat(used, "here.00.pem", F_OK, 0) == 0);
	put(ca, ".half", good);
	CHECK_EQ(utimensat(ca, ".half", (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
	put(ca, ".new", good);
	net_ca_sweep(s, is_here, NULL);
	CHECK(faccessat(used, "gone.00.pem", F_OK, 0) < 0);
	CHECK(faccessat(used, "here.00.pem", F_OK, 0) == 0);
	/* A maker that was killed long ago, and one that is at work. */
	CHECK(faccessat(ca, ".half", F_OK, 0) < 0);
	CHECK(faccessat(ca, ".new", F_OK, 0) == 0);
}

HOME_TEST(the_authorities_of_one_box)
{
	autoclose int used = -1;
	char **names;
	size_t count;

	CHECK_EQ(net_ca_names(s, "a", &names, &count), 0);
	CHECK_EQ(count, 0);
	state_names_free(names, count);
	CHECK(net_ca_dir(s, true, NULL) >= 0);
	CHECK_EQ(mkdirat(s->home_fd, NET_USED_DIR, 0700), 0);
	used = openat(s->home_fd, NET_USED_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(used, "a.00.pem", good);
	put(used, "a-b.01.pem", good);
	put(used, "aa.02.pem", good);
	CHECK_EQ(net_ca_names(s, "a", &names, &count), 0);
	CHECK_EQ(count, 1);
	CHECK_STR(names[0], "a.00.pem");
	state_names_free(names, count);
}

HOME_TEST(what_is_no_authority_is_passed_over)
{
	autoclose int ca = -1, used = -1;
	autofree char *big = malloc(100000), *cert = NULL;
	char name[NET_CA_NAME_MAX];
	struct err e;

	ca = net_ca_dir(s, true, &e);
	put(ca, "a.pem", "");
	put(ca, "b.pem", good_cert); /* no key */
	put(ca, "c.pem", "-----BEGIN CERTIFICATE-----\nMIIB");
	memset(big, 'x', 99999);
	big[99999] = 0;
	put(ca, "d.pem", big);
	CHECK_EQ(symlinkat("/etc/passwd", ca, "e.pem"), 0);
	put(ca, ".f.pem", good); /* still being written */
	put(ca, "readme", good);
	CHECK_EQ(net_ca_take(s, "a", name, &cert, &e), -ENOENT);
	CHECK_EQ(count_names(ca), 2);
	used = openat(s->home_fd, NET_USED_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(count_names(used), 0);
}

/* Never two boxes the same, however many start at once. */
HOME_TEST(many_take_at_once)
{
	enum { BOXES = 8, EACH = 20 };
	struct err e;
	char name[32];
	int ca, taken = 0;

	ca = net_ca_dir(s, true, &e);
	for (int i = 0; i < BOXES * EACH; i++) {
		snprintf(name, sizeof(name), "%d.pem", i);
		put(ca, name, good);
	}
	for (int i = 0; i < BOXES; i++) {
		if (fork() > 0)
			continue;
		snprintf(name, sizeof(name), "box%d", i);
		char *cert, used[NET_CA_NAME_MAX];
		int n = 0;

		while (n < EACH && net_ca_take(s, name, used, &cert, &e) == 0) {
			free(cert);
			n++;
		}
		_exit(n);
	}
	for (int i = 0; i < BOXES; i++) {
		int status;

		CHECK(wait(&status) > 0 && WIFEXITED(status));
		taken += WEXITSTATUS(status);
	}
	/* A directory that changes while it is read may hide a name from one reader. */
	CHECK_EQ(taken, BOXES * EACH - count_names(ca));
	CHECK(taken >= BOXES * EACH / 2);
	close(ca);
}

static void grants_are(int box, const char *want)
{
	autofree char *text = NULL;

	CHECK_EQ(fd_read_file(box, NET_GRANTS_FILE, 1 << 20, &text, NULL), 0);
	CHECK_STR(text, want);
}

static int add(int box, bool allow, const char *pattern, uint64_t until_ms, uint64_t now_ms,
	       struct err *e)
{
	struct state st = {0};

	str_copy(st.home, sizeof(st.home), "/home");
	return net_grant_add(
		&st, box,
		&(struct net_grant){.allow = allow, .pattern = pattern, .until_ms = until_ms},
		now_ms, e);
}

HOME_TEST(grants)
{
	struct err e;
	int box;

	box = make_box(s, "a");
	CHECK_EQ(net_grants_clear(box, &e), 0);
	CHECK_EQ(add(box, true, "a.example:443", 0, 1000, &e), 0);
	CHECK_EQ(add(box, false, "*.b.example", 5000, 1000, &e), 0);
	grants_are(box, "allow 0 a.example:443\ndeny 5000 *.b.example\n");
	/* The later word about the same is the one that counts. */
	CHECK_EQ(add(box, false, "a.example:443", 0, 2000, &e), 0);
	grants_are(box, "deny 5000 *.b.example\ndeny 0 a.example:443\n");
	CHECK_EQ(add(box, true, "c", 9000, 5000, &e), 0);
	grants_are(box, "deny 0 a.example:443\nallow 9000 c\n");
	CHECK_EQ(net_grants_clear(box, &e), 0);
	CHECK(faccessat(box, NET_GRANTS_FILE, F_OK, 0) < 0);
	close(box);
}

/* What holds longer is there again when a word for a while is over. */
HOME_TEST(a_time_does_not_lift_what_lasts_longer)
{
	struct err e;
	int box;

	box = make_box(s, "a");
	CHECK_EQ(add(box, false, "a", 0, 1000, &e), 0);
	CHECK_EQ(add(box, false, "a", 9000, 1000, &e), 0);
	CHECK_EQ(add(box, true, "a", 5000, 1000, &e), 0);
	grants_are(box, "deny 0 a\ndeny 9000 a\nallow 5000 a\n");
	CHECK_EQ(add(box, true, "a", 9000, 1000, &e), 0);
	grants_are(box, "deny 0 a\nallow 9000 a\n");
	CHECK_EQ(add(box, true, "b", 0, 9000, &e), 0);
	grants_are(box, "deny 0 a\nallow 0 b\n");
	CHECK_EQ(add(box, true, "a", 0, 9000, &e), 0);
	grants_are(box, "allow 0 b\nallow 0 a\n");
	close(box);
}

static void name_is(int box, const char *want)
{
	char name[NET_NAME_MAX];

	net_policy_name(box, "balanced", name);
	CHECK_STR(name, want);
}

HOME_TEST(a_policy_has_the_name_it_was_given_by)
{
	char name[400];
	struct err e;
	int box;

	box = make_box(s, "a");
	name_is(box, "balanced");
	CHECK_EQ(net_policy_write(s, box, "open", "text", 4, &e), 0);
	name_is(box, "open");
	CHECK_EQ(net_policy_write(s, box, "./a\nb.yaml", "other", 5, &e), 0);
	name_is(box, "./a?b.yaml");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	CHECK_EQ(net_policy_write(s, box, name, "other", 5, &e), 0);
	name[NET_NAME_MAX - 1] = 0;
	name_is(box, name);
	/* Another text has not that name. */
	CHECK_EQ(fd_write_file(box, NET_POLICY_FILE, "x", 1, 0600, false), 0);
	name_is(box, "file");
	CHECK_EQ(fd_write_file(box, NET_POLICY_NAME_FILE, "", 0, 0600, false), 0);
	name_is(box, "file");
	close(box);
}

HOME_TEST(a_pattern_is_one_word)
{
	char name[400];
	struct err e;
	int box;

	box = make_box(s, "a");
	memset(name, 'a', sizeof(name));
	name[DNS_NAME_MAX + 9] = 0;
	CHECK_EQ(add(box, true, name, 0, 1, &e), -EINVAL);
	CHECK_EQ(add(box, true, "", 0, 1, &e), -EINVAL);
	CHECK_EQ(add(box, true, "a b", 0, 1, &e), -EINVAL);
	CHECK_EQ(add(box, true, "a\nallow 0 *", 0, 1, &e), -EINVAL);
	CHECK_EQ(add(box, true, "\xc3\xa4.example", 0, 1, &e), -EINVAL);
	CHECK(faccessat(box, NET_GRANTS_FILE, F_OK, 0) < 0);
	close(box);
}

HOME_TEST(grants_are_bounded)
{
	char name[32];
	struct buf b;
	struct err e;
	int box;

	box = make_box(s, "a");
	buf_init(&b, 1 << 20);
	for (unsigned i = 0; i < DOOR_GRANTS_MAX; i++)
		CHECK_EQ(buf_printf(&b, "allow 0 h%u\n", i), 0);
	CHECK_EQ(fd_write_file(box, NET_GRANTS_FILE, buf_data(&b), buf_len(&b), 0600, false), 0);
	buf_done(&b);
	CHECK_EQ(add(box, true, "more", 0, 1, &e), -ENOBUFS);
	CHECK_EQ(e.kind, ERR_LIMIT);
	snprintf(name, sizeof(name), "h%u", 7);
	CHECK_EQ(add(box, false, name, 0, 1, &e), 0);
	close(box);
}

/* Two callers at once lose nothing. */
HOME_TEST(grants_at_the_same_time)
{
	enum { CALLERS = 6, EACH = 10 };
	autofree char *text = NULL;
	unsigned lines = 0;
	int box;

	box = make_box(s, "a");
	for (int i = 0; i < CALLERS; i++) {
		if (fork() > 0)
			continue;
		for (int n = 0; n < EACH; n++) {
			char name[32];

			snprintf(name, sizeof(name), "h%d-%d", i, n);
			if (add(box, true, name, 0, 1, NULL) < 0)
				_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < CALLERS; i++) {
		int status;

		CHECK(wait(&status) > 0 && status == 0);
	}
	CHECK_EQ(fd_read_file(box, NET_GRANTS_FILE, 1 << 20, &text, NULL), 0);
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	CHECK_EQ(lines, CALLERS * EACH);
	close(box);
}

TAP_MAIN
