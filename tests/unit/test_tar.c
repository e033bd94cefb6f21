/* The tar reader: what comes out of good streams, and that every trick is refused. */
#include "base/limits.h"
#include "store/tar.h"
#include "tar_make.h"

/* Everything that came out, as one text. */
struct seen {
	struct buf text;
};

static int seen_entry(void *arg, const struct tar_entry *t, struct err *e)
{
	struct seen *s = arg;
	int r = buf_printf(&s->text, "%c %s>%s %o %u:%u %llu @%llu.%u\n", "fdlhpo"[t->type],
			   t -> path,
			   t -> type == TAR_SYMLINK || t -> type == TAR_HARDLINK ? t -> target : "",
			   t->mode, t->uid, t->gid, (unsigned long long)t->size,
			   (unsigned long long)t->mtime_s, t->mtime_ns);

	(void)e;
	return r;
}

static int seen_data(void *arg, const void *p, size_t n, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	return buf_append(&s->text, p, n);
}

static int seen_end(void *arg, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	return buf_append_str(&s->text, ".\n");
}

static const struct tar_ops ops = {seen_entry, seen_data, seen_end};

static bool guarded;

static int read_cut(const struct tar_maker *m, size_t cut, struct seen *seen, struct err *e)
{
	const uint8_t *p = buf_data(&m->out);
	size_t n = buf_len(&m->out);
	struct tar t;
	int r = 0;

	buf_init(&seen->text, 64u << 20);
	tar_init(&t, &ops, seen);
	t.guarded = guarded;
	while (n > 0 && r == 0) {
		size_t take = cut && cut < n ? cut : n;

		r = tar_feed(&t, p, take, e);
		p += take;
		n -= take;
	}
	if (r == 0)
		r = tar_finish(&t, e);
	CHECK_EQ(r < 0, tar_finish(&t, NULL) < 0);
	tar_done(&t);
	return r;
}

/* Reads in pieces of several sizes: the same every time. */
static int read_all(struct tar_maker *m, char *ret_text, size_t size, struct err *e)
{
	static const size_t cuts[] = {0, 1, 7, 511, 512, 513, 4096};
	int first = 0;

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct seen seen;
		struct err got = {0};
		int r = read_cut(m, cuts[i], &seen, &got);

		if (i == 0) {
			first = r;
			snprintf(ret_text, size, "%s", buf_cstr(&seen.text));
			*e = got;
		}
		CHECK_EQ(r, first);
		CHECK_STR(got.msg, e->msg);
		if (r == 0)
			CHECK(strncmp(buf_cstr(&seen.text), ret_text, size - 1) == 0);
		buf_done(&seen.text);
	}
	maker_done(m);
	return first;
}

static char out[65536];
static struct err why;

static int verdict(struct tar_maker *m)
{
	why = (struct err){0};
	return read_all(m, out, sizeof(out), &why);
}

TEST(ordinary_entries)
{
	struct tar_maker m;

	maker_init(&m);
	maker_dir(&m, "./");
	maker_dir(&m, "./etc/");
	maker_file(&m, "./etc/hosts", "hello\n");
	maker_file(&m, "empty", "");
	maker_link(&m, '2', "bin", "usr/bin");
	maker_link(&m, '1', "etc/copy", "./etc/hosts");
	maker_header(&m, (struct maker_entry){.type = '3', .name = "dev/null", .mode = 0666});
	maker_header(&m,
		     (struct maker_entry){
			     .type = '0', .name = "sudo", .mode = 04755, .uid = 0, .gid = 65535});
	maker_end(&m);
	CHECK_EQ(verdict(&m), 0);
	CHECK_STR(out, "d > 755 0:0 0 @1000.0\n.\n"
		       "d etc> 755 0:0 0 @1000.0\n.\n"
		       "f etc/hosts> 644 0:0 6 @1000.0\nhello\n.\n"
		       "f empty> 644 0:0 0 @1000.0\n.\n"
		       "l bin>usr/bin 777 0:0 0 @1000.0\n.\n"
		       "h etc/copy>etc/hosts 777 0:0 0 @1000.0\n.\n"
		       "o dev/null> 666 0:0 0 @0.0\n.\n"
		       "f sudo> 4755 0:65535 0 @0.0\n.\n");
}

TEST(pax_and_gnu_headers_apply_to_the_next_entry_only)
{
	struct tar_maker m;
	char name[401];

	memset(name, 'n', 400);
	for (int i = 50; i < 400; i += 50)
		name[i] = '/';
	name[400] = 0;
	maker_init(&m);
	maker_meta(&m, 'g', "18 comment=a file\n", 18);
	maker_pax(&m, "path", name);
	maker_pax(&m, "mtime", "1234.567890123");
	maker_pax(&m, "SCHILY.xattr.security.capability", "ignored");
	maker_file(&m, "short", "a");
	maker_file(&m, "next", "b");
	maker_pax(&m, "mtime", "-5.5");
	maker_file(&m, "old", "");
	maker_meta(&m, 'L', name, 401);
	maker_meta(&m, 'K', "some/where", 11);
	maker_link(&m, '2', "x", "y");
	maker_end(&m);
	CHECK_EQ(verdict(&m), 0);
	CHECK(strstr(out, name) == out + 2);
	CHECK(strstr(out, "> 644 0:0 1 @1234.567890123\na.\n"
			  "f next> 644 0:0 1 @1000.0\nb.\n"
			  "f old> 644 0:0 0 @0.0\n.\n") != NULL);
	CHECK(strstr(out, ">some/where 777") != NULL);
}

TEST(numbers_of_gnu_tar)
{
	struct tar_maker m;
	unsigned char *h;

	maker_init(&m);
	maker_header(&m, (struct maker_entry){.type = '0', .name = "f", .mode = 0600, .gnu = 1});
	h = m.out.data;
	memset(h + 108, 0, 8);
	h[108] = 0x80;
	h[114] = 0x10;
	h[115] = 0x01;		   /* uid 4097 */
	memset(h + 136, 0xff, 12); /* a time before 1970 */
	maker_seal(h);
	maker_end(&m);
	CHECK_EQ(verdict(&m), 0);
	CHECK_STR(out, "f f> 600 4097:0 0 @0.0\n.\n");
}

static void refuse_name(const char *name, char type)
{
	struct tar_maker m;

	maker_init(&m);
	if (type == '1')
		maker_file(&m, "ok", "x");
	maker_header(&m, (struct maker_entry){.type = type,
					      .name = type == '1' ? "link" : name,
					      .target = type == '1' ? name : "t",
					      .mode = 0644});
	maker_end(&m);
	if (verdict(&m) >= 0)
		FAIL(name);
	CHECK(why.msg[0]);
	maker_init(&m);
	maker_pax(&m, type == '1' ? "linkpath" : "path", name);
	maker_header(&m,
		     (struct maker_entry){.type = type, .name = "x", .target = "t", .mode = 0644});
	maker_end(&m);
	if (verdict(&m) >= 0)
		FAIL(name);
}

TEST(names_that_lead_out)
{
	static const char *const bad[] = {"/../etc/passwd", "../x",    "a/../../x", "..",
					  "./..",	    "a//b",    "a/./b",	    "/./../x",
					  "./../x",	    ".//../x", "a/.."};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		refuse_name(bad[i], '0');
		refuse_name(bad[i], '5');
		refuse_name(bad[i], '2');
		refuse_name(bad[i], '1');
	}
}

TEST(odd_but_honest_names)
{
	struct tar_maker m;

	maker_init(&m);
	maker_file(&m, "new\nline", "");
	maker_file(&m, "\xff\xfe", "");
	maker_file(&m, "..x", "");
	maker_file(&m, "a/...", "");
	maker_file(&m, ".hidden", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), 0);
}

TEST(names_are_bounded)
{
	char *name = malloc(5001);
	struct tar_maker m;

	for (int i = 0; i < 5000; i++)
		name[i] = i % 100 == 99 ? '/' : 'n';
	name[5000] = 0;
	maker_init(&m);
	maker_pax(&m, "path", name);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -E2BIG);
	name[TAR_NAME_MAX] = 0;
	maker_init(&m);
	maker_pax(&m, "path", name);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), 0);
	for (int i = 0; i < 4000; i++)
		name[i] = i % 2 ? '/' : 'd';
	name[3999] = 0; /* two thousand directories deep */
	maker_init(&m);
	maker_pax(&m, "path", name);
	maker_dir(&m, "x");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -E2BIG);
	free(name);
}

TEST(a_nul_in_a_name_is_refused)
{
	struct tar_maker m;

	maker_init(&m);
	maker_meta(&m, 'x', "12 path=a\0b\n", 12);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -EBADMSG);
	maker_init(&m);
	maker_meta(&m, 'L', "a\0b", 4);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -EBADMSG);
}

TEST(malformed_extended_headers)
{
	static const struct {
		char type;
		const char *body;
	} bad[] = {
		{'x', "path=x\n"},
		{'x', "99 path=x\n"},
		{'x', "5 path=x\n"},
		{'x', "10 path=xy"},
		{'x', "9 path x\n"},
		{'x', "4 =x\n"},
		{'x', "-9 path=x\n"},
		{'x', "999999999999999999999 path=x\n"},
		{'x', "10 path=a\n10 path=b\n"},
		{'x', "9 path=\n"},
		{'x', "8 path=\n"},
		{'x', "8 uid=x\n"},
		{'x', "9 uid=-1\n"},
		{'x', "12 mtime=1x\n"},
		{'x', "14 mtime=1.2x\n"},
		{'x', "9 size=x\n"},
		{'g', "10 path=a\n"},
		{'g', "9 size=5\n"},
		{'x', "22 GNU.sparse.major=1\n"},
		{'x', "\n"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tar_maker m;

		maker_init(&m);
		maker_meta(&m, bad[i].type, bad[i].body, strlen(bad[i].body));
		maker_file(&m, "x", "");
		maker_end(&m);
		if (verdict(&m) >= 0)
			FAIL(bad[i].body);
	}
}

TEST(an_extended_header_has_a_maximum_and_needs_an_entry)
{
	struct tar_maker m;
	char *huge = malloc(TAR_META_MAX + 1);

	memset(huge, 'x', TAR_META_MAX + 1);
	maker_init(&m);
	maker_meta(&m, 'x', huge, TAR_META_MAX + 1);
	maker_end(&m);
	CHECK_EQ(verdict(&m), -E2BIG);
	maker_init(&m);
	maker_pax(&m, "path", "lonely");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -EBADMSG);
	maker_init(&m);
	maker_meta(&m, 'x', "", 0);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -EBADMSG);
	free(huge);
}

static void refuse_entry(struct maker_entry entry)
{
	struct tar_maker m;

	maker_init(&m);
	maker_header(&m, entry);
	if (entry.size && entry.size < 4096)
		maker_bytes(&m, "data", 4);
	maker_end(&m);
	if (verdict(&m) >= 0)
		FAIL(entry.name);
}

TEST(entries_that_mean_two_things)
{
	refuse_entry((struct maker_entry){
		.type = '1', .name = "hard link with data", .target = "x", .size = 4});
	refuse_entry((struct maker_entry){
		.type = '2', .name = "link with data", .target = "x", .size = 4});
	refuse_entry((struct maker_entry){.type = '5', .name = "directory with data", .size = 4});
	refuse_entry((struct maker_entry){.type = '2', .name = "link without target"});
	refuse_entry(
		(struct maker_entry){.type = '1', .name = "hard link to root", .target = "./"});
	refuse_entry((struct maker_entry){.type = '0', .name = "file/"});
	refuse_entry((struct maker_entry){.type = '0', .name = "./"});
	refuse_entry((struct maker_entry){.type = '2', .name = ".", .target = "/etc"});
	refuse_entry((struct maker_entry){.type = '0', .name = ""});
	refuse_entry((struct maker_entry){.type = 'S', .name = "sparse"});
	refuse_entry((struct maker_entry){.type = 'M', .name = "volume"});
	refuse_entry((struct maker_entry){.type = 'Z', .name = "unknown"});
	refuse_entry((struct maker_entry){.type = '0', .name = "huge", .size = 077777777777ull});
	refuse_entry((struct maker_entry){.type = '0', .name = "owner", .uid = 65536});
	refuse_entry((struct maker_entry){.type = '0', .name = "group", .gid = 2097151});
}

TEST(sizes_and_owners_of_pax_are_bounded)
{
	static const struct {
		const char *key, *value;
	} bad[] = {{"size", "18446744073709551615"},
		   {"size", "2199023255552"},
		   {"uid", "65536"},
		   {"gid", "4294967296"},
		   {"mtime", "18446744073709551615"}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tar_maker m;

		maker_init(&m);
		maker_pax(&m, bad[i].key, bad[i].value);
		maker_file(&m, "x", "");
		maker_end(&m);
		if (verdict(&m) >= 0)
			FAIL(bad[i].value);
	}
}

TEST(every_cut_of_a_stream_is_noticed)
{
	struct tar_maker m, part;

	maker_init(&m);
	maker_pax(&m, "path", "a/b");
	maker_file(&m, "x", "0123456789");
	maker_file(&m, "y", "z");
	for (size_t n = 0; n <= buf_len(&m.out); n += 3) {
		maker_init(&part);
		CHECK_EQ(buf_append(&part.out, buf_data(&m.out), n), 0);
		CHECK(verdict(&part) < 0);
	}
	maker_done(&m);
}

/* Where a digest says that nothing is missing a stream may stop, but only between two entries. */
TEST(a_guarded_stream_needs_no_end)
{
	struct tar_maker m, part;
	size_t whole[2];

	guarded = true;
	maker_init(&m);
	maker_pax(&m, "path", "a/b");
	maker_file(&m, "x", "0123456789");
	whole[0] = buf_len(&m.out);
	maker_file(&m, "y", "z");
	whole[1] = buf_len(&m.out);
	for (size_t n = 0; n <= whole[1]; n++) {
		maker_init(&part);
		CHECK_EQ(buf_append(&part.out, buf_data(&m.out), n), 0);
		CHECK_EQ(verdict(&part), n == 0 || n == whole[0] || n == whole[1] ? 0 : -EBADMSG);
	}
	maker_done(&m);
	maker_init(&m);
	CHECK_EQ(buf_append(&m.out, (char[512]){0}, 512), 0);
	maker_file(&m, "hidden", "");
	CHECK_EQ(verdict(&m), -EBADMSG);
}

TEST(what_follows_the_end)
{
	static const char zero[512];
	struct tar_maker m;

	maker_init(&m);
	maker_file(&m, "x", "");
	CHECK_EQ(buf_append(&m.out, zero, sizeof(zero)), 0);
	CHECK_EQ(verdict(&m), 0);
	maker_init(&m);
	maker_file(&m, "x", "");
	CHECK_EQ(buf_append(&m.out, zero, sizeof(zero)), 0);
	maker_file(&m, "y", "");
	maker_end(&m);
	CHECK_EQ(verdict(&m), -EBADMSG);
	maker_init(&m);
	maker_file(&m, "x", "");
	maker_end(&m);
	CHECK_EQ(buf_append(&m.out, zero, 100), 0);
	CHECK_EQ(verdict(&m), 0);
	maker_init(&m);
	maker_file(&m, "x", "");
	maker_end(&m);
	maker_file(&m, "hidden", "");
	CHECK_EQ(verdict(&m), -EBADMSG);
}

TEST(a_flipped_bit_is_noticed)
{
	for (size_t i = 0; i < 345; i++) {
		struct tar_maker m;

		maker_init(&m);
		maker_file(&m, "file", "data");
		maker_end(&m);
		m.out.data[i] ^= 0x10;
		if (i < 148 || i >= 156)
			CHECK(verdict(&m) < 0);
		else
			maker_done(&m);
	}
}

TEST(compressed_streams_are_told_apart)
{
	static const struct {
		const char *bytes, *program;
	} known[] = {{"\x1f\x8b\x08 gzip", "gunzip"},
		     {"\xfd"
		      "7zXZ xz",
		      "unxz"},
		     {"\x28\xb5\x2f\xfd zstd", "unzstd"},
		     {"BZh9 bzip2", "bunzip2"}};
	struct tar_maker m;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		maker_init(&m);
		CHECK_EQ(buf_append_str(&m.out, known[i].bytes), 0);
		CHECK_EQ(verdict(&m), -EBADMSG);
		CHECK(strstr(why.msg, known[i].program) != NULL);
		maker_init(&m);
		maker_bytes(&m, known[i].bytes, strlen(known[i].bytes));
		maker_bytes(&m, "more", 4);
		CHECK_EQ(verdict(&m), -EBADMSG);
		CHECK(strstr(why.msg, known[i].program) != NULL);
	}
	maker_init(&m);
	maker_bytes(&m, "plain text", 10);
	CHECK_EQ(verdict(&m), -EBADMSG);
	CHECK(strstr(why.msg, "not a tar") != NULL);
}

static int count_entry(void *arg, const struct tar_entry *t, struct err *e)
{
	(void)t;
	(void)e;
	++*(uint64_t *)arg;
	return 0;
}

static int count_nothing(void *arg, const void *p, size_t n, struct err *e)
{
	(void)arg;
	(void)p;
	(void)n;
	(void)e;
	return 0;
}

TEST(entries_are_counted)
{
	static const struct tar_ops counting = {count_entry, count_nothing, NULL};
	struct tar_maker m;
	uint64_t count = 0;
	struct err e = {0};
	struct tar t;
	int r = 0;

	maker_init(&m);
	maker_file(&m, "same", "");
	tar_init(&t, &counting, &count);
	for (unsigned i = 0; i <= TAR_ENTRIES_MAX && r == 0; i++)
		r = tar_feed(&t, buf_data(&m.out), 512, &e);
	CHECK_EQ(r, -E2BIG);
	CHECK_EQ(count, TAR_ENTRIES_MAX);
	tar_done(&t);
	maker_done(&m);
}

static int stop_entry(void *arg, const struct tar_entry *t, struct err *e)
{
	(void)arg;
	(void)t;
	return err_set(e, ERR_FULL, ENOSPC, "full");
}

TEST(a_callback_ends_the_reading)
{
	static const struct tar_ops stopping = {stop_entry, count_nothing, NULL};
	struct tar_maker m;
	struct err e = {0};
	struct tar t;

	maker_init(&m);
	maker_file(&m, "x", "");
	maker_end(&m);
	tar_init(&t, &stopping, NULL);
	CHECK_EQ(tar_feed(&t, buf_data(&m.out), buf_len(&m.out), &e), -ENOSPC);
	CHECK_EQ(tar_feed(&t, "x", 1, &e), -ENOSPC);
	CHECK_EQ(tar_finish(&t, &e), -ENOSPC);
	CHECK_STR(e.msg, "full");
	tar_done(&t);
	maker_done(&m);
}

TAP_MAIN
