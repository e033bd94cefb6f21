/*
 * What is kept of a box's network; see net.h.
 *
 * How it works: a premade authority is taken by renaming it, so two keepers that want the same one
 * are kept apart by the kernel: the second finds it gone and takes the next. One that is no
 * authority is deleted and passed over. The grants are read, changed and written whole under a
 * lock of their own file, so that two callers at once lose nothing; the broker of a door reads
 * them without it, since a rename never shows a part.
 */
#include "store/net.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/sha.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define DOOR_DIR	  "door"
#define DEFAULT_FILE	  "default"
#define DEFAULT_TEXT_FILE "default.policy"
#define GRANTS_LOCK_FILE  "grants.lock"

enum {
	CA_BYTES_MAX = 16 << 10,
	HALF_MADE_S = 60, /* no writer takes so long */
	GRANT_LINE_MAX = DNS_NAME_MAX + 64,
	GRANTS_BYTES_MAX = DOOR_GRANTS_MAX * GRANT_LINE_MAX,
	SHA256_HEX = 64,
};

/* Groups after a comma each. */
static bool are_groups(const char *text)
{
	while (*text == ',') {
		size_t n = strspn(++text, "abcdefghijklmnopqrstuvwxyz0123456789-");

		if (n == 0)
			return false;
		text += n;
	}
	return !*text;
}

bool net_is_preset(const char *name)
{
	static const char *const presets[] = {"closed", "none", "balanced", "open"};

	if (!name || strlen(name) >= NET_NAME_MAX)
		return false;
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (str_starts(name, presets[i]) && are_groups(name + strlen(presets[i])))
			return true;
	return false;
}

bool net_names_file(const char *name)
{
	return !net_is_preset(name) && strpbrk(name, "/.");
}

bool net_is_closed(const char *policy)
{
	return !policy || strcmp(policy, "closed") == 0 || strcmp(policy, "none") == 0;
}

/* ---- the machine's default ---- */

int net_default(struct state *st, char ret[NET_NAME_MAX], struct err *e)
{
	autoclose int dir = st->home_fd < 0 ? -ENOENT : fd_open_below(st->home_fd, DOOR_DIR, false);
	autofree char *text = NULL;
	size_t len = 0;
	int r = dir < 0 ? dir : fd_read_file(dir, DEFAULT_FILE, NET_NAME_MAX, &text, &len);

	if (r == -ENOENT) {
		str_copy(ret, NET_NAME_MAX, "balanced");
		return 0;
	}
	if (r < 0 && r != -EFBIG)
		return err_errno(e, -r, "read the default policy's name");
	if (r == 0 && len > 0 && text[len - 1] == '\n')
		text[--len] = 0;
	if (r < 0 || strlen(text) != len || (!net_is_preset(text) && strcmp(text, "file") != 0))
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the default policy is damaged; set it again: cove policy "
			       "set-default balanced");
	str_copy(ret, NET_NAME_MAX, text);
	return 0;
}

int net_set_default(struct state *st, const char *preset, const char *text, size_t len,
		    struct err *e)
{
	bool is_file = preset && strcmp(preset, "file") == 0;
	autoclose int dir = -1;
	char line[NET_NAME_MAX + 1];
	int n, r;

	if (!is_file && !net_is_preset(preset))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.80s' is no policy: closed, balanced, open or a file",
			       preset ? preset : "");
	if (is_file && (!text || len == 0 || len > DOOR_POLICY_MAX))
		return err_set(e, ERR_INVALID, EINVAL, "a policy has 1 byte to %u KiB",
			       DOOR_POLICY_MAX >> 10);
	dir = fd_open_below(st->home_fd, DOOR_DIR, true);
	r = dir < 0 ? dir : 0;
	/* The text first: a name that says "file" always has one. */
	if (r == 0 && is_file)
		r = fd_write_file(dir, DEFAULT_TEXT_FILE, text, len, 0600, true);
	n = snprintf(line, sizeof(line), "%s\n", preset);
	if (r == 0)
		r = fd_write_file(dir, DEFAULT_FILE, line, (size_t)n, 0600, true);
	return r < 0 ? state_error(st, -r, "keep the default policy", e) : 0;
}

int net_default_text(struct state *st, char **ret, size_t *ret_len, struct err *e)
{
	autoclose int dir = st->home_fd < 0 ? -ENOENT : fd_open_below(st->home_fd, DOOR_DIR, false);
	int r = dir < 0 ? dir : fd_read_file(dir, DEFAULT_TEXT_FILE, DOOR_POLICY_MAX, ret, ret_len);

	return r < 0 ? err_errno(e, -r, "read the default policy") : 0;
}

/* As the language of policies (YAML) has them: from a '#' at a line's beginning or behind a blank,
 * where it stands in no quotes. */
void net_drop_comments(char *text)
{
	char *to = text, quote = 0, before = '\n';

	for (const char *p = text; *p; before = *p++) {
		if (quote == '"' && *p == '\\' && p[1]) {
			*to++ = *p++;
		} else if (quote) {
			quote = *p == quote ? 0 : quote;
		} else if (*p == '#' && strchr(" \t\n", before)) {
			p += strcspn(p, "\n");
			while (to > text && (to[-1] == ' ' || to[-1] == '\t'))
				to--;
			if (!*p)
				break;
		} else if ((*p == '"' || *p == '\'') &&
			   /* A quote in quotes is written twice. */
			   (strchr(" \t\n[{,:-", before) || (*p == '\'' && before == '\''))) {
			quote = *p;
		}
		*to++ = *p;
	}
	*to = 0;
}

/* ---- authorities ---- */

int net_ca_dir(struct state *st, bool make, struct err *e)
{
	autoclose int dir = fd_open_below(st->home_fd, DOOR_DIR, make);
	int fd = dir < 0 ? dir : fd_open_below(dir, "ca", make);

	return fd < 0 ? err_errno(e, -fd, "open the certificate authorities in '%.100s/%s/ca'",
				  st->home, DOOR_DIR)
		      : fd;
}

/* The certificate out of a text that has the key too; NULL if there is none. */
static char *cut_certificate(const char *pem)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n";
	static const char end[] = "-----END CERTIFICATE-----\n";
	const char *from = strstr(pem, begin);
	const char *to = from ? strstr(from, end) : NULL;

	if (!to || !strstr(pem, "PRIVATE KEY-----"))
		return NULL;
	return strndup(from, (size_t)(to - from) + strlen(end));
}

static bool is_premade(const char *name)
{
	size_t n = strlen(name);

	return name[0] != '.' && n > 4 && n < NET_CA_NAME_MAX - BOX_NAME_MAX - 1 &&
	       strcmp(name + n - 4, ".pem") == 0;
}

/* 1 if it is taken, 0 if another was quicker or it is no authority. */
static int take_premade(int ca_fd, const char *name, int used_fd, const char *used, char **ret_cert)
{
	autofree char *pem = NULL;
	size_t len = 0;
	int r;

	if (renameat(ca_fd, name, used_fd, used) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = fd_read_plain(used_fd, used, CA_BYTES_MAX, &pem, &len);
	*ret_cert = r == 0 && strlen(pem) == len ? cut_certificate(pem) : NULL;
	if (pem)
		explicit_bzero(pem, len);
	if (*ret_cert)
		return 1;
	if (r == 0 || r == -EFBIG || r == -ELOOP || r == -EISDIR)
		r = unlinkat(used_fd, used, 0) < 0 ? -errno : 0;
	return r;
}

/* Looks at the names of one call of getdents(2) after the other: the first will usually do, and
 * there may be many. */
static int take_any(int ca_fd, int used_fd, const char *box, char *ret_name, char **ret_cert)
{
	_Alignas(struct fd_dirent) char names[1024];
	long n;

	while ((n = syscall(SYS_getdents64, ca_fd, names, sizeof(names))) > 0) {
		for (long at = 0; at < n;) {
			struct fd_dirent *d = (struct fd_dirent *)(void *)(names + at);
			int r;

			at += d->reclen;
			if (!is_premade(d->name))
				continue;
			snprintf(ret_name, NET_CA_NAME_MAX, "%.*s.%s", BOX_NAME_MAX, box, d->name);
			r = take_premade(ca_fd, d->name, used_fd, ret_name, ret_cert);
			if (r != 0)
				return r < 0 ? r : 0;
		}
	}
	return n < 0 ? -errno : -ENOENT;
}

int net_ca_take(struct state *st, const char *box, char ret_name[NET_CA_NAME_MAX],
		char **ret_cert_pem, struct err *e)
{
	autoclose int ca_fd = net_ca_dir(st, false, e);
	autoclose int used_fd = -1;
	int r;

	if (ca_fd < 0)
		return ca_fd;
	used_fd = fd_open_below(st->home_fd, NET_USED_DIR, true);
	r = used_fd < 0 ? used_fd : take_any(ca_fd, used_fd, box, ret_name, ret_cert_pem);
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no certificate authority left");
	return r < 0 ? state_error(st, -r, "take a certificate authority", e) : 0;
}

static bool used_path(char path[BOX_PATH_MAX], const char *home, const char *name)
{
	return snprintf(path, BOX_PATH_MAX, "%s/" NET_USED_DIR "/%s", home, name) <
	       (int)BOX_PATH_MAX;
}

int net_ca_pass(const char *home, const char *box, char ret_name[NET_CA_NAME_MAX])
{
	char from[BOX_PATH_MAX], to[BOX_PATH_MAX], name[NET_CA_NAME_MAX];
	const char *dot = strchr(ret_name, '.');

	if (!dot || snprintf(name, sizeof(name), "%s%s", box, dot) >= (int)sizeof(name) ||
	    !used_path(from, home, ret_name) || !used_path(to, home, name))
		return -ENAMETOOLONG;
	if (rename(from, to) < 0)
		return -errno;
	memcpy(ret_name, name, sizeof(name));
	return 0;
}

void net_ca_return(const char *home, const char *name)
{
	char from[BOX_PATH_MAX], to[BOX_PATH_MAX], hex[33];

	rand_hex(hex, 16);
	/* A key that cannot be kept is one less to keep. */
	if (!used_path(from, home, name) ||
	    snprintf(to, sizeof(to), "%s/" DOOR_DIR "/ca/%s.pem", home, hex) >= (int)sizeof(to) ||
	    rename(from, to) < 0)
		net_ca_drop(home, name);
}

void net_ca_drop(const char *home, const char *name)
{
	char path[BOX_PATH_MAX];

	/* What is not there need not go; and where it cannot, it is swept up later. */
	if (used_path(path, home, name))
		(void)unlink(path);
}

/* What a maker that was killed left: it has a key, and its maker will not come back. */
static void sweep_half_made(struct state *st)
{
	autoclose int ca_fd = fd_open_below(st->home_fd, DOOR_DIR "/ca", false);
	_Alignas(struct fd_dirent) char names[1024];
	long n;

	while (ca_fd >= 0 && (n = syscall(SYS_getdents64, ca_fd, names, sizeof(names))) > 0) {
		for (long at = 0; at < n;) {
			struct fd_dirent *d = (struct fd_dirent *)(void *)(names + at);
			struct stat s;

			at += d->reclen;
			if (d->name[0] == '.' && d->name[1] && strcmp(d->name, "..") != 0 &&
			    fstatat(ca_fd, d->name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
			    S_ISREG(s.st_mode) && time(NULL) > s.st_mtim.tv_sec + HALF_MADE_S)
				(void)unlinkat(ca_fd, d->name, 0);
		}
	}
}

void net_ca_sweep(struct state *st, bool (*is_needed)(void *arg, const char *box), void *arg)
{
	autoclose int used_fd = fd_open_below(st->home_fd, NET_USED_DIR, false);
	_Alignas(struct fd_dirent) char names[1024];
	bool found = false;
	long n;

	while (used_fd >= 0 && (n = syscall(SYS_getdents64, used_fd, names, sizeof(names))) > 0) {
		for (long at = 0; at < n;) {
			struct fd_dirent *d = (struct fd_dirent *)(void *)(names + at);
			char box[BOX_NAME_MAX + 1];
			size_t len = strcspn(d->name, ".");

			at += d->reclen;
			if (len == 0 || len > BOX_NAME_MAX)
				continue;
			memcpy(box, d->name, len);
			box[len] = 0;
			if (is_needed(arg, box))
				continue;
			(void)unlinkat(used_fd, d->name, 0);
			found = true;
		}
	}
	/* Something was killed, and perhaps not it alone. */
	if (found)
		sweep_half_made(st);
}

int net_ca_names(struct state *st, const char *box, char ***ret_names, size_t *ret_count)
{
	autoclose int used_fd = fd_open_below(st->home_fd, NET_USED_DIR, false);
	size_t count = 0, kept = 0, len = strlen(box);
	char **names = NULL;
	int r = used_fd < 0 ? used_fd : state_all_names(used_fd, &names, &count);

	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t i = 0; i < count; i++)
		if (strncmp(names[i], box, len) == 0 && names[i][len] == '.')
			names[kept++] = names[i];
		else
			free(names[i]);
	*ret_names = names;
	*ret_count = kept;
	return 0;
}

/* ---- a box's own policy ---- */

int net_policy_write(struct state *st, int box_fd, const char *name, const char *text, size_t len,
		     struct err *e)
{
	char line[SHA256_HEX + NET_NAME_MAX + 2];
	int n, r = fd_write_file(box_fd, NET_POLICY_FILE, text, len, 0600, true);

	sha256_hex(text, len, line);
	n = SHA256_HEX +
	    snprintf(line + SHA256_HEX, sizeof(line) - SHA256_HEX, " %.*s", NET_NAME_MAX - 1, name);
	for (int i = SHA256_HEX + 1; i < n; i++)
		if ((uint8_t)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	/* A name whose text was not written, or that was not written for its text, is for none. */
	if (r == 0)
		r = fd_write_file(box_fd, NET_POLICY_NAME_FILE, line, (size_t)n, 0600, true);
	return r < 0 ? state_error(st, -r, "keep the policy", e) : 0;
}

void net_policy_name(int box_fd, const char *made_with, char ret[NET_NAME_MAX])
{
	autofree char *text = NULL, *line = NULL;
	char hash[SHA256_HEX + 1];
	size_t len = 0, line_len = 0;

	str_copy(ret, NET_NAME_MAX, made_with);
	if (fd_read_file(box_fd, NET_POLICY_FILE, DOOR_POLICY_MAX, &text, &len) < 0)
		return;
	str_copy(ret, NET_NAME_MAX, "file");
	sha256_hex(text, len, hash);
	if (fd_read_file(box_fd, NET_POLICY_NAME_FILE, SHA256_HEX + NET_NAME_MAX, &line,
			 &line_len) == 0 &&
	    line_len > SHA256_HEX + 1 && strlen(line) == line_len && line[SHA256_HEX] == ' ' &&
	    memcmp(line, hash, SHA256_HEX) == 0)
		str_copy(ret, NET_NAME_MAX, line + SHA256_HEX + 1);
}

/* ---- grants ---- */

static int lock_grants(int box_fd)
{
	autoclose int fd =
		openat(box_fd, GRANTS_LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	return take_fd(fd);
}

/* Printable and without a space, so that it is one word of a line. What it means is the policy's
 * to say. */
static bool is_pattern(const char *pattern)
{
	size_t n = strlen(pattern);

	for (size_t i = 0; i < n; i++)
		if (pattern[i] <= ' ' || pattern[i] >= 0x7f)
			return false;
	return n > 0 && n <= DNS_NAME_MAX + 8;
}

/* A new word about the same stands before the old one for good: both end with it, or the new one
 * never does. */
static bool replaces(uint64_t until_ms, uint64_t old_ms)
{
	return until_ms == 0 || (old_ms != 0 && old_ms <= until_ms);
}

int net_grant_parse(char *line, struct net_grant *ret)
{
	char *time = strchr(line, ' '), *host = time ? strchr(time + 1, ' ') : NULL;

	if (!host)
		return -EBADMSG;
	*time++ = *host++ = 0;
	*ret = (struct net_grant){.allow = strcmp(line, "allow") == 0, .pattern = host};
	if ((!ret->allow && strcmp(line, "deny") != 0) || !*host ||
	    !str_parse_u64(time, UINT64_MAX, &ret->until_ms))
		return -EBADMSG;
	return 0;
}

/* Keeps the lines of the old text whose time is not over and that the new one does not replace. */
static int keep_lines(struct buf *out, const char *text, const struct net_grant *fresh,
		      uint64_t now_ms, unsigned *ret_count)
{
	int r = 0;

	for (size_t n; *text && r == 0; text += n + (text[n] == '\n')) {
		char word[GRANT_LINE_MAX];
		struct net_grant g;

		n = strcspn(text, "\n");
		if (n == 0 || n >= sizeof(word))
			continue;
		memcpy(word, text, n);
		word[n] = 0;
		if (net_grant_parse(word, &g) < 0 || (g.until_ms != 0 && g.until_ms <= now_ms) ||
		    (strcmp(g.pattern, fresh->pattern) == 0 &&
		     replaces(fresh->until_ms, g.until_ms)))
			continue;
		r = buf_printf(out, "%.*s\n", (int)n, text);
		++*ret_count;
	}
	return r;
}

int net_grant_add(struct state *st, int box_fd, const struct net_grant *g, uint64_t now_ms,
		  struct err *e)
{
	autoclose int lock = -1;
	autofree char *old = NULL;
	unsigned count = 0;
	struct buf out;
	int r;

	if (!is_pattern(g->pattern))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not HOST or HOST:PORT",
			       g->pattern);
	lock = lock_grants(box_fd);
	if (lock < 0)
		return state_error(st, -lock, "keep the grant", e);
	r = fd_read_file(box_fd, NET_GRANTS_FILE, GRANTS_BYTES_MAX, &old, NULL);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "read the box's grants");
	buf_init(&out, GRANTS_BYTES_MAX);
	r = keep_lines(&out, old ? old : "", g, now_ms, &count);
	if (r == 0 && count >= DOOR_GRANTS_MAX)
		r = -ENOBUFS;
	if (r == 0)
		r = buf_printf(&out, "%s %llu %s\n", g->allow ? "allow" : "deny",
			       (unsigned long long)g->until_ms, g->pattern);
	if (r == 0)
		r = fd_write_file(box_fd, NET_GRANTS_FILE, buf_data(&out), buf_len(&out), 0600,
				  true);
	buf_done(&out);
	if (r == -ENOBUFS)
		return err_set(e, ERR_LIMIT, ENOBUFS,
			       "the box has %u grants already: write a policy instead "
			       "(cove policy apply)",
			       DOOR_GRANTS_MAX);
	return r < 0 ? state_error(st, -r, "keep the grant", e) : 0;
}

int net_grants_clear(int box_fd, struct err *e)
{
	autoclose int lock = lock_grants(box_fd);

	if (lock < 0)
		return err_errno(e, -lock, "lock the box's grants");
	if (unlinkat(box_fd, NET_GRANTS_FILE, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "forget the box's grants");
	return 0;
}
