/*
 * Compiles lists of system calls into filter programs, when Cove is built.
 *
 *	make-filter box.syscalls keeper.syscalls door.syscalls expand.syscalls reader.syscalls
 *		writer.syscalls OUTPUT.c ENGINE.c
 *
 * The form of a list is described at the top of box.syscalls. A program is a search tree over
 * ranges of call numbers that share an answer, so a call is decided in eight or nine comparisons,
 * and the kernel's own table of always-allowed calls, which it fills by running the program for
 * every number when it is loaded, is filled fast. Calls with conditions have a block of their own
 * behind the tree. libseccomp is asked for the numbers of names and nothing else: its rules cannot
 * say "none of these values" about half a register.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/prctl.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define X32_BIT	    0x40000000u
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define X32_BIT	    0u
#else
#error "say here what this processor is called"
#endif

enum {
	CALLS_MAX = 1024,
	LINES_MAX = 8,
	CLAUSES_MAX = 4,
	VALUES_MAX = 16,
	OPS_MAX = 4096,
	LINE_BYTES = 1024,
	SECRET_PLACES = 8,
};

/* Offsets in struct seccomp_data, and the instructions used. */
enum { AT_NR = 0, AT_ARCH = 4, AT_ARGS = 16 };
enum { LOAD = 0x20, AND = 0x54, JUMP = 0x05, JEQ = 0x15, JGE = 0x35, JSET = 0x45, RET = 0x06 };
#define RET_ALLOW 0x7fff0000u
#define RET_KILL  0x80000000u
#define RET_ERRNO 0x00050000u

static const struct {
	const char *name;
	uint32_t value;
} names[] = {
	{"AF_UNIX", AF_UNIX},
	{"AF_INET", AF_INET},
	{"AF_INET6", AF_INET6},
	{"AF_NETLINK", AF_NETLINK},
	{"NETLINK_ROUTE", NETLINK_ROUTE},
	{"SOCK_STREAM", SOCK_STREAM},
	{"SOCK_DGRAM", SOCK_DGRAM},
	{"SOCK_SEQPACKET", SOCK_SEQPACKET},
	{"IPPROTO_ICMP", IPPROTO_ICMP},
	{"IPPROTO_TCP", IPPROTO_TCP},
	{"IPPROTO_UDP", IPPROTO_UDP},
	{"IPPROTO_ICMPV6", IPPROTO_ICMPV6},
	{"SOL_SOCKET", SOL_SOCKET},
	{"SO_ATTACH_FILTER", SO_ATTACH_FILTER},
	{"SO_ATTACH_BPF", SO_ATTACH_BPF},
	{"SO_ATTACH_REUSEPORT_CBPF", SO_ATTACH_REUSEPORT_CBPF},
	{"SO_ATTACH_REUSEPORT_EBPF", SO_ATTACH_REUSEPORT_EBPF},
	{"TCP_ULP", 31},
	{"UDP_ENCAP", 100},
	{"TIOCSTI", TIOCSTI},
	{"FICLONE", 0x40049409},
	{"FICLONERANGE", 0x4020940d},
	{"FIDEDUPERANGE", 0xc0189436},
	{"BTRFS_IOC_SNAP_DESTROY", 0x5000940f},
	{"TIOCLINUX", TIOCLINUX},
	{"TIOCSETD", TIOCSETD},
	{"FIOSETOWN", 0x8901},
	{"SIOCSPGRP", 0x8902},
	{"F_SETOWN", 8},
	{"F_SETOWN_EX", 15},
	{"POSIX_FADV_DONTNEED", POSIX_FADV_DONTNEED},
	{"MAP_HUGETLB", MAP_HUGETLB},
	{"MFD_HUGETLB", MFD_HUGETLB},
	{"SHM_HUGETLB", SHM_HUGETLB},
	{"RWF_NOWAIT", 8},
	{"RWF_DONTCACHE", 0x80},
	{"PRIO_PROCESS", PRIO_PROCESS},
	{"PRIO_PGRP", PRIO_PGRP},
	{"IOPRIO_WHO_PROCESS", 1},
	{"IOPRIO_WHO_PGRP", 2},
	{"IOPRIO_CLASS_RT", 1 << 13},
	{"CLONE_NEWTIME", 0x80},
	{"CLONE_NEWNS", CLONE_NEWNS},
	{"CLONE_NEWCGROUP", CLONE_NEWCGROUP},
	{"CLONE_NEWUTS", CLONE_NEWUTS},
	{"CLONE_NEWIPC", CLONE_NEWIPC},
	{"CLONE_NEWUSER", CLONE_NEWUSER},
	{"CLONE_NEWPID", CLONE_NEWPID},
	{"CLONE_NEWNET", CLONE_NEWNET},
	{"RLIMIT_CORE", RLIMIT_CORE},
	{"PR_SET_SECCOMP", PR_SET_SECCOMP},
	{"PR_SET_MM", PR_SET_MM},
	{"PR_SCHED_CORE", 62},
	{"PR_SET_IO_FLUSHER", 57},
	{"S_ISUID", S_ISUID},
	{"S_ISGID", S_ISGID},
	{"O_CREAT", O_CREAT},
	{"__O_TMPFILE", 020000000},
	{"PROT_EXEC", 4},
	{"FIONREAD", FIONREAD},
	{"TCGETS", TCGETS},
	{"TIOCGWINSZ", TIOCGWINSZ},
	{"PR_SET_PDEATHSIG", PR_SET_PDEATHSIG},
	{"PR_SET_DUMPABLE", PR_SET_DUMPABLE},
	{"PR_GET_DUMPABLE", PR_GET_DUMPABLE},
	{"PR_SET_NAME", PR_SET_NAME},
	{"CLONE_NEWUSER|CLONE_NEWNS", CLONE_NEWUSER | CLONE_NEWNS},
	{"EINVAL", EINVAL},
	{"ENOTTY", ENOTTY},
	{"EPERM", EPERM},
	{"ENOSYS", ENOSYS},
	{"ENOMEM", ENOMEM},
	{"EAFNOSUPPORT", EAFNOSUPPORT},
	{"EOPNOTSUPP", EOPNOTSUPP},
};

enum test { TEST_IS, TEST_IS_NOT, TEST_HAS_NO, TEST_IS_NULL, TEST_SECRET };

struct clause {
	enum test test;
	unsigned arg;
	uint32_t mask; /* 0: none */
	uint32_t values[VALUES_MAX];
	unsigned count;
};

struct list_line {
	struct clause clauses[CLAUSES_MAX];
	unsigned count;	 /* 0: always */
	uint32_t answer; /* what a call that fits is answered */
};

struct call {
	bool named, is_allowed;
	uint32_t refusal; /* errno */
	struct list_line lines[LINES_MAX];
	unsigned count;
};

/* The calls of one list; of each section that can replace others, one more. */
struct list {
	struct call calls[CALLS_MAX];
};

static const char *file_name;
static unsigned line_number;

static void die(const char *what, const char *word)
{
	fprintf(stderr, "%s:%u: %s '%s'\n", file_name, line_number, what, word);
	exit(1);
}

/* ---- reading ---- */

static uint32_t value_of(const char *word)
{
	char *end;
	unsigned long v = strtoul(word, &end, 0);

	if (end != word && !*end)
		return (uint32_t)v;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, word) == 0)
			return names[i].value;
	die("no such value", word);
	return 0;
}

static char *next_word(char **at)
{
	char *word = strsep(at, " \t");

	while (word && !*word)
		word = strsep(at, " \t");
	return word;
}

/* WHAT:N [& MASK] is [not] VALUE ... | is null | has no VALUE ... ; returns the word that ended
 * it. */
static char *read_clause(struct clause *c, char *word, char **at)
{
	char *colon = word ? strchr(word, ':') : NULL;

	if (word && strcmp(word, "secret") == 0) {
		c->test = TEST_SECRET;
		return next_word(at);
	}
	if (!colon || !isdigit((unsigned char)colon[1]) || colon[2] || colon[1] > '5')
		die("not an argument", word ? word : "");
	c->arg = (unsigned)(colon[1] - '0');
	word = next_word(at);
	if (word && strcmp(word, "&") == 0) {
		word = next_word(at);
		c->mask = value_of(word ? word : "");
		word = next_word(at);
	}
	if (!word || (strcmp(word, "is") != 0 && strcmp(word, "has") != 0))
		die("neither 'is' nor 'has no' but", word ? word : "");
	c->test = *word == 'h' ? TEST_HAS_NO : TEST_IS;
	word = next_word(at);
	if (word && strcmp(word, c->test == TEST_IS ? "not" : "no") == 0) {
		c->test = c->test == TEST_IS ? TEST_IS_NOT : TEST_HAS_NO;
		word = next_word(at);
	} else if (c->test == TEST_HAS_NO) {
		die("'has' without 'no' before", word ? word : "");
	}
	if (word && c->test == TEST_IS && strcmp(word, "null") == 0) {
		c->test = TEST_IS_NULL;
		return next_word(at);
	}
	while (word && strcmp(word, "and") != 0 && strcmp(word, "else") != 0 &&
	       strcmp(word, "then") != 0) {
		if (c->count == VALUES_MAX)
			die("too many values", word);
		c->values[c->count++] = value_of(word);
		word = next_word(at);
	}
	if (c->count == 0)
		die("no values", "");
	return word;
}

static void read_condition(struct call *c, char **at)
{
	struct list_line *line = &c->lines[c->count];
	char *word;

	if (c->count == LINES_MAX)
		die("too many lines for a call", "");
	c->count++;
	line->answer = RET_ALLOW;
	do {
		if (line->count == CLAUSES_MAX)
			die("too many conditions", "");
		word = read_clause(&line->clauses[line->count++], next_word(at), at);
	} while (word && strcmp(word, "and") == 0);
	if (word && strcmp(word, "then") == 0) {
		word = next_word(at);
		line->answer = RET_ERRNO | value_of(word ? word : "");
		word = next_word(at);
	}
	if (word) {
		word = next_word(at);
		c->refusal = value_of(word ? word : "");
	}
}

struct heading {
	struct list *list;
	bool is_allow;
	uint32_t refusal;
};

/* A name that stands twice is an error, unless every time with a condition. */
static void read_names(const struct heading *h, char *text)
{
	struct call skipped = {0};

	for (char *word; (word = next_word(&text));) {
		int nr = seccomp_syscall_resolve_name(word);
		/* A name that this processor does not have is passed over. */
		struct call *c = nr < 0 ? &skipped : &h->list->calls[nr];
		bool has_if = text && strncmp(text + strspn(text, " \t"), "if ", 3) == 0;

		if (nr == __NR_SCMP_ERROR)
			die("no such system call", word);
		if (nr >= CALLS_MAX)
			die("number too large", word);
		if (c != &skipped && c->named && (!has_if || c->count == 0))
			die("named twice", word);
		c->named = true;
		c->is_allowed = h->is_allow;
		c->refusal = c->refusal ? c->refusal : h->is_allow ? EPERM : h->refusal;
		if (has_if) {
			next_word(&text);
			read_condition(c, &text);
			return;
		}
	}
}

/* A part of a list that replaces others; the last one has no name. */
struct section {
	const char *name;
	struct list list;
};

/* "[SECTION] allow:" or "[SECTION] refuse ERRNO:" */
static bool read_heading(char *text, struct section *sections, struct list *base,
			 struct heading *ret)
{
	size_t n = strlen(text);
	char *word;

	if (n == 0 || text[n - 1] != ':')
		return false;
	text[n - 1] = 0;
	word = next_word(&text);
	ret->list = base;
	for (struct section *s = sections; word && s->name; s++)
		if (strcmp(word, s->name) == 0) {
			ret->list = &s->list;
			word = next_word(&text);
			break;
		}
	ret->is_allow = word && strcmp(word, "allow") == 0;
	if (!ret->is_allow && (!word || strcmp(word, "refuse") != 0))
		die("no such heading", word ? word : "");
	word = ret->is_allow ? NULL : next_word(&text);
	ret->refusal = ret->is_allow ? 0 : value_of(word ? word : "");
	return true;
}

static void read_list(const char *path, struct section *sections, struct list *base)
{
	struct heading h = {0};
	char text[LINE_BYTES];
	FILE *in = fopen(path, "re");

	file_name = path;
	line_number = 0;
	if (!in)
		die("cannot read", path);
	while (fgets(text, sizeof(text), in)) {
		line_number++;
		if (!strchr(text, '\n'))
			die("line too long", text);
		text[strcspn(text, "#\n")] = 0;
		if (!text[strspn(text, " \t")] || read_heading(text, sections, base, &h))
			continue;
		if (!h.list)
			die("before the first heading", text);
		read_names(&h, text);
	}
	fclose(in);
}

/* What the section says comes instead of what the list says. */
static void merge(struct list *ret, const struct list *base, const struct list *other)
{
	for (size_t i = 0; i < CALLS_MAX; i++)
		ret->calls[i] = other->calls[i].named ? other->calls[i] : base->calls[i];
}

/* ---- writing ---- */

struct op {
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

struct bpf_program {
	struct op ops[OPS_MAX];
	unsigned count, allowed;
	unsigned secret_at[SECRET_PLACES], secret_count;
};

/* A run of numbers with one answer. */
struct range {
	uint32_t first;
	int call; /* at or above 0: the block of this call */
	uint32_t answer;
	unsigned jump_at; /* the leaf that jumps to the block */
};

static unsigned emit(struct bpf_program *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->count == OPS_MAX)
		die("program too long", "");
	p->ops[p->count] = (struct op){code, jt, jf, k};
	return p->count++;
}

/* Falls through when it holds. Where it does not, a jump stands that is to be pointed at the next
 * line: its place goes into fails. */
static void emit_clause(struct bpf_program *p, const struct clause *c, unsigned *fails, unsigned *n)
{
	uint32_t bits = 0;

	if (c->test == TEST_SECRET) {
		for (unsigned i = 0; i < 4; i++) {
			if (p->secret_count == SECRET_PLACES)
				die("too many calls with the secret", "");
			emit(p, LOAD, 0, 0, AT_ARGS + 8 * 4 + 4 * i);
			p->secret_at[p->secret_count++] = emit(p, JEQ, 1, 0, 0);
			fails[(*n)++] = emit(p, JUMP, 0, 0, 0);
		}
		return;
	}
	/* A pointer whose lower half is 0 is not NULL. */
	for (unsigned half = 0; half < 2 && c->test == TEST_IS_NULL; half++) {
		emit(p, LOAD, 0, 0, AT_ARGS + 8 * c->arg + 4 * half);
		emit(p, JEQ, 1, 0, 0);
		fails[(*n)++] = emit(p, JUMP, 0, 0, 0);
	}
	if (c->test == TEST_IS_NULL)
		return;
	emit(p, LOAD, 0, 0, AT_ARGS + 8 * c->arg);
	if (c->mask)
		emit(p, AND, 0, 0, c->mask);
	for (unsigned i = 0; i < c->count; i++) {
		unsigned left = c->count - 1 - i;

		bits |= c->values[i];
		if (c->test != TEST_HAS_NO)
			emit(p, JEQ, (uint8_t)(left + 1), 0, c->values[i]);
	}
	if (c->test == TEST_HAS_NO)
		emit(p, JSET, 0, 1, bits);
	else if (c->test == TEST_IS_NOT)
		emit(p, JUMP, 0, 0, 1);
	fails[(*n)++] = emit(p, JUMP, 0, 0, 0);
}

static void emit_call(struct bpf_program *p, const struct call *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		unsigned fails[CLAUSES_MAX * 4], n = 0;

		for (unsigned j = 0; j < c->lines[i].count; j++)
			emit_clause(p, &c->lines[i].clauses[j], fails, &n);
		emit(p, RET, 0, 0, c->lines[i].answer);
		for (unsigned j = 0; j < n; j++)
			p->ops[fails[j]].k = p->count - fails[j] - 1;
	}
	emit(p, RET, 0, 0, RET_ERRNO | c->refusal);
}

/* A conditional jump reaches 255 instructions; over a larger lower half it goes in two. */
static unsigned tree_size(unsigned n)
{
	unsigned half = n / 2, lower = n == 1 ? 0 : tree_size(half);

	return n == 1 ? 1 : 1 + (lower > 255) + lower + tree_size(n - half);
}

static void emit_tree(struct bpf_program *p, struct range *r, unsigned n)
{
	unsigned half = n / 2, lower = n == 1 ? 0 : tree_size(half);

	if (n == 1) {
		if (r->call >= 0)
			r->jump_at = emit(p, JUMP, 0, 0, 0);
		else
			emit(p, RET, 0, 0, r->answer);
		return;
	}
	if (lower <= 255) {
		emit(p, JGE, (uint8_t)lower, 0, r[half].first);
	} else {
		emit(p, JGE, 0, 1, r[half].first);
		emit(p, JUMP, 0, 0, lower);
	}
	emit_tree(p, r, half);
	emit_tree(p, r + half, n - half);
}

static unsigned make_ranges(const struct list *list, struct range *ret)
{
	unsigned n = 0;

	for (unsigned i = 0; i <= CALLS_MAX; i++) {
		const struct call none = {0};
		const struct call *c = i < CALLS_MAX ? &list->calls[i] : &none;
		uint32_t answer = c->named && c->is_allowed
					  ? RET_ALLOW
					  : RET_ERRNO | (c->named ? c->refusal : ENOSYS);
		struct range r = {i, c->count ? (int)i : -1, answer, 0};

		if (n == 0 || r.call >= 0 || ret[n - 1].call >= 0 || ret[n - 1].answer != r.answer)
			ret[n++] = r;
	}
	return n;
}

static void make_program(const struct list *list, struct bpf_program *p)
{
	static struct range ranges[CALLS_MAX + 1];
	unsigned n = make_ranges(list, ranges);

	memset(p, 0, sizeof(*p));
	emit(p, LOAD, 0, 0, AT_ARCH);
	emit(p, JEQ, 1, 0, NATIVE_ARCH);
	emit(p, RET, 0, 0, RET_KILL);
	emit(p, LOAD, 0, 0, AT_NR);
	if (X32_BIT) {
		/* -1 is what a tracer makes of a call that is not to happen. */
		emit(p, JGE, 0, 3, X32_BIT);
		emit(p, JEQ, 1, 0, 0xffffffff);
		emit(p, RET, 0, 0, RET_KILL);
		emit(p, RET, 0, 0, RET_ERRNO | ENOSYS);
	}
	emit_tree(p, ranges, n);
	for (unsigned i = 0; i < n; i++) {
		if (ranges[i].call < 0)
			continue;
		p->ops[ranges[i].jump_at].k = p->count - ranges[i].jump_at - 1;
		emit_call(p, &list->calls[ranges[i].call]);
	}
	/* What only init can say is not allowed to the box. */
	for (const struct call *c = list->calls; c < list->calls + CALLS_MAX; c++)
		p->allowed += c->named && c->is_allowed &&
			      !(c->count && c->lines[0].clauses[0].test == TEST_SECRET);
}

struct named {
	const char *name;
	const struct bpf_program *program;
};

static void write_ops(FILE *out, const char *name, const struct bpf_program *p)
{
	fprintf(out, "static const struct filter_op %s[] = {\n", name);
	for (unsigned i = 0; i < p->count; i++)
		fprintf(out, "\t{0x%02x, %u, %u, 0x%08x},\n", p->ops[i].code, p->ops[i].jt,
			p->ops[i].jf, p->ops[i].k);
	fprintf(out, "};\n\n");
}

/* In the order of enum filter_kind: each section is a bit of it. Then the same behind an engine. */
static void make_boxes(const char *path, struct bpf_program boxes[8])
{
	static struct section sections[4] = {
		{.name = "shared"}, {.name = "ptrace"}, {.name = "engine"}};
	static struct list base, some;

	read_list(path, sections, &base);
	for (unsigned bits = 0; bits < 8; bits++) {
		some = base;
		for (unsigned i = 0; i < 3; i++)
			if (bits >> i & 1)
				merge(&some, &some, &sections[i].list);
		make_program(&some, &boxes[bits]);
	}
}

/* An ordinary user's and root's, each also for a build with sanitizers. */
static void make_keepers(const char *path, struct bpf_program user[2], struct bpf_program root[2])
{
	static struct section sections[3] = {{.name = "root"}, {.name = "sanitizers"}};
	static struct list base, roots, both;

	read_list(path, sections, &base);
	merge(&roots, &base, &sections[0].list);
	make_program(&base, &user[0]);
	make_program(&roots, &root[0]);
	merge(&both, &base, &sections[1].list);
	make_program(&both, &user[1]);
	merge(&both, &roots, &sections[1].list);
	make_program(&both, &root[1]);
}

/* One of our own processes, also for a build with sanitizers. */
static void make_own(const char *path, struct bpf_program own[2])
{
	struct section *sections = calloc(2, sizeof(*sections));
	struct list *base = calloc(2, sizeof(*base)), *both = base + 1;

	if (!sections || !base)
		die("no memory for", path);
	sections[0].name = "sanitizers";
	read_list(path, sections, base);
	make_program(base, &own[0]);
	merge(both, base, &sections[0].list);
	make_program(both, &own[1]);
	free(sections);
	free(base);
}

static void write_table(FILE *out, const char *head, const struct named *programs, size_t count)
{
	fprintf(out, "const struct filter_program %s = {\n", head);
	for (size_t i = 0; i < count; i++) {
		const struct bpf_program *p = programs[i].program;

		fprintf(out, "\t{%s, %u, %u, {", programs[i].name, p->count, p->allowed);
		for (unsigned k = 0; k < SECRET_PLACES; k++)
			fprintf(out, "%u, ", p->secret_at[k]);
		fprintf(out, "}},\n");
	}
	fprintf(out, "};\n");
}

static FILE *begin(const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		die("cannot write", path);
	fprintf(out, "/* Made by make-filter from the lists of system calls. */\n"
		     "#include \"filter/filter.h\"\n\n");
	return out;
}

/* What init loads by itself: alone in a file, since it is linked into init. */
static bool write_engine(const char *path, const struct bpf_program boxes[4])
{
	const struct named programs[] = {
		{"box", &boxes[0]},
		{"shared", &boxes[1]},
		{"ptrace", &boxes[2]},
		{"shared_ptrace", &boxes[3]},
	};
	FILE *out = begin(path);

	for (size_t i = 0; i < 4; i++)
		write_ops(out, programs[i].name, programs[i].program);
	write_table(out, "filter_engine[FILTER_ENGINE_COUNT]", programs, 4);
	return !ferror(out) & (fclose(out) == 0);
}

int main(int argc, char **argv)
{
	static struct bpf_program boxes[8], user[2], root[2], door[2], expand[2], reader[2],
		writer[2];
	/* In the order of enum filter_kind; then again those of our own processes. */
	static const struct named programs[] = {
		{"box", &boxes[0]},
		{"shared", &boxes[1]},
		{"ptrace", &boxes[2]},
		{"shared_ptrace", &boxes[3]},
		{"keeper", &user[0]},
		{"keeper_root", &root[0]},
		{"door", &door[0]},
		{"expand", &expand[0]},
		{"reader", &reader[0]},
		{"writer", &writer[0]},
		{"sanitized", &user[1]},
		{"sanitized_root", &root[1]},
		{"sanitized_door", &door[1]},
		{"sanitized_expand", &expand[1]},
		{"sanitized_reader", &reader[1]},
		{"sanitized_writer", &writer[1]},
	};
	enum { COUNT = sizeof(programs) / sizeof(programs[0]), OWN = 6 };
	FILE *out;

	if (argc != 9) {
		fprintf(stderr,
			"usage: make-filter BOX KEEPER DOOR EXPAND READER WRITER OUTPUT ENGINE\n");
		return 2;
	}
	make_boxes(argv[1], boxes);
	make_keepers(argv[2], user, root);
	make_own(argv[3], door);
	make_own(argv[4], expand);
	make_own(argv[5], reader);
	make_own(argv[6], writer);
	out = begin(argv[7]);
	for (size_t i = 0; i < COUNT; i++)
		write_ops(out, programs[i].name, programs[i].program);
	write_table(out, "filter_programs[FILTER_KIND_COUNT]", programs, COUNT - OWN);
	write_table(out, "filter_sanitized[FILTER_KIND_COUNT - FILTER_KEEPER]",
		    programs + COUNT - OWN, OWN);
	return ferror(out) || fclose(out) != 0 || !write_engine(argv[8], boxes + 4);
}
