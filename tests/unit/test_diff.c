/*
 * Stacks of layers and what differs between two: built trees, and random ones against a comparison
 * that is naive, against overlayfs itself, and with hostile contents.
 */
#include "storage/diff.h"

#include "base/buf.h"
#include "base/fd.h"
#include "storage/graft.h"
#include "storage/tree.h"
#include "tap.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum { LAYERS = 6 };

static char top[64];
static int top_fd = -1;
static int layer_fd[LAYERS];

static void clean(void)
{
	struct err e = {0};

	tree_remove(AT_FDCWD, top, &e);
}

/* A directory with layers 0 to 5 in it. */
static void rig(void)
{
	snprintf(top, sizeof(top), "cove-diff-%d", (int)getpid());
	CHECK_EQ(chdir("/tmp"), 0);
	CHECK_EQ(mkdir(top, 0755), 0);
	tap_state.at_end = clean;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < LAYERS; i++) {
		char name[2] = {(char)('0' + i), 0};

		CHECK_EQ(mkdirat(top_fd, name, 0755), 0);
		layer_fd[i] = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fsetxattr(layer_fd[0], "user.overlay.x", "y", 1, 0) < 0)
		SKIP("/tmp has no user attributes");
	CHECK_EQ(fremovexattr(layer_fd[0], "user.overlay.x"), 0);
}

static void put(int layer, const char *path, const char *text)
{
	int fd = openat(layer_fd[layer], path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

static void put_dir(int layer, const char *path)
{
	CHECK_EQ(mkdirat(layer_fd[layer], path, 0755), 0);
}

static void put_whiteout(int layer, const char *path)
{
	CHECK_EQ(mknodat(layer_fd[layer], path, S_IFCHR, 0), 0);
}

static void put_opaque(int layer, const char *path)
{
	int fd = openat(layer_fd[layer], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_EQ(fsetxattr(fd, "user.overlay.opaque", "y", 1, 0), 0);
	close(fd);
}

/* "A a/b\n" and such. */
static int note(void *arg, const struct diff_change *c)
{
	static const char letters[] = "AMD";
	static const char marks[] = "tmoca";
	char what[8] = "";
	size_t n = 0;

	for (int i = 0; i < 5; i++)
		if (c->what & 1u << i)
			what[n++] = marks[i];
	what[n] = 0;
	return buf_printf(arg, "%c %s%s%s%s\n", letters[c->kind], c->path, n ? " " : "", what,
			  c->deep ? " deep" : "");
}

static struct stack stack_of(struct stack_layer *layers, const char *digits)
{
	size_t n = strlen(digits);

	for (size_t i = 0; i < n; i++)
		layers[i] = (struct stack_layer){.fd = layer_fd[digits[i] - '0']};
	return (struct stack){.layers = layers, .count = n};
}

static const char *diff_only(const char *a, const char *b, const char *const *only, size_t count)
{
	static struct buf out;
	struct stack_layer x[LAYERS], y[LAYERS];
	struct stack before = stack_of(x, a), after = stack_of(y, b);
	struct diff_job job = {.before = &before,
			       .after = &after,
			       .only = only,
			       .only_count = count,
			       .on_change = note,
			       .arg = &out};
	struct err e = {0};
	int r;

	buf_done(&out);
	buf_init(&out, 64 << 20);
	r = diff_trees(&job, &e);
	if (r < 0)
		printf("# %s\n", e.msg);
	CHECK_EQ(r, 0);
	return buf_cstr(&out);
}

static const char *diff(const char *a, const char *b)
{
	return diff_only(a, b, NULL, 0);
}

TEST(added_changed_and_removed)
{
	rig();
	put(0, "same", "x");
	put(0, "changed", "one");
	put(0, "gone", "x");
	put(0, "moded", "x");
	put_dir(0, "dir");
	put(0, "dir/in", "x");
	put(1, "changed", "two");
	put(1, "added", "x");
	put_whiteout(1, "gone");
	put(1, "same", "x"); /* merely copied up */
	put(1, "moded", "x");
	CHECK_EQ(fchmodat(layer_fd[1], "moded", 0600, 0), 0);
	put_dir(1, "dir"); /* with what is below it */
	put(1, "dir/new", "x");
	put_dir(1, "fresh");
	put(1, "fresh/f", "x");
	CHECK_STR(diff("0", "10"), "A added\nM changed c\nA dir/new\nA fresh\nA fresh/f\nD gone\n"
				   "M moded m\n");
	CHECK_STR(diff("10", "0"), "D added\nM changed c\nD dir/new\nD fresh\nD fresh/f\nA gone\n"
				   "M moded m\n");
	CHECK_STR(diff("10", "10"), "");
	CHECK_STR(diff("", ""), "");
}

TEST(what_hides_what)
{
	rig();
	put_dir(0, "d");
	put(0, "d/one", "x");
	put_dir(0, "d/sub");
	put(0, "d/sub/deep", "x");
	put(0, "f", "x");
	/* A file where a directory was, a directory where a file was. */
	put(1, "d", "x");
	put_dir(1, "f");
	put(1, "f/in", "x");
	CHECK_STR(diff("0", "10"), "M d t\nD d/one\nD d/sub\nD d/sub/deep\nM f t\nA f/in\n");
	/* And back, where the directory is new: what is two layers below stays hidden. */
	put_dir(2, "d");
	put(2, "d/two", "x");
	CHECK_STR(diff("0", "210"), "D d/one\nD d/sub\nD d/sub/deep\nA d/two\nM f t\nA f/in\n");
	/* Opaque. */
	put_dir(3, "d");
	put_opaque(3, "d");
	put_dir(3, "d/sub");
	CHECK_STR(diff("0", "30"), "D d/one\nD d/sub/deep\n");
	CHECK_STR(diff("30", "0"), "A d/one\nA d/sub/deep\n");
	/* A whiteout over nothing, and one in the lowest layer, hide nothing. */
	put_whiteout(4, "nothing");
	CHECK_STR(diff("0", "40"), "");
	CHECK_STR(diff("", "4"), "");
}

TEST(links_devices_and_owners)
{
	rig();
	CHECK_EQ(symlinkat("a", layer_fd[0], "l"), 0);
	CHECK_EQ(symlinkat("b", layer_fd[1], "l"), 0);
	CHECK_EQ(symlinkat("same", layer_fd[0], "m"), 0);
	CHECK_EQ(symlinkat("same", layer_fd[1], "m"), 0);
	CHECK_EQ(mknodat(layer_fd[0], "p", S_IFIFO | 0600, 0), 0);
	CHECK_EQ(mknodat(layer_fd[1], "p", S_IFIFO | 0600, 0), 0);
	CHECK_EQ(mknodat(layer_fd[0], "q", S_IFIFO | 0600, 0), 0);
	put(1, "q", "x");
	CHECK_STR(diff("0", "10"), "M l c\nM q t\n");
	if (geteuid() != 0)
		return;
	put(0, "o", "x");
	put(1, "o", "x");
	CHECK_EQ(fchownat(layer_fd[1], "o", 3, 4, 0), 0);
	CHECK_EQ(mknodat(layer_fd[0], "z", S_IFCHR | 0600, makedev(1, 3)), 0);
	CHECK_EQ(mknodat(layer_fd[1], "z", S_IFCHR | 0600, makedev(1, 5)), 0);
	CHECK_STR(diff("0", "10"), "M l c\nM o o\nM q t\nM z c\n");
}

TEST(attributes_of_the_file_count_and_overlays_own_do_not)
{
	int fd;

	rig();
	put(0, "f", "x");
	put(1, "f", "x");
	fd = openat(layer_fd[1], "f", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(fsetxattr(fd, "user.overlay.origin", "y", 1, 0), 0);
	CHECK_STR(diff("0", "10"), "");
	CHECK_EQ(fsetxattr(fd, "user.mine", "y", 1, 0), 0);
	CHECK_STR(diff("0", "10"), "M f a\n");
	close(fd);
}

static int make_hole(int layer, const char *name, off_t size, off_t at, const char *text)
{
	int fd = openat(layer_fd[layer], name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, size), 0);
	CHECK_EQ(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
	return close(fd);
}

/* They would take days to read. */
TEST(huge_files_of_holes_are_compared_at_once)
{
	const off_t size = 1ll << 43;

	rig();
	make_hole(0, "h", size, 1ll << 42, "one");
	make_hole(1, "h", size, 1ll << 42, "one");
	CHECK_STR(diff("0", "10"), "");
	make_hole(2, "h", size, 1ll << 42, "two");
	CHECK_STR(diff("0", "20"), "M h c\n");
	make_hole(3, "h", size, 1ll << 41, "one");
	CHECK_STR(diff("0", "30"), "M h c\n");
	/* Zeros that are written, and such that are not. */
	put(0, "z", "");
	make_hole(4, "z", 1 << 20, 0, "");
	make_hole(5, "z", 1 << 20, 4096, "\0");
	CHECK_STR(diff("4", "5"), "");
}

TEST(only_some_paths)
{
	static const char *const only[] = {"a/b", "c"};

	rig();
	put_dir(0, "a");
	put(0, "a/b", "x");
	put(0, "a/bc", "x");
	put_dir(0, "c");
	put(0, "c/in", "x");
	put(0, "cc", "x");
	CHECK_STR(diff_only("", "0", only, 2), "A a/b\nA c\nA c/in\n");
	CHECK_STR(diff_only("0", "", only, 1), "D a/b\n");
	CHECK_STR(diff_only("0", "", (const char *const[]){""}, 1),
		  "D a\nD a/b\nD a/bc\nD c\nD c/in\nD cc\n");
}

TEST(single_paths)
{
	struct stack_layer layers[LAYERS];
	struct stack_entry e;
	struct stack s;
	char target[16];
	int fd;

	rig();
	put_dir(0, "d");
	put(0, "d/f", "low");
	put(0, "d/g", "low");
	CHECK_EQ(symlinkat("d", layer_fd[0], "l"), 0);
	put_dir(1, "d");
	put(1, "d/f", "high");
	put_whiteout(1, "d/g");
	s = stack_of(layers, "10");
	CHECK_EQ(stack_find(&s, "", &e), 0);
	CHECK(S_ISDIR(e.st.st_mode));
	CHECK_EQ(stack_find(&s, "d/f", &e), 0);
	CHECK_EQ(e.layer, 0);
	CHECK_EQ(e.st.st_size, 4);
	fd = stack_open_file(&s, &e, "d/f");
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(stack_find(&s, "d/g", &e), -ENOENT);
	CHECK_EQ(stack_find(&s, "d/f/x", &e), -ENOENT);
	CHECK_EQ(stack_find(&s, "l/f", &e), -ENOENT); /* not through a link */
	CHECK_EQ(stack_find(&s, "l", &e), 0);
	CHECK_EQ(stack_read_link(&s, &e, "l", target, sizeof(target)), 1);
	CHECK_STR(target, "d");
	CHECK_EQ(stack_open_file(&s, &e, "l"), -EINVAL);
	CHECK_EQ(stack_find(&s, "../x", &e), -EINVAL);
	CHECK_EQ(stack_find(&s, "/d", &e), -EINVAL);
}

/* Names of any bytes, a directory of many names, and a depth that no path reaches. */
TEST(hostile_trees)
{
	char name[256], here[4096];
	const char *text;
	int fd, deep = 0;

	rig();
	memset(name, 'n', 255);
	name[255] = 0;
	put(1, "\n\x1b[2J\xff", "x");
	for (int i = 0; i < 2000; i++) {
		snprintf(here, sizeof(here), "many%d", i);
		put(1, here, "");
	}
	CHECK(getcwd(here, sizeof(here)));
	fd = fcntl(layer_fd[1], F_DUPFD_CLOEXEC, 0);
	for (int i = 0; i < 40; i++) {
		int next;

		CHECK_EQ(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	text = diff("0", "10");
	for (const char *at = text; (at = strstr(at, " deep\n")); at++)
		deep++;
	CHECK_EQ(deep, 1);
	CHECK(strncmp(text, "A \n\x1b[2J\xff\nA many0\n", 17) == 0);
}

/* ---- random trees ---- */

static uint32_t seed;

static uint32_t dice(uint32_t sides)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % sides;
}

/* Fills a directory of a layer at random. */
static void fill(int fd, int depth)
{
	static const char *const names[] = {"a", "b", "c", "\xff\x01", " x"};
	static const char *const texts[] = {"", "one", "two"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t what = dice(9);
		int sub;

		if (what < 3)
			continue;
		if (what == 3) {
			CHECK_EQ(mknodat(fd, names[i], S_IFCHR, 0), 0);
		} else if (what == 4) {
			CHECK_EQ(symlinkat(dice(2) ? "a" : "b", fd, names[i]), 0);
		} else if (what == 5 || depth == 0) {
			const char *text = texts[dice(3)];

			sub = openat(fd, names[i], O_CREAT | O_WRONLY | O_CLOEXEC,
				     dice(4) ? 0644 : 0600);
			CHECK_EQ(fd_write_full(sub, text, strlen(text)), 0);
			close(sub);
		} else {
			CHECK_EQ(mkdirat(fd, names[i], dice(4) ? 0755 : 0700), 0);
			sub = openat(fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (dice(4) == 0)
				CHECK_EQ(fsetxattr(sub, "user.overlay.opaque", "y", 1, 0), 0);
			fill(sub, depth - 1);
			close(sub);
		}
	}
}

/* A whole tree as a sorted list of lines: path, and all that is compared. */
struct flat {
	struct {
		char path[64], what[48];
	} * items;
	size_t count;
};

/* Drops what is at the path (or, inside: only below it). */
static void flat_drop(struct flat *f, const char *path, bool inside)
{
	size_t n = strlen(path), kept = 0;

	for (size_t i = 0; i < f->count; i++) {
		const char *p = f->items[i].path;
		bool below = strncmp(p, path, n) == 0 && p[n] == '/';
		bool same = strcmp(p, path) == 0;

		if (!below && !(same && !inside))
			f->items[kept++] = f->items[i];
	}
	f->count = kept;
}

static void describe(int fd, const char *name, const struct stat *st, char ret[48])
{
	char text[16] = "";

	if (S_ISLNK(st->st_mode)) {
		CHECK(readlinkat(fd, name, text, sizeof(text) - 1) > 0);
		snprintf(ret, 48, "link %s", text);
		return;
	}
	if (S_ISREG(st->st_mode)) {
		int file = openat(fd, name, O_RDONLY | O_CLOEXEC);

		CHECK(read(file, text, sizeof(text) - 1) >= 0);
		close(file);
	}
	snprintf(ret, 48, "%o %s", st->st_mode, text);
}

static void flat_set(struct flat *f, const char *path, const char *what)
{
	flat_drop(f, path, false);
	f->items = realloc(f->items, (f->count + 1) * sizeof(*f->items));
	CHECK(f->items != NULL);
	snprintf(f->items[f->count].path, sizeof(f->items[0].path), "%s", path);
	snprintf(f->items[f->count++].what, sizeof(f->items[0].what), "%s", what);
}

static bool flat_is_dir(const struct flat *f, const char *path)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->items[i].path, path) == 0)
			return f->items[i].what[0] == '4'; /* of 040755 */
	return false;
}

/* Lays one layer over what there is; of a tree that is shown, there are no marks. */
static void flat_lay(struct flat *f, int fd, const char *path)
{
	static const char *const names[] = {"a", "b", "c", "\xff\x01", " x"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char whole[64], what[48], mark;
		struct stat st;
		int sub;

		snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? "/" : "", names[i]);
		if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISCHR(st.st_mode)) {
			flat_drop(f, whole, false);
			continue;
		}
		describe(fd, names[i], &st, what);
		if (!S_ISDIR(st.st_mode)) {
			flat_drop(f, whole, false);
			flat_set(f, whole, what);
			continue;
		}
		sub = openat(fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (!flat_is_dir(f, whole) || fgetxattr(sub, "user.overlay.opaque", &mark, 1) == 1)
			flat_drop(f, whole, false);
		for (size_t k = 0; k <= f->count; k++) {
			if (k == f->count) {
				flat_set(f, whole, what);
				break;
			}
			if (strcmp(f->items[k].path, whole) == 0) {
				snprintf(f->items[k].what, sizeof(what), "%s", what);
				break;
			}
		}
		flat_lay(f, sub, whole);
		close(sub);
	}
}

static void flatten(struct flat *f, const char *digits)
{
	*f = (struct flat){0};
	for (size_t i = strlen(digits); i > 0; i--)
		flat_lay(f, layer_fd[digits[i - 1] - '0'], "");
}

static const char *flat_find(const struct flat *f, const char *path)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->items[i].path, path) == 0)
			return f->items[i].what;
	return NULL;
}

/* How many lines there should be, and that each of them is right. */
static void check_naively(const char *a, const char *b)
{
	struct flat x, y;
	size_t due = 0, lines = 0;
	char *text = strdup(diff(a, b)), *rest = text, *line;

	flatten(&x, a);
	flatten(&y, b);
	for (size_t i = 0; i < x.count; i++) {
		const char *other = flat_find(&y, x.items[i].path);

		due += !other || strcmp(other, x.items[i].what) != 0;
	}
	for (size_t i = 0; i < y.count; i++)
		due += !flat_find(&x, y.items[i].path);
	while ((line = strsep(&rest, "\n")) && *line) {
		char *path = line + 2, *what = strrchr(path, ' ');
		const char *before, *after;

		if (line[0] == 'M')
			*what = 0;
		before = flat_find(&x, path);
		after = flat_find(&y, path);
		CHECK_EQ(line[0], !before ? 'A' : !after ? 'D' : 'M');
		CHECK(line[0] != 'M' || strcmp(before, after) != 0);
		CHECK(before || after);
		lines++;
	}
	CHECK_EQ(lines, due);
	free(text);
	free(x.items);
	free(y.items);
}

static void fill_layers(uint32_t number)
{
	seed = number * 2654435761u + 1;
	for (int i = 0; i < LAYERS; i++)
		fill(layer_fd[i], 3);
}

static void empty_layers(void)
{
	struct err e = {0};

	for (int i = 0; i < LAYERS; i++) {
		char name[2] = {(char)('0' + i), 0};

		close(layer_fd[i]);
		CHECK_EQ(tree_remove(top_fd, name, &e), 0);
		CHECK_EQ(mkdirat(top_fd, name, 0755), 0);
		layer_fd[i] = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
}

TEST(random_trees_compare_as_a_naive_comparison_does)
{
	static const char *const pairs[][2] = {{"", "0"},      {"10", "0"},	{"20", "10"},
					       {"210", "0"},   {"3210", "410"}, {"0", "1"},
					       {"5", "543210"}};

	rig();
	for (uint32_t i = 0; i < 24; i++) {
		fill_layers(i);
		for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
			check_naively(pairs[k][0], pairs[k][1]);
			check_naively(pairs[k][1], pairs[k][0]);
		}
		empty_layers();
	}
}

/* ---- three trees ---- */

static int note_item(void *arg, const struct graft_item *i)
{
	return buf_printf(arg, "%c%c %s\n", "TCL"[i->state], "AMD"[i->kind], i -> path);
}

/* What layer 1 changed above 0, for 2 above 0, in layer 3; what is said of it. */
static const char *graft_there(enum graft_prefer prefer)
{
	static struct buf out;
	struct stack_layer x[LAYERS], y[LAYERS], z[LAYERS];
	struct stack base = stack_of(x, "0"), theirs = stack_of(y, "10"), ours = stack_of(z, "20");
	const struct graft_job job = {.base = &base,
				      .theirs = &theirs,
				      .ours = &ours,
				      .prefer = prefer,
				      .layer_fd = layer_fd[3],
				      .on_item = note_item,
				      .arg = &out};
	struct err e = {0};
	int r;

	buf_done(&out);
	buf_init(&out, 16 << 20);
	r = graft(&job, &e);
	if (r < 0)
		printf("# %s\n", e.msg);
	CHECK_EQ(r, 0);
	return buf_cstr(&out);
}

TEST(what_a_fork_changed_as_a_layer)
{
	rig();
	put_dir(0, "d");
	put(0, "d/one", "x");
	put(0, "d/two", "x");
	put(0, "f", "x");
	put(0, "g", "x");
	/* Theirs. */
	put_whiteout(1, "d");
	put(1, "f", "theirs");
	put_dir(1, "n");
	put(1, "n/m", "theirs");
	put(1, "same", "both");
	/* Ours. */
	put(2, "g", "ours");
	put(2, "same", "both");
	CHECK_STR(graft_there(GRAFT_NEITHER), "TD d\nTD d/one\nTD d/two\nTM f\nTA n\nTA n/m\n");
	CHECK_STR(diff("20", "320"), "D d\nD d/one\nD d/two\nM f c\nA n\nA n/m\n");
	CHECK_STR(diff("10", "320"), "M g c\n");
}

TEST(conflicts_of_two_sides)
{
	rig();
	put_dir(0, "d");
	put(0, "d/one", "x");
	put_dir(0, "e");
	put(0, "e/one", "x");
	put(0, "f", "x");
	put(1, "f", "theirs");
	put_whiteout(1, "d");
	put_dir(1, "e");
	put(1, "e/one", "theirs");
	put(1, "new", "theirs");
	put(2, "f", "ours");
	put_dir(2, "d");
	put(2, "d/more", "ours");
	put_whiteout(2, "e");
	put(2, "new", "ours");
	CHECK_STR(graft_there(GRAFT_NEITHER), "CD d\nTD d/one\nCM e/one\nCM f\nCA new\n");
	empty_layers();
	put(0, "f", "x");
	put(1, "f", "theirs");
	put(1, "t", "theirs");
	put(2, "f", "ours");
	CHECK_STR(graft_there(GRAFT_OURS), "LM f\nTA t\n");
	CHECK_STR(diff("20", "320"), "A t\n");
	empty_layers();
	put(0, "f", "x");
	put(1, "f", "theirs");
	put(2, "f", "ours");
	CHECK_STR(graft_there(GRAFT_THEIRS), "TM f\n");
	CHECK_STR(diff("10", "320"), "");
}

/* A few changes above layer 0, so that there is not always a conflict. */
static void fill_few(int layer)
{
	static const char *const names[] = {"a", "b", "c", "\xff\x01", " x"};
	int fd = layer_fd[layer];

	for (int i = 0; i < 2; i++) {
		const char *name = names[dice(5)];
		struct stat st;
		int sub;

		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (dice(3) == 0) {
			CHECK_EQ(mknodat(fd, name, S_IFCHR, 0), 0);
			continue;
		}
		CHECK_EQ(mkdirat(fd, name, 0755), 0);
		sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dice(4) == 0)
			CHECK_EQ(fsetxattr(sub, "user.overlay.opaque", "y", 1, 0), 0);
		if (dice(2))
			fill(sub, 1);
		close(sub);
	}
}

static bool is_text_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : !a && !b;
}

/* Each path is theirs where theirs changed it, and ours otherwise; what both changed differently is
 * a conflict. True where there was none. */
static bool check_graft(void)
{
	struct flat base, theirs, ours, got, *const all[] = {&base, &theirs, &ours, &got};
	bool is_clean = !strstr(graft_there(GRAFT_NEITHER), "C"), is_due = true;

	flatten(&base, "0");
	flatten(&theirs, "10");
	flatten(&ours, "20");
	flatten(&got, is_clean ? "320" : "20");
	for (int k = 0; k < 4; k++)
		for (size_t i = 0; i < all[k]->count; i++) {
			const char *path = all[k]->items[i].path;
			const char *b = flat_find(&base, path), *t = flat_find(&theirs, path);
			const char *o = flat_find(&ours, path), *g = flat_find(&got, path);

			if (!is_text_same(b, t) && !is_text_same(b, o) && !is_text_same(t, o))
				is_due = false;
			if (is_clean)
				CHECK(is_text_same(g, is_text_same(b, t) ? o : t));
		}
	CHECK(!is_clean || is_due);
	for (int k = 0; k < 4; k++)
		free(all[k]->items);
	return is_clean;
}

TEST(random_trees_merge_as_they_should)
{
	int clean_count = 0, rounds = 120;

	rig();
	for (int i = 0; i < rounds; i++) {
		seed = (uint32_t)i * 2654435761u + 7;
		fill(layer_fd[0], 3);
		fill_few(1);
		fill_few(2);
		clean_count += check_graft();
		empty_layers();
	}
	printf("# %d of %d without a conflict\n", clean_count, rounds);
	CHECK(clean_count > rounds / 20 && clean_count < rounds);
}

/* What the kernel shows of the same layers. */
TEST(a_stack_is_what_overlayfs_shows)
{
	char options[256];
	struct stack_layer x, y[LAYERS];
	int shown;

	rig();
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("needs root: mounts an overlay");
	CHECK_EQ(mkdirat(top_fd, "all", 0755), 0);
	CHECK(chdir("/tmp") == 0 && chdir(top) == 0); /* by the mounts of this namespace */
	snprintf(options, sizeof(options), "lowerdir=3:2:1:0,userxattr");
	for (uint32_t i = 0; i < 16; i++) {
		struct stack before = {.layers = &x, .count = 1}, after;
		struct buf out;
		struct diff_job job = {
			.before = &before, .after = &after, .on_change = note, .arg = &out};
		struct err e = {0};

		fill_layers(1000 + i);
		CHECK_EQ(mount("overlay", "all", "overlay", MS_RDONLY, options), 0);
		shown = open("all", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		x.fd = shown;
		after = stack_of(y, "3210");
		buf_init(&out, 1 << 20);
		CHECK_EQ(diff_trees(&job, &e), 0);
		CHECK_STR(buf_cstr(&out), "");
		buf_done(&out);
		close(shown);
		CHECK_EQ(umount("all"), 0);
		empty_layers();
	}
	CHECK_EQ(chdir("/tmp"), 0);
}

TAP_MAIN
