/* API keys: tokens of any bytes, whole records, names that stay in their namespace, quotas. */
#include "store_home.h"
#include "tap.h"

#include "base/str.h"
#include "store/image.h"
#include "store/key.h"
#include "store/secret.h"
#include "store/spec.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

static struct err e;

static int make(struct state *st, const char *name, struct key *ret, char token[KEY_TOKEN_SIZE])
{
	*ret = (struct key){.scopes = KEY_READ | KEY_RUN};
	str_copy(ret->name, sizeof(ret->name), name);
	return key_make(st, ret, token, &e);
}

static int find(struct state *st, const char *token)
{
	struct key k;
	int r = key_find(st, token, strlen(token), &k, &e);

	key_done(&k);
	return r;
}

HOME_TEST(a_token_is_known_in_both_spellings)
{
	char token[KEY_TOKEN_SIZE], other[KEY_TOKEN_SIZE];
	struct key k, got;

	CHECK_EQ(make(s, "ci", &k, token), 0);
	CHECK(str_is_key_id(k.id) && str_starts(token, "cove_") && strlen(token) == 5 + 72);
	CHECK_EQ(strspn(token + 5, "0123456789abcdef"), 72);
	CHECK(str_starts(token + 5, k.id));
	CHECK_EQ(key_find(s, token, strlen(token), &got, &e), 0);
	CHECK_STR(got.id, k.id);
	CHECK_STR(got.name, "ci");
	CHECK_EQ(got.scopes, KEY_READ | KEY_RUN);
	CHECK(got.created_ms > 0 && got.revoked_ms == 0);
	key_done(&got);
	snprintf(other, sizeof(other), "e2b_%s", token + 5);
	CHECK_EQ(find(s, other), 0);
}

HOME_TEST(only_a_hash_of_the_secret_is_kept)
{
	char token[KEY_TOKEN_SIZE], path[32];
	autofree char *text = NULL;
	struct stat st;
	struct key k;
	size_t len;

	CHECK_EQ(make(s, "ci", &k, token), 0);
	snprintf(path, sizeof(path), "keys/%s", k.id);
	CHECK_EQ(fd_read_file(s->home_fd, path, KEY_RECORD_MAX, &text, &len), 0);
	CHECK(memmem(text, len, "hash ", 5) != NULL);
	for (size_t i = 5 + 8; i + 8 <= strlen(token); i++)
		CHECK(memmem(text, len, token + i, 8) == NULL);
	CHECK_EQ(fstatat(s->home_fd, path, &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(fstatat(s->home_fd, "keys", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
}

HOME_TEST(what_is_no_token_is_not_found)
{
	char token[KEY_TOKEN_SIZE], t[KEY_TOKEN_SIZE + 8], id[KEY_ID_SIZE];
	char *huge = malloc(8 << 20);
	struct key k;

	/* Also where there was never a key. */
	CHECK_EQ(find(s, "cove_0011223344"), -ENOENT);
	CHECK_EQ(make(s, "ci", &k, token), 0);
	str_copy(id, sizeof(id), k.id);
	CHECK_EQ(find(s, ""), -ENOENT);
	CHECK_EQ(find(s, "cove_"), -ENOENT);
	CHECK_EQ(find(s, token + 5), -ENOENT);
	CHECK_EQ(key_find(s, NULL, 0, &k, &e), -ENOENT);
	/* Cut, longer, with a NUL, in capitals, with another prefix. */
	for (size_t n = 0; n < strlen(token); n++)
		CHECK_EQ(key_find(s, token, n, &k, &e), -ENOENT);
	CHECK_EQ(key_find(s, token, strlen(token) + 1, &k, &e), -ENOENT);
	snprintf(t, sizeof(t), "%sa", token);
	CHECK_EQ(find(s, t), -ENOENT);
	snprintf(t, sizeof(t), "COVE_%s", token + 5);
	CHECK_EQ(find(s, t), -ENOENT);
	snprintf(t, sizeof(t), "%s", token);
	t[40] = 0;
	CHECK_EQ(key_find(s, t, strlen(token), &k, &e), -ENOENT);
	/* Each digit counts. */
	for (size_t i = 5; i < strlen(token); i++) {
		snprintf(t, sizeof(t), "%s", token);
		t[i] = t[i] == '0' ? '1' : '0';
		CHECK_EQ(find(s, t), -ENOENT);
		CHECK_EQ(e.kind, ERR_NOT_FOUND);
		t[i] = 'A';
		CHECK_EQ(find(s, t), -ENOENT);
	}
	/* A path where the id would be. */
	snprintf(t, sizeof(t), "cove_%-8s%s", "../keys/", token + 13);
	CHECK_EQ(find(s, t), -ENOENT);
	memset(huge, 'a', 8 << 20);
	memcpy(huge, "cove_", 5);
	CHECK_EQ(key_find(s, huge, 8 << 20, &k, &e), -ENOENT);
	free(huge);
	CHECK_EQ(find(s, token), 0);
	CHECK(strstr(e.msg, id) == NULL);
}

HOME_TEST(revoking_is_at_once_and_once)
{
	char token[KEY_TOKEN_SIZE], second[KEY_TOKEN_SIZE];
	struct key k, got, *list;
	size_t count;

	CHECK_EQ(key_revoke(s, "ci", &e), -ENOENT);
	CHECK_EQ(make(s, "ci", &k, token), 0);
	CHECK_EQ(make(s, "ci", &got, second), -EEXIST);
	CHECK_EQ(key_revoke(s, "ci", &e), 0);
	CHECK_EQ(find(s, token), -EKEYREVOKED);
	CHECK_EQ(e.kind, ERR_DENIED);
	/* Who guesses learns nothing of it. */
	token[20] = token[20] == '0' ? '1' : '0';
	CHECK_EQ(find(s, token), -ENOENT);
	CHECK_EQ(key_revoke(s, "ci", &e), -ENOENT);
	CHECK_EQ(key_revoke(s, k.id, &e), -ENOENT);
	CHECK_EQ(e.kind, ERR_NOT_FOUND);
	/* Its name is free, its id is not. */
	CHECK_EQ(make(s, "ci", &got, second), 0);
	CHECK(strcmp(got.id, k.id) != 0);
	CHECK_EQ(find(s, second), 0);
	CHECK_EQ(key_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 2);
	CHECK_STR(list[0].id, k.id);
	CHECK(list[0].revoked_ms && !list[1].revoked_ms);
	key_list_free(list, count);
	CHECK_EQ(key_read(s, k.id, &got, &e), 0);
	CHECK(got.revoked_ms > 0);
	key_done(&got);
	CHECK_EQ(key_read(s, "nobody", &got, &e), -ENOENT);
	key_done(&got);
	CHECK_EQ(key_read(s, "../keys", &got, &e), -ENOENT);
	key_done(&got);
}

HOME_TEST(a_name_is_no_id_and_no_path)
{
	static const char *const bad[] = {"",	"../x",	    "a b",	  "A",	     "a_b",
					  "-a", "deadbeef", "deadbeef_x", "00000000"};
	char token[KEY_TOKEN_SIZE];
	struct key k;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(make(s, bad[i], &k, token), -EINVAL);
	CHECK_EQ(make(s, "deadbee", &k, token), 0);
	k = (struct key){.name = "x"};
	CHECK_EQ(key_make(s, &k, token, &e), -EINVAL);
}

HOME_TEST(all_of_a_key_comes_back)
{
	char token[KEY_TOKEN_SIZE], scopes[] = "read,audit,mount:/srv/a b",
				    quotas[] = "mem=1.5g,boxes=3";
	struct key k = {.name = "all"}, got;

	CHECK_EQ(key_take_scopes(&k, scopes, &e), 0);
	CHECK_EQ(key_take_quotas(&k, quotas, &e), 0);
	CHECK_EQ(key_take_mount(&k, "/srv/\xc3\xa4\\x", &e), 0);
	CHECK_EQ(key_make(s, &k, token, &e), 0);
	CHECK_EQ(key_find(s, token, strlen(token), &got, &e), 0);
	CHECK_EQ(got.scopes, KEY_READ | KEY_AUDIT);
	CHECK_EQ(got.quotas[KEY_QUOTA_BOXES], 3);
	CHECK_EQ(got.quotas[KEY_QUOTA_MEM], 3ull << 29);
	CHECK_EQ(got.quotas[KEY_QUOTA_DISK], 0);
	CHECK_EQ(got.mount_count, 2);
	CHECK_STR(got.mounts[0], "/srv/a b");
	CHECK_STR(got.mounts[1], "/srv/\xc3\xa4\\x");
	CHECK_EQ(got.created_ms, k.created_ms);
	key_done(&got);
}

static int write_key(struct state *s, const char *id, const char *text, size_t len)
{
	autoclose int dir = fd_open_below(s->home_fd, "keys", false);

	return dir < 0 ? dir : fd_write_file(dir, id, text, len, 0600, false);
}

/* Whatever byte of it is another: the token is none, nothing else is in the way, and it goes. */
HOME_TEST(a_damaged_record_is_no_key)
{
	char token[KEY_TOKEN_SIZE], other[KEY_TOKEN_SIZE], path[32];
	struct key k, whole, *list;
	autofree char *text = NULL;
	size_t len, count;

	CHECK_EQ(make(s, "ci", &k, token), 0);
	CHECK_EQ(make(s, "other", &whole, other), 0);
	snprintf(path, sizeof(path), "keys/%s", k.id);
	CHECK_EQ(fd_read_file(s->home_fd, path, KEY_RECORD_MAX, &text, &len), 0);
	for (size_t i = 0; i < len; i++) {
		text[i] ^= 1;
		CHECK_EQ(write_key(s, k.id, text, len), 0);
		CHECK_EQ(find(s, token), -EBADMSG);
		text[i] ^= 1;
		CHECK_EQ(write_key(s, k.id, text, i), 0);
		CHECK_EQ(find(s, token), -EBADMSG);
	}
	CHECK_EQ(e.kind, ERR_DAMAGED);
	CHECK_EQ(find(s, other), 0);
	CHECK_EQ(key_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 2);
	CHECK_EQ(list[0].is_damaged + list[1].is_damaged, 1);
	key_list_free(list, count);
	CHECK_EQ(make(s, "third", &whole, other), 0);
	CHECK_EQ(key_revoke(s, k.id, &e), 0);
	CHECK_EQ(key_revoke(s, k.id, &e), -ENOENT);
	CHECK_EQ(find(s, token), -ENOENT);
}

HOME_TEST(other_files_are_not_keys)
{
	char token[KEY_TOKEN_SIZE], t[KEY_TOKEN_SIZE];
	struct key k, *list;
	size_t count;

	CHECK_EQ(make(s, "ci", &k, token), 0);
	CHECK_EQ(write_key(s, "README", "x", 1), 0);
	CHECK_EQ(mkdirat(s->home_fd, "keys/00000000", 0700), 0);
	CHECK_EQ(symlinkat("/dev/zero", s->home_fd, "keys/11111111"), 0);
	snprintf(t, sizeof(t), "cove_00000000%s", token + 13);
	CHECK(find(s, t) < 0);
	snprintf(t, sizeof(t), "cove_11111111%s", token + 13);
	CHECK(find(s, t) < 0);
	CHECK_EQ(unlinkat(s->home_fd, "keys/00000000", AT_REMOVEDIR), 0);
	CHECK_EQ(key_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 2);
	key_list_free(list, count);
}

static void *make_many(void *arg)
{
	struct state *s = arg;
	char token[KEY_TOKEN_SIZE];
	struct err why;
	size_t *made = calloc(1, sizeof(*made));

	for (int i = 0; i < 20; i++) {
		struct key k = {.scopes = KEY_READ};

		snprintf(k.name, sizeof(k.name), "k%d", i);
		*made += key_make(s, &k, token, &why) == 0;
	}
	return made;
}

/* Of several who make a key of one name at once one does. */
HOME_TEST(one_name_is_one_key)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	size_t count, sum = 0;
	struct key *list;
	void *made;

	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_many, s), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_join(threads[i], &made), 0);
		sum += *(size_t *)made;
		free(made);
	}
	CHECK_EQ(sum, 20);
	CHECK_EQ(key_list(s, &list, &count, &e), 0);
	CHECK_EQ(count, 20);
	key_list_free(list, count);
}

/* ---- words ---- */

static int scopes(struct key *k, const char *list)
{
	static char text[4096];

	*k = (struct key){0};
	str_copy(text, sizeof(text), list);
	return key_take_scopes(k, text, &e);
}

static int quotas(struct key *k, const char *list)
{
	static char text[4096];

	*k = (struct key){0};
	str_copy(text, sizeof(text), list);
	return key_take_quotas(k, text, &e);
}

TEST(scopes_are_words_that_are_known)
{
	static const char *const bad[] = {
		"",    "Read",	"read,",  ",read",     "reed",		"read ",     "read,,run",
		"all", "mount", "mount:", "mount:srv", "mount:/a/../b", "mount:/a/", "mount://a"};
	struct key k;

	CHECK_EQ(scopes(&k, "read,run,read"), 0);
	CHECK_EQ(k.scopes, KEY_READ | KEY_RUN);
	CHECK(key_may(&k, KEY_RUN) && !key_may(&k, KEY_IMAGES) && !key_may(&k, KEY_ADMIN));
	CHECK_EQ(scopes(&k, "admin"), 0);
	for (size_t i = 0; key_scope_name(i); i++)
		CHECK(key_may(&k, (enum key_scope)(1 << i)) && key_scope_summary(i)[0]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(scopes(&k, bad[i]), -EINVAL);
		CHECK_EQ(e.kind, ERR_INVALID);
	}
}

TEST(quotas_are_numbers_and_more_than_none)
{
	static const char *const bad[] = {"",
					  "boxes",
					  "boxes=",
					  "boxes=0",
					  "boxes=-1",
					  "boxes=1.5",
					  "mem=8q",
					  "mem=0",
					  "cpus=0",
					  "cpus=0.0001",
					  "pids=4",
					  "boxes=1,boxes=2",
					  "boxes=1,",
					  "mem=none",
					  "boxes=99999999999999999999"};
	struct key k;

	CHECK_EQ(quotas(&k, "boxes=20,mem=8g,cpus=0.5,disk=100g,snapshots=50,images=10"), 0);
	CHECK_EQ(k.quotas[KEY_QUOTA_MEM], 8ull << 30);
	CHECK_EQ(k.quotas[KEY_QUOTA_CPUS], 500);
	CHECK_EQ(k.quotas[KEY_QUOTA_IMAGES], 10);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(quotas(&k, bad[i]), -EINVAL);
}

TEST(directories_are_bounded_and_plain)
{
	char long_path[KEY_MOUNTS_BYTES + 2], many[KEY_MOUNTS_MAX][16];
	struct key k = {0};

	CHECK_EQ(key_take_mount(&k, "/a\nb", &e), -EINVAL);
	CHECK_EQ(key_take_mount(&k, "a", &e), -EINVAL);
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = 0;
	CHECK_EQ(key_take_mount(&k, long_path, &e), -E2BIG);
	for (size_t i = 0; i < KEY_MOUNTS_MAX; i++) {
		snprintf(many[i], sizeof(many[i]), "/srv/%zu", i);
		CHECK_EQ(key_take_mount(&k, many[i], &e), 0);
	}
	CHECK_EQ(key_take_mount(&k, "/one/more", &e), -E2BIG);
	k.mount_count = 1;
	CHECK(key_may_mount(&k, "/srv/0") && key_may_mount(&k, "/srv/0/a/b"));
	CHECK(!key_may_mount(&k, "/srv/00") && !key_may_mount(&k, "/srv") &&
	      !key_may_mount(&k, "/"));
	k.mount_count = 0;
	CHECK(!key_may_mount(&k, "/srv/0"));
	k.scopes = KEY_ADMIN;
	CHECK(key_may_mount(&k, "/"));
}

/* ---- names ---- */

TEST(names_there_and_back)
{
	static const struct {
		enum key_kind kind;
		const char *name, *full;
	} good[] = {{KEY_OF_BOX, "web", "1a2b3c4d_web"},
		    {KEY_OF_WORKSPACE, "web-1", "1a2b3c4d_web-1"},
		    {KEY_OF_SNAPSHOT, "0", "1a2b3c4d_0"},
		    {KEY_OF_SECRET, "OPENAI_KEY", "1a2b3c4d.OPENAI_KEY"},
		    {KEY_OF_IMAGE, "python:3.12", "1a2b3c4d/python:3.12"},
		    {KEY_OF_IMAGE, "docker.io/library/python:latest", "1a2b3c4d/python"},
		    {KEY_OF_IMAGE, "ghcr.io/acme/agent", "1a2b3c4d/ghcr.io/acme/agent"}};
	char full[KEY_NAME_SIZE];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		enum key_kind kind = good[i].kind;

		CHECK_EQ(key_name_in("1a2b3c4d", kind, good[i].name, full, &e), 0);
		CHECK_STR(full, good[i].full);
		CHECK_STR(key_name_out("1a2b3c4d", kind, full), full + 9);
		CHECK(key_name_out("1a2b3c4e", kind, full) == NULL);
		CHECK_STR(key_name_plain(kind, full), full + 9);
		CHECK_STR(key_name_plain(kind, full + 9), full + 9);
		CHECK(kind == KEY_OF_IMAGE    ? image_check_name(full, &e) == 0
		      : kind == KEY_OF_SECRET ? secret_is_name(full)
					      : state_check_name("box", full, &e) == 0);
	}
	CHECK(key_name_out("1a2b3c4d", KEY_OF_BOX, "1a2b3c4d") == NULL);
	CHECK(key_name_out("1a2b3c4d", KEY_OF_BOX, "1a2b3c4d_") == NULL);
	CHECK(key_name_out("1a2b3c4d", KEY_OF_BOX, "1a2b3c4d-web") == NULL);
	CHECK(key_name_out("1a2b3c4d", KEY_OF_BOX, "") == NULL);
	CHECK_EQ(key_name_in("../../..", KEY_OF_BOX, "web", full, &e), -EINVAL);
}

TEST(images_that_a_keys_box_may_stand_on)
{
	static const char id[] = "1a2b3c4d";

	CHECK(key_may_use_image(id, "base") && key_may_use_image(id, "ghcr.io/acme/agent"));
	CHECK(key_may_use_image(id, "1a2b3c4d/app"));
	CHECK(!key_may_use_image(id, "1a2b3c4e/app") && !key_may_use_image(id, "host"));
	CHECK(key_may_use_image(NULL, "1a2b3c4e/app") && key_may_use_image(NULL, "host"));
}

/* Nothing that a key may say reaches beyond its namespace, or into another's. */
TEST(no_name_leads_out)
{
	static const char *const bad[] = {"",	 ".",  "..",  "../x", "a/b", "a_b", "deadbeef_web",
					  "a.b", "-a", "A b", "\n"};
	char name[128], full[KEY_NAME_SIZE];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(key_name_in("1a2b3c4d", KEY_OF_BOX, bad[i], full, &e), -EINVAL);
		if (strcmp(bad[i], "a_b") != 0)
			CHECK_EQ(key_name_in("1a2b3c4d", KEY_OF_SECRET,
					     strcmp(bad[i], "deadbeef_web") ? bad[i]
									    : "deadbeef.web",
					     full, &e),
				 -EINVAL);
	}
	CHECK(key_name_in("1a2b3c4d", KEY_OF_IMAGE, "../x", full, &e) < 0);
	CHECK(key_name_in("1a2b3c4d", KEY_OF_IMAGE, "", full, &e) < 0);
	CHECK(key_name_in("1a2b3c4d", KEY_OF_IMAGE, "/x", full, &e) < 0);
	memset(name, 'a', sizeof(name));
	name[54] = 0;
	CHECK_EQ(key_name_in("1a2b3c4d", KEY_OF_BOX, name, full, &e), 0);
	CHECK_EQ(strlen(full), BOX_NAME_MAX);
	CHECK_EQ(state_check_name("box", full, &e), 0);
	name[54] = 'a';
	name[55] = 0;
	CHECK_EQ(key_name_in("1a2b3c4d", KEY_OF_BOX, name, full, &e), -EINVAL);
	CHECK(strstr(e.msg, "54") != NULL);
	CHECK_EQ(key_name_in("1a2b3c4d", KEY_OF_SECRET, name, full, &e), 0);
	CHECK(secret_is_name(full));
}

/* ---- quotas ---- */

TEST(a_quota_is_for_what_is_more)
{
	struct key k = {.name = "ci", .quotas = {[KEY_QUOTA_BOXES] = 2, [KEY_QUOTA_MEM] = 1 << 30}};
	struct spec box = {.limits = {[LIMIT_MEM] = 512 << 20, [LIMIT_DISK] = 1 << 30}};
	struct key_usage now = {0}, one = {0}, none = {0}, image = {.of[KEY_QUOTA_IMAGES] = 1};

	key_usage_add_box(&one, &box);
	CHECK_EQ(one.of[KEY_QUOTA_BOXES], 1);
	CHECK_EQ(one.of[KEY_QUOTA_CPUS], KEY_EVERYTHING);
	CHECK_EQ(one.of[KEY_QUOTA_DISK], 1 << 30);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(key_quota_check(&k, &now, &one, &e), 0);
		key_usage_add_box(&now, &box);
	}
	CHECK_EQ(key_quota_check(&k, &now, &one, &e), -EDQUOT);
	CHECK_EQ(e.kind, ERR_LIMIT);
	CHECK(strstr(e.msg, "boxes") && strstr(e.msg, "2 of 2"));
	k.quotas[KEY_QUOTA_BOXES] = 3;
	CHECK_EQ(key_quota_check(&k, &now, &one, &e), -EDQUOT);
	CHECK(strstr(e.msg, "mem") && strstr(e.msg, "512 MiB"));
	/* What asks for nothing of it is not refused, however much is used. */
	CHECK_EQ(key_quota_check(&k, &now, &none, &e), 0);
	CHECK_EQ(key_quota_check(&k, &now, &image, &e), 0);
	key_usage_add_box(&now, &box);
	CHECK_EQ(key_quota_check(&k, &now, &none, &e), 0);
}

TEST(a_box_without_a_limit_asks_for_everything)
{
	struct spec box = {.limits = {[LIMIT_CPUS] = 500}};
	struct key k = {.name = "ci", .quotas = {[KEY_QUOTA_MEM] = UINT64_MAX - 1}};
	struct key_usage now = {0}, more = {0};

	key_usage_add_box(&more, &box);
	CHECK_EQ(key_quota_check(&k, &now, &more, &e), -EDQUOT);
	CHECK(strstr(e.msg, "without a limit") != NULL);
	/* One that is there already leaves no room, and nothing wraps around. */
	key_usage_add_box(&now, &box);
	key_usage_add_box(&now, &box);
	CHECK_EQ(now.of[KEY_QUOTA_MEM], KEY_EVERYTHING);
	CHECK_EQ(now.of[KEY_QUOTA_CPUS], 1000);
	more = (struct key_usage){.of[KEY_QUOTA_MEM] = 1};
	CHECK_EQ(key_quota_check(&k, &now, &more, &e), -EDQUOT);
	k.quotas[KEY_QUOTA_MEM] = 0;
	CHECK_EQ(key_quota_check(&k, &now, &more, &e), 0);
}

TEST(a_named_workspace_is_as_much_disk_again)
{
	struct spec box = {.workspace = "w", .limits = {[LIMIT_DISK] = 1 << 30}};
	struct key_usage u = {0};

	key_usage_add_box(&u, &box);
	CHECK_EQ(u.of[KEY_QUOTA_DISK], 2u << 30);
	box.limits[LIMIT_DISK] = 0;
	key_usage_add_box(&u, &box);
	CHECK_EQ(u.of[KEY_QUOTA_DISK], KEY_EVERYTHING);
}
