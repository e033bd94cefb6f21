/*
 * Policies as a caller names them: read, checked and chosen.
 *
 * Only cove-door reads policies, so it is also who checks one: `cove-door check` with the text in a
 * memory file. A policy of an API key's box is checked with that key's secrets (store/key.h).
 */
#include "core/door.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the text that is made of a pattern is called, for the reader's messages. */
#define PATTERN_NAME "HOST[:PORT]"

enum { ANSWER_MAX = DOOR_POLICY_MAX + 1 };

/* ---- the program ---- */

int net_run_door(struct cove *cove, char *const argv[], int input, int stream, char **ret,
		 int *ret_status, struct err *e)
{
	autofree char *text = calloc(1, ANSWER_MAX + 1);
	int out[2], fds[3] = {input, -1, -1}, r = spawn_find_door(cove, e);
	pid_t pid;
	ssize_t n;

	if (r < 0)
		return r;
	if (!text || pipe2(out, O_CLOEXEC) < 0)
		return err_errno(e, text ? errno : ENOMEM, "run cove-door");
	fds[stream] = out[1];
	r = child_start(cove->door_path, argv, fds, &pid);
	close(out[1]);
	if (r < 0) {
		close(out[0]);
		return err_errno(e, -r, "run '%s'", cove->door_path);
	}
	n = fd_read_full(out[0], text, ANSWER_MAX);
	close(out[0]);
	*ret_status = child_wait(pid);
	if (*ret_status < 0)
		return err_errno(e, -*ret_status, "wait for cove-door");
	if (n < 0)
		return err_errno(e, (int)-n, "hear cove-door");
	text[n] = 0;
	*ret = take_ptr(text);
	return 0;
}

/* A text that is to be checked. */
struct policy_text {
	const char *name;  /* for messages */
	const char *owner; /* of the box that it is for; NULL: the operator */
	const char *text;
	size_t len;
};

static int check_warned(struct cove *cove, const struct policy_text *t, cove_on_warning *on_warning,
			void *arg, struct err *e)
{
	const char *name = t->name;
	char *argv[] = {(char *)"cove-door",
			(char *)"check",
			(char *)"--home",
			cove->state.home,
			(char *)"--name",
			(char *)(uintptr_t)name,
			(char *)"-",
			t->owner ? (char *)"--owner" : NULL,
			(char *)(uintptr_t)t->owner,
			NULL};
	autofree char *said = NULL;
	autoclose int input = -1;
	int status = 0, r;

	if (t->len == 0)
		return err_set(e, ERR_INVALID, EINVAL, "%.100s: the policy is empty", name);
	if (t->len > DOOR_POLICY_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "%.100s: a policy has at most %u bytes", name,
			       DOOR_POLICY_MAX);
	r = fd_seal("policy", t->text, t->len, &input);
	if (r < 0)
		return err_errno(e, -r, "check a policy");
	lseek(input, 0, SEEK_SET);
	r = net_run_door(cove, argv, input, 2, &said, &status, e);
	if (r < 0)
		return r;
	for (char *line = said, *end; status == 0 && on_warning && *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		on_warning(arg, line);
	}
	if (status == 0)
		return 0;
	said[strcspn(said, "\n")] = 0;
	return err_set(e, ERR_INVALID, EINVAL, "%.220s",
		       said[0] ? said : "cove-door ended without a word: install Cove again");
}

static int check_text(struct cove *cove, const struct policy_text *t, struct err *e)
{
	return check_warned(cove, t, NULL, NULL, e);
}

int net_preset_text(struct cove *cove, const char *preset, char **ret, struct err *e)
{
	char *argv[] = {(char *)"cove-door", (char *)"preset", (char *)(uintptr_t)preset, NULL};
	int status = 0, r = net_run_door(cove, argv, -1, 1, ret, &status, e);

	if (r < 0 || status == 0)
		return r;
	(*ret)[strcspn(*ret, "\n")] = 0;
	r = err_set(e, ERR_INVALID, EINVAL, "%.220s",
		    (*ret)[0] ? *ret : "cove-door ended without a word: install Cove again");
	free(take_ptr(*ret));
	return r;
}

/* The reader's word on the rule that was made of a pattern, without the place in that text. */
static int bad_pattern(const char *pattern, int r, struct err *e)
{
	static const char place[] = PATTERN_NAME ":1: ";
	char said[sizeof(e->msg)];

	if (!e || e->kind != ERR_INVALID)
		return r;
	str_copy(said, sizeof(said), e->msg);
	return err_set(e, ERR_INVALID, EINVAL, "'%.60s': %s%s", pattern,
		       said + (str_starts(said, place) ? strlen(place) : 0),
		       strstr(said, "private") ? " to it in a policy file" : "");
}

int net_check_pattern(struct cove *cove, bool allow, const char *pattern, struct err *e)
{
	const char *colon = strrchr(pattern, ':'), *bracket = strrchr(pattern, ']');
	bool has_port = colon && (bracket ? colon > bracket : colon == strchr(pattern, ':'));
	size_t host_len = has_port ? (size_t)(colon - pattern) : strlen(pattern);
	uint64_t port;
	struct buf text;
	struct json j;
	int r;

	if (strstr(pattern, "://"))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s' is a URL: a host is wanted, HOST or HOST:PORT", pattern);
	if (has_port && (!str_parse_u64(colon + 1, 65535, &port) || port == 0))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s': a port is 1 to 65535", pattern);
	buf_init(&text, 8192);
	json_init(&j, &text);
	json_object_begin(&j);
	json_kv_u64(&j, "version", 1);
	json_key(&j, "rules");
	json_array_begin(&j);
	json_object_begin(&j);
	json_key(&j, allow ? "allow" : "deny");
	if (bracket && pattern[0] == '[')
		json_strn(&j, pattern + 1, (size_t)(bracket - pattern) - 1);
	else
		json_strn(&j, pattern, host_len);
	if (has_port) {
		json_key(&j, "ports");
		json_str(&j, colon + 1);
	}
	json_object_end(&j);
	json_array_end(&j);
	json_object_end(&j);
	r = j.error ? err_set(e, ERR_INVALID, EINVAL, "'%.80s' is too long", pattern)
		    : check_text(cove,
				 &(struct policy_text){.name = PATTERN_NAME,
						       .text = (const char *)buf_data(&text),
						       .len = buf_len(&text)},
				 e);
	if (r < 0)
		r = bad_pattern(pattern, r, e);
	buf_done(&text);
	return r;
}

/* ---- what a box has ---- */

/* "-" is stdin, where that is allowed. The text is owned. */
static int read_policy_file(const char *path, bool may_be_stdin, char **ret, size_t *ret_len,
			    struct err *e)
{
	bool is_stdin = may_be_stdin && strcmp(path, "-") == 0;
	autoclose int fd =
		is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	autofree char *text = NULL;
	ssize_t n;

	if (fd < 0)
		return err_errno(e, errno, "open the policy '%.120s'", path);
	text = calloc(1, DOOR_POLICY_MAX + 2);
	n = text ? fd_read_full(fd, text, DOOR_POLICY_MAX + 1) : -ENOMEM;
	if (n < 0)
		return err_errno(e, (int)-n, "read the policy '%.120s'", path);
	*ret_len = (size_t)n;
	*ret = take_ptr(text);
	return 0;
}

/* Is there all that it names? */
static int check_list(struct cove *cove, const char *net, struct err *e)
{
	autofree char *text = NULL;

	return net_preset_text(cove, net, &text, e);
}

/* Of a choice that has one. */
static int check_choice(struct cove *cove, const char *name, const char *owner,
			const struct net_choice *c, struct err *e)
{
	return check_text(cove, &(struct policy_text){name, owner, c->text, c->len}, e);
}

int net_choose(struct cove *cove, const char *net, const char *owner, struct net_choice *ret,
	       struct err *e)
{
	int r = 0;

	*ret = (struct net_choice){0};
	if (!net) {
		r = net_default(&cove->state, ret->policy, e);
		if (r == 0 && strcmp(ret->policy, "file") == 0)
			r = net_default_text(&cove->state, &ret->text, &ret->len, e);
		/* A secret that it names may be gone since. */
		if (r == 0 && ret->text)
			r = check_choice(cove, "the default policy", owner, ret, e);
	} else if (net_is_preset(net)) {
		str_copy(ret->policy, sizeof(ret->policy),
			 strcmp(net, "none") == 0 ? "closed" : net);
		r = strchr(net, ',') ? check_list(cove, net, e) : 0;
	} else if (net_names_file(net)) {
		r = read_policy_file(net, false, &ret->text, &ret->len, e);
		str_copy(ret->policy, sizeof(ret->policy), "file");
		if (r == 0)
			r = check_choice(cove, net, owner, ret, e);
	} else if (strchr(net, ',')) {
		r = check_list(cove, net, e);
		if (r == 0)
			r = err_set(e, ERR_LIMIT, E2BIG,
				    "a list of groups has at most %u bytes: write a policy file "
				    "with 'use: [...]'",
				    NET_NAME_MAX - 1);
	} else if (check_list(cove, net, NULL) == 0) {
		r = err_set(e, ERR_INVALID, EINVAL,
			    "'%s' is a group, to go with a preset: balanced,%s, or closed,%s for "
			    "nothing else",
			    net, net, net);
	} else {
		r = err_set(e, ERR_INVALID, EINVAL,
			    "there is no policy '%.60s': closed, balanced, open, one of these and "
			    "groups (balanced,huggingface), or a file (./%.60s)",
			    net, net);
	}
	if (r < 0)
		net_choice_done(ret);
	return r;
}

void net_choice_done(struct net_choice *c)
{
	free(take_ptr(c->text));
	c->len = 0;
}

/* ---- the public face ---- */

int cove_policy_check(struct cove *cove, const char *name, const char *text, size_t len,
		      struct cove_error *err)
{
	return cove_policy_check_of(cove, NULL, name, text, len, err);
}

int cove_policy_check_of(struct cove *cove, const char *owner, const char *name, const char *text,
			 size_t len, struct cove_error *err)
{
	struct err e = {0};
	int r = check_text(cove, &(struct policy_text){name, owner, text, len}, &e);

	return core_return(cove, NULL, r, &e, err);
}

int cove_policy_check_file(struct cove *cove, const char *path, cove_on_warning *on_warning,
			   void *arg, struct cove_error *err)
{
	autofree char *text = NULL;
	struct err e = {0};
	size_t len = 0;
	int r = read_policy_file(path, true, &text, &len, &e);

	if (r == 0)
		r = check_warned(
			cove,
			&(struct policy_text){.name = strcmp(path, "-") == 0 ? "stdin" : path,
					      .text = text,
					      .len = len},
			on_warning, arg, &e);
	return core_return(cove, NULL, r, &e, err);
}

bool cove_policy_is_preset(const char *name)
{
	return net_is_preset(name);
}
