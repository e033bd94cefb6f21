/*
 * What a box's policy lacks for what was denied: its text, with the rules at the end of `rules`
 * that would have let it pass, and nothing more. `cove policy suggest` prints it.
 *
 *	audit rows --add--> an item for each that differs --judge--> rule | remark | allowed
 *	items, policy --write--> text --judged again--> what no rule helps is a remark
 *
 * A rule names one host, the ports that were asked for, and methods and paths where the policy
 * looks at those. What no rule should or can let pass (a metadata service, a budget, a deny, what
 * was smuggled) is a remark: a comment at the top. Every text of a box is checked before it becomes
 * part of a rule, and escaped before it becomes part of a comment.
 */
#pragma once

#include "base/buf.h"
#include "door/arena.h"
#include "store/audit.h"
#include "store/denial.h"

struct policy;

enum { SUGGEST_ITEMS_MAX = 512 };

enum suggest_fate { SUGGEST_RULE, SUGGEST_REMARK, SUGGEST_ALLOWED };

struct suggest_item {
	enum denial why;
	const char *host, *method, *path, *rule; /* NULL: not known; in the arena */
	uint64_t port;				 /* 0: a name was looked up */
	uint64_t count;
	enum suggest_fate fate;
	const char *remark; /* why no rule helps; NULL: what denial.h says of it */
	bool private;
	bool is_written;
};

struct suggest {
	struct arena arena;
	struct suggest_item *items; /* SUGGEST_ITEMS_MAX of them; in the arena */
	size_t count;
	uint64_t denied; /* in all; `more` of them found no room */
	uint64_t more;
	uint64_t rules, remarks; /* that the text has */
};

void suggest_init(struct suggest *s);
void suggest_done(struct suggest *s);
/* Rows that deny nothing are passed over. -ENOMEM. */
int suggest_add(struct suggest *s, const struct audit_row *row);
/* The text is all that is then in out. policy is a whole one. */
int suggest_make(struct suggest *s, const char *box, const char *policy, size_t len,
		 struct buf *out, struct err *e);

/* suggest BOX: standard input is packed rows, one a line, an empty line, and the policy. Prints a
 * line "DENIED RULES REMARKS" with numbers, and the text. Exit 1 and a sentence on standard output
 * where it cannot. */
int suggest_main(const char *box);

/* ---- suggest_text.c ---- */

/* Appends the policy's text with the items that are to be rules, and sets what is counted. */
int suggest_write(struct suggest *s, const char *box, const char *policy, size_t len,
		  struct buf *out, struct err *e);
