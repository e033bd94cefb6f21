/*
 * The network of a box that is being made, and of one that is opened again.
 *
 * What a caller asks for is decided before anything is made: a policy file is read and checked,
 * inline rules are checked. A preset without inline rules needs neither a file nor another program,
 * which is the common case and stays as fast as no network at all. A box that is closed has no way
 * to a door, so one with inline rules beside `closed` has that preset's text as a file of its own.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/door.h"
#include "store/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_items(const char *const *list)
{
	return list && list[0];
}

static size_t count_items(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Each costs a process to check, so too many are refused before the first. */
static int check_patterns(struct cove *cove, const struct cove_box_options *o, struct err *e)
{
	int r = 0;

	if (count_items(o->allow) + count_items(o->deny) > DOOR_GRANTS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "more than %u inline rules: write a policy file instead",
			       DOOR_GRANTS_MAX);
	for (const char *const *at = o->allow; at && *at && r == 0; at++)
		r = net_check_pattern(cove, true, *at, e);
	for (const char *const *at = o->deny; at && *at && r == 0; at++)
		r = net_check_pattern(cove, false, *at, e);
	return r;
}

int network_choose(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
		   struct err *e)
{
	bool has_rules = has_items(o->allow) || has_items(o->deny);
	struct net_choice choice;
	int r;

	if (s->net[0])
		return 0;
	r = net_choose(cove, o->net, s->spec.owner, &choice, e);
	if (r < 0)
		return r;
	if (has_rules && net_is_closed(choice.policy)) {
		r = net_preset_text(cove, "closed", &choice.text, e);
		choice.len = r == 0 ? strlen(choice.text) : 0;
		str_copy(choice.policy, sizeof(choice.policy), "file");
	}
	if (r == 0 && !net_is_closed(choice.policy))
		r = spawn_find_door(cove, e);
	if (r == 0)
		r = check_patterns(cove, o, e);
	if (r == 0) {
		str_copy(s->net, sizeof(s->net), choice.policy);
		s->spec.net = s->net;
		s->allow = o->allow;
		s->deny = o->deny;
		s->policy_len = choice.len;
		s->policy = take_ptr(choice.text);
	}
	net_choice_done(&choice);
	return r;
}

static int add_grants(struct cove *cove, int box_fd, bool allow, const char *const *list,
		      struct err *e)
{
	uint64_t now = clock_wall_ms();
	int r = 0;

	for (; list && *list && r == 0; list++)
		r = net_grant_add(&cove->state, box_fd,
				  &(struct net_grant){.allow = allow, .pattern = *list}, now, e);
	return r;
}

int network_write(struct cove *cove, const struct core_spec *s, int box_fd, struct err *e)
{
	int r = 0;

	if (s->policy) {
		r = fd_write_file(box_fd, NET_POLICY_FILE, s->policy, s->policy_len, 0600,
				  !s->spec.one_shot);
		if (r < 0)
			return state_error(&cove->state, -r, "keep the policy", e);
	}
	r = add_grants(cove, box_fd, true, s->allow, e);
	/* One host both allowed and denied is denied. */
	return r < 0 ? r : add_grants(cove, box_fd, false, s->deny, e);
}

/* ---- a box that is there already ---- */

int network_check(struct cove *cove, const struct spec *box, int box_fd, struct err *e)
{
	const char *name = box->name;
	struct net_choice choice;
	char path[BOX_PATH_MAX];
	int r;

	if (faccessat(box_fd, NET_POLICY_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "find the policy of '%s'", name);
	snprintf(path, sizeof(path), "%s/boxes/%s/" NET_POLICY_FILE, cove->state.home, name);
	r = net_choose(cove, path, box->owner, &choice, e);
	if (r == 0)
		net_choice_done(&choice);
	return r;
}

/* Is what it has the policy that was asked for? Negative errno. */
static int is_policy(struct cove *cove, const struct spec *have, int box_fd, const char *net,
		     bool *ret, struct err *e)
{
	const char *made_with = net_is_closed(have->net) ? "closed" : have->net;
	autofree char *text = NULL;
	struct net_choice choice;
	size_t len = 0;
	int r = net_choose(cove, net, have->owner, &choice, e);

	if (r < 0)
		return r;
	r = fd_read_file(box_fd, NET_POLICY_FILE, DOOR_POLICY_MAX, &text, &len);
	if (r == -ENOENT && !choice.text && strcmp(choice.policy, made_with) == 0) {
		*ret = true;
		return 0;
	}
	/* The same groups in another order are the same policy. */
	if (r == -ENOENT) {
		r = net_preset_text(cove, made_with, &text, e);
		len = r == 0 ? strlen(text) : 0;
	} else if (r < 0) {
		err_errno(e, -r, "read the policy of box '%s'", have->name);
	}
	if (r == 0 && !choice.text) {
		r = net_preset_text(cove, choice.policy, &choice.text, e);
		choice.len = r == 0 ? strlen(choice.text) : 0;
	}
	*ret = r == 0 && len == choice.len && memcmp(text, choice.text, len) == 0;
	net_choice_done(&choice);
	return r;
}

/* A line "allow|deny UNTIL_MS PATTERN" that holds for ever. */
static bool has_grant(const char *grants, const char *verb, const char *pattern)
{
	char line[DNS_NAME_MAX + 64];
	size_t len = (size_t)snprintf(line, sizeof(line), "%s 0 %s\n", verb, pattern);
	const char *at = grants;

	while (at && len < sizeof(line) && (at = strstr(at, line)) != NULL) {
		if (at == grants || at[-1] == '\n')
			return true;
		at++;
	}
	return false;
}

static int grants_agree(const struct spec *have, const char *grants, const char *verb,
			const char *const *list, struct err *e)
{
	for (; list && *list; list++)
		if (!has_grant(grants, verb, *list))
			return err_set(e, ERR_CONFLICT, EBUSY,
				       "box '%s' was opened without --%s %.60s; leave it out, or "
				       "say it now: cove %s %s %.60s",
				       have->name, verb, *list, verb, have->name, *list);
	return 0;
}

int network_agrees(struct cove *cove, const struct spec *have, const struct cove_box_options *o,
		   struct err *e)
{
	autofree char *grants = NULL;
	autoclose int box_fd = -1;
	bool same = true;
	int r;

	if (!o->net && !has_items(o->allow) && !has_items(o->deny))
		return 0;
	r = box_open_dir(cove, have->name, &box_fd, e);
	if (r == 0 && o->net)
		r = is_policy(cove, have, box_fd, o->net, &same, e);
	if (r < 0)
		return r;
	if (!same && net_is_closed(have->net))
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' was opened with --net closed, not %.60s; leave it out, or "
			       "remove the box first (cove close --delete)",
			       have->name, o->net);
	if (!same)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' has another policy than --net %.60s; leave it out, or "
			       "change it: cove policy apply %s %.60s",
			       have->name, o->net, have->name, o->net);
	r = fd_read_file(box_fd, NET_GRANTS_FILE, DOOR_POLICY_MAX, &grants, NULL);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "read the grants of box '%s'", have->name);
	r = grants_agree(have, grants, "allow", o->allow, e);
	return r < 0 ? r : grants_agree(have, grants, "deny", o->deny, e);
}
