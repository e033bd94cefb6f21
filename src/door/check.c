/* cove-door check, preset and groups; see check.h. */
#include "door/check.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "door/policy_form.h"
#include "door/presets.h"
#include "store/key.h"
#include "store/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct policy_check {
	const char *home, *owner, *name, *file;
};

static int parse_args(struct policy_check *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char **value = strcmp(argv[i], "--home") == 0    ? &c->home
				     : strcmp(argv[i], "--name") == 0  ? &c->name
				     : strcmp(argv[i], "--owner") == 0 ? &c->owner
								       : NULL;

		if (value && i + 1 < argc)
			*value = argv[++i];
		else if (value || c->file || (argv[i][0] == '-' && argv[i][1]))
			return -EINVAL;
		else
			c->file = argv[i];
	}
	if (c->file && strcmp(c->file, "-") == 0)
		c->file = NULL;
	if (!c->name)
		c->name = c->file ? c->file : "standard input";
	return 0;
}

/* One byte more than a policy may have, so that policy_tree_parse can say so. */
static int read_text(const struct policy_check *c, struct buf *b, struct err *e)
{
	autoclose int own = c->file ? open(c->file, O_RDONLY | O_CLOEXEC) : -1;
	int fd = c->file ? own : STDIN_FILENO;

	if (fd < 0)
		return err_errno(e, errno, "read %.100s", c->file);
	while (buf_len(b) <= DOOR_POLICY_MAX) {
		size_t room = DOOR_POLICY_MAX + 1 - buf_len(b);
		uint8_t *p = buf_reserve(b, room < 65536 ? room : 65536);
		ssize_t n;

		if (!p)
			return err_set(e, ERR_FULL, ENOMEM, "no memory");
		n = read(fd, p, room < 65536 ? room : 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, errno, "read %.100s", c->name);
		if (n == 0)
			return 0;
		buf_commit(b, (size_t)n);
	}
	return 0;
}

/* A missing secret is found here, not when a request would have needed it. Of the policy of an API
 * key's box it is one in the key's namespace (broker_process.c). */
static int check_secrets(const struct policy_check *c, const struct policy *p, struct source *src)
{
	struct secret_info info;
	const struct rule *rule;
	struct state st = {0};
	char full[KEY_NAME_SIZE];
	const char *name;
	int r = 0;

	if (!policy_secret(p, 0, &name, &rule))
		return 0;
	r = state_open(&st, c->home, false, src->err);
	for (size_t i = 0; r == 0 && policy_secret(p, i, &name, &rule); i++) {
		str_copy(full, sizeof(full), name);
		if (c->owner)
			r = key_name_in(c->owner, KEY_OF_SECRET, name, full, src->err);
		if (r == 0)
			r = secret_find(&st, full, &info, src->err);
		if (r == -ENOENT)
			r = source_error(src, rule->line,
					 "the rule '%.64s' needs the secret %s, which is not set: "
					 "cove secret set %s",
					 rule->name, name, full);
	}
	state_close(&st);
	return r;
}

int check_main(int argc, char **argv)
{
	struct err e = {0};
	struct policy_check c = {0};
	struct source src = {.err = &e};
	struct policy *p = NULL;
	struct buf b;
	int r;

	if (parse_args(&c, argc, argv) < 0) {
		fputs("usage: cove-door check [--home DIR] [--owner KEY] [--name NAME] [FILE|-]\n",
		      stderr);
		return 2;
	}
	src.name = c.name;
	buf_init(&b, DOOR_POLICY_MAX + 65536);
	r = read_text(&c, &b, &e);
	if (r == 0)
		r = policy_parse_at(&p, &src, buf_len(&b) ? (const char *)buf_data(&b) : "",
				    buf_len(&b));
	if (r == 0)
		r = check_secrets(&c, p, &src);
	if (r < 0)
		fprintf(stderr, "%s\n", e.msg);
	for (const struct rule *rule = NULL; r == 0 && (rule = policy_next_fronted(p, rule));)
		fprintf(stderr,
			"%.80s:%u: warning: '%.64s' lets TLS through by its name alone; the host "
			"that is asked for inside may be another (domain fronting). Write 'tls: "
			"intercept' there or at the top, or 'tls: pass' to have it so\n",
			c.name, rule->line, rule->name);
	policy_free(p);
	buf_done(&b);
	return r < 0;
}

int preset_main(int argc, char **argv)
{
	struct err e = {0};
	char *text = NULL;
	int r;

	if (argc != 2) {
		fputs("usage: cove-door preset NAME[,GROUP...]\n", stderr);
		return 2;
	}
	r = preset_text(argv[1], &text, &e);
	fputs(r < 0 ? e.msg : text, stdout);
	free(text);
	return fflush(stdout) != 0 ? 1 : r < 0 ? 2 : 0;
}

/* Was this host named by an earlier rule of the policy, or earlier in this one? */
static bool is_named(const struct policy *p, size_t rule, size_t at)
{
	const struct pattern *is = &p->entries[rule].patterns[at];

	for (size_t i = 0; i <= rule; i++)
		for (size_t k = 0; k < (i < rule ? p->entries[i].pattern_count : at); k++)
			if (strcmp(p->entries[i].patterns[k].text, is->text) == 0)
				return true;
	return false;
}

int groups_main(void)
{
	for (const struct preset *g = presets; g->name; g++) {
		const char *what = g->text + strlen("# ") + strlen(g->name) + strlen(": ");
		struct policy *p = NULL;
		struct err e;

		if (!g->is_group)
			continue;
		if (policy_parse(&p, g->name, g->text, strlen(g->text), &e) < 0) {
			fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		printf("%s\t%.*s\t", g->name, (int)strcspn(what, "\n"), what);
		for (size_t i = 0; i < p->entry_count; i++)
			for (size_t k = 0; k < p->entries[i].pattern_count; k++) {
				const struct pattern *h = &p->entries[i].patterns[k];

				if (!is_named(p, i, k))
					printf("%s%s%s", i || k ? " " : "",
					       h->kind == PATTERN_SUFFIX ? "*" : "", h->text);
			}
		puts("");
		policy_free(p);
	}
	return fflush(stdout) != 0;
}
