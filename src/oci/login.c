/* The files that logins are kept in; see login.h. The program that may be asked is in
 * login_helper.c. */
#include "oci/login.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/login_helper.h"
#include "oci/token.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *oci_env_find(const struct oci_env *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; env->vars && env->vars[i]; i++)
		if (strncmp(env->vars[i], name, n) == 0 && env->vars[i][n] == '=')
			return env->vars[i][n + 1] ? env->vars[i] + n + 1 : NULL;
	return NULL;
}

void oci_login_done(struct oci_login *l)
{
	buf_done(&l->secret);
	*l = (struct oci_login){0};
}

static int keep_secret(struct oci_login *l, enum oci_login_kind kind, const void *p, size_t n)
{
	int r;

	oci_login_done(l);
	buf_init(&l->secret, OCI_SECRET_MAX);
	r = buf_set_secret(&l->secret, true);
	if (r == 0)
		r = buf_append(&l->secret, p, n);
	if (r == 0)
		l->kind = kind;
	return r;
}

/* What jansson held of a file is wiped when it lets go of it. */
static void wipe_free(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static json_t *load_wiped(const char *text, size_t n, json_error_t *why)
{
	json_set_alloc_funcs(malloc, wipe_free);
	return json_loadb(text, n, JSON_REJECT_DUPLICATES, why);
}

static void done_wiped(json_t *o)
{
	json_decref(o);
	json_set_alloc_funcs(malloc, free);
}

/* ---- which entry is the registry's ---- */

/* Without what clients write around a registry's name: "https://index.docker.io/v1/". */
static void plain_key(const char *key, char *ret, size_t size)
{
	size_t n;

	if (str_starts(key, "https://"))
		key += strlen("https://");
	else if (str_starts(key, "http://"))
		key += strlen("http://");
	if (!str_copy(ret, size, key))
		ret[0] = 0;
	n = strlen(ret);
	while (n > 0 && ret[n - 1] == '/')
		ret[--n] = 0;
	if (n > 3 && (strcmp(ret + n - 3, "/v1") == 0 || strcmp(ret + n - 3, "/v2") == 0))
		ret[n -= 3] = 0;
	if (strcmp(ret, "index.docker.io") == 0 || strcmp(ret, "registry-1.docker.io") == 0)
		str_copy(ret, size, OCI_HUB);
}

/* How much of the reference a key names: 0 none, otherwise the longest wins. */
static size_t key_matches(const char *key, const struct oci_ref *ref)
{
	char plain[OCI_HOST_MAX + OCI_PATH_MAX + 16], whole[OCI_HOST_MAX + OCI_PATH_MAX + 16];
	size_t n;

	plain_key(key, plain, sizeof(plain));
	snprintf(whole, sizeof(whole), "%s/%s", ref->host, ref->path);
	n = strlen(plain);
	return n > 0 && strncmp(whole, plain, n) == 0 && (whole[n] == '/' || whole[n] == 0) ? n : 0;
}

static json_t *find_entry(json_t *o, const struct oci_ref *ref)
{
	json_t *best = NULL, *v;
	size_t best_n = 0;
	const char *key;

	json_object_foreach(o, key, v)
	{
		size_t n = key_matches(key, ref);

		if (n > best_n) {
			best_n = n;
			best = v;
		}
	}
	return best;
}

/* ---- what an entry says ---- */

/* "user:password" in base64. */
static int take_auth(const char *text, size_t len, struct oci_login *ret)
{
	autofree uint8_t *plain = malloc(len / 4 * 3 + 4);
	const uint8_t *colon;
	char user[sizeof(ret->user)];
	ssize_t n;
	int r = -EBADMSG;

	if (!plain)
		return -ENOMEM;
	n = base64_decode(text, len, plain);
	colon = n > 0 ? memchr(plain, ':', (size_t)n) : NULL;
	while (colon && n > 0 && plain[n - 1] == 0) /* Docker filled some up with them */
		n--;
	if (colon && colon > plain && (size_t)(colon - plain) < sizeof(user) && colon < plain + n &&
	    !memchr(plain, 0, (size_t)n)) {
		memcpy(user, plain, (size_t)(colon - plain));
		user[colon - plain] = 0;
		r = keep_secret(ret, OCI_LOGIN_PASSWORD, colon + 1,
				(size_t)(plain + n - colon - 1));
		if (r == 0)
			str_copy(ret->user, sizeof(ret->user), user);
	}
	explicit_bzero(plain, len / 4 * 3 + 4);
	return r;
}

static const char *str_of(json_t *o, const char *key, size_t *ret_len)
{
	json_t *v = json_object_get(o, key);

	*ret_len = json_string_length(v);
	return json_is_string(v) && *ret_len > 0 ? json_string_value(v) : NULL;
}

/* 1: it has a login, 0: none. */
static int read_entry(json_t *o, struct oci_login *ret)
{
	const char *text, *user;
	size_t n, user_n;
	int r = 0;

	if ((text = str_of(o, "identitytoken", &n)))
		r = keep_secret(ret, OCI_LOGIN_REFRESH, text, n);
	else if ((text = str_of(o, "registrytoken", &n)))
		r = keep_secret(ret, OCI_LOGIN_TOKEN, text, n);
	else if ((text = str_of(o, "auth", &n)))
		r = take_auth(text, n, ret);
	else if ((user = str_of(o, "username", &user_n)) && (text = str_of(o, "password", &n))) {
		if (user_n >= sizeof(ret->user))
			return -EBADMSG;
		r = keep_secret(ret, OCI_LOGIN_PASSWORD, text, n);
		if (r == 0)
			str_copy(ret->user, sizeof(ret->user), user);
	} else
		return 0;
	return r < 0 ? r : 1;
}

static bool is_helper_name(const char *name)
{
	return name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < OCI_HELPER_NAME &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "._-")] == 0;
}

static int take_helper(json_t *v, char ret_helper[OCI_HELPER_NAME], struct err *e)
{
	const char *name = json_string_value(v);

	if (!name || !is_helper_name(name) || strlen(name) != json_string_length(v))
		return err_set(e, ERR_INVALID, EINVAL,
			       "the name of a credential helper in it is no program's name");
	str_copy(ret_helper, OCI_HELPER_NAME, name);
	return 0;
}

static int read_config(json_t *o, const struct oci_ref *ref, struct oci_login *ret,
		       char ret_helper[OCI_HELPER_NAME], struct err *e)
{
	json_t *helper = find_entry(json_object_get(o, "credHelpers"), ref);
	json_t *entry = find_entry(json_object_get(o, "auths"), ref);
	json_t *store = json_object_get(o, "credsStore");
	int r;

	if (helper)
		return take_helper(helper, ret_helper, e);
	r = read_entry(entry, ret);
	if (r == -ENOMEM)
		return err_errno(e, ENOMEM, "read the logins");
	if (r < 0)
		return err_set(e, ERR_INVALID, EINVAL, "the login for %.80s in it cannot be read",
			       ref->host);
	if (r == 0 && json_is_string(store) && json_string_length(store) > 0)
		return take_helper(store, ret_helper, e);
	return 0;
}

int oci_login_parse(const char *text, size_t n, const struct oci_ref *ref, struct oci_login *ret,
		    char ret_helper[OCI_HELPER_NAME], struct err *e)
{
	json_error_t why;
	json_t *o = load_wiped(text, n, &why);
	int r;

	*ret = (struct oci_login){0};
	ret_helper[0] = 0;
	/* Not jansson's own words: they quote the text. */
	if (!json_is_object(o))
		r = err_set(e, ERR_INVALID, EINVAL, "it is no JSON object (line %d)", why.line);
	else
		r = read_config(o, ref, ret, ret_helper, e);
	done_wiped(o);
	if (r < 0)
		oci_login_done(ret);
	return r;
}

int oci_login_parse_helper(const char *text, size_t n, struct oci_login *ret, struct err *e)
{
	json_error_t why;
	json_t *o = load_wiped(text, n, &why);
	const char *user, *value;
	size_t user_n, value_n;
	int r = -EBADMSG;

	*ret = (struct oci_login){0};
	user = str_of(o, "Username", &user_n);
	value = str_of(o, "Secret", &value_n);
	if (user && value && user_n < sizeof(ret->user)) {
		bool is_token = strcmp(user, "<token>") == 0;

		r = keep_secret(ret, is_token ? OCI_LOGIN_REFRESH : OCI_LOGIN_PASSWORD, value,
				value_n);
		if (r == 0 && !is_token)
			str_copy(ret->user, sizeof(ret->user), user);
	}
	done_wiped(o);
	if (r < 0)
		oci_login_done(ret);
	return r < 0 ? err_set(e, ERR_PROTOCOL, EBADMSG, "its answer cannot be read") : 0;
}

int oci_token_parse(const char *text, size_t n, struct buf *ret)
{
	json_error_t why;
	json_t *o = load_wiped(text, n, &why);
	const char *token;
	size_t len;
	int r = -EBADMSG;

	token = str_of(o, "token", &len);
	if (!token)
		token = str_of(o, "access_token", &len);
	if (token && len == strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					  "0123456789-._~+/=:"))
		r = buf_append(ret, token, len);
	done_wiped(o);
	return r;
}

/* ---- the files ---- */

/* Through links: people keep such files elsewhere. -ENOENT where there is none. */
static int read_file(const char *path, char **ret, size_t *ret_len)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return fd_read_regular(fd, OCI_AUTH_FILE_MAX, ret, ret_len);
}

/* 1: it has something for the registry. */
static int look_in(const struct oci_env *env, const char *path, const struct oci_ref *ref,
		   struct oci_login *ret, struct err *e)
{
	char helper[OCI_HELPER_NAME] = "";
	char *text = NULL;
	size_t n = 0;
	int r = read_file(path, &text, &n);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(e, ERR_INVALID, -r, "read the logins in %.120s: %s", path,
			       strerror(-r));
	r = oci_login_parse(text, n, ref, ret, helper, e);
	explicit_bzero(text, n);
	free(text);
	if (r == 0 && helper[0])
		r = oci_login_ask_helper(env, helper, ref, ret, e);
	if (r < 0) {
		err_prefix(e, "the logins in %.80s", path);
		return r;
	}
	snprintf(ret->from, sizeof(ret->from), "%.100s%s%.40s", path, helper[0] ? " and " : "",
		 helper);
	return ret->kind != OCI_LOGIN_NONE;
}

int oci_login_find(const struct oci_env *env, const struct oci_ref *ref, struct oci_login *ret,
		   struct err *e)
{
	static const struct {
		const char *variable, *below;
		bool alone;
	} places[] = {
		{"REGISTRY_AUTH_FILE", "", true},
		{"DOCKER_CONFIG", "/config.json", false},
		{"XDG_RUNTIME_DIR", "/containers/auth.json", false},
		{"XDG_CONFIG_HOME", "/containers/auth.json", false},
		{"HOME", "/.config/containers/auth.json", false},
		{"HOME", "/.docker/config.json", false},
	};

	*ret = (struct oci_login){0};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *dir = oci_env_find(env, places[i].variable);
		char path[4096];
		int r;

		if (!dir)
			continue;
		if (snprintf(path, sizeof(path), "%s%s", dir, places[i].below) >= (int)sizeof(path))
			continue;
		r = look_in(env, path, ref, ret, e);
		if (r != 0)
			return r < 0 ? r : 0;
		if (places[i].alone)
			break;
	}
	return 0;
}
