/* The client as a whole: where the server is and the key for it, from the environment. */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/spawn.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FILE_MAX = 4096 };

int remote_return(int r, const struct err *e, struct cove_error *err)
{
	return core_error_fill(r, e, err);
}

int remote_absent(struct err *e, const char *what)
{
	return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		       "%.120s works on the server's machine only: run it there, without COVE_HOST",
		       what);
}

static const char *setting(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int take_key(struct cove *cove, struct err *e)
{
	const char *value = setting("COVE_API_KEY"), *path = setting("COVE_KEY_FILE");
	size_t len = 0;
	int r = 0;

	if (value) {
		cove->key = strdup(value);
		if (!cove->key)
			return err_errno(e, ENOMEM, "keep the API key");
		return remote_key_check(cove->key, "COVE_API_KEY", e);
	}
	if (!path)
		return 0;
	r = fd_read_file(AT_FDCWD, path, KEY_FILE_MAX, &cove->key, &len);
	if (r < 0)
		return err_errno(e, -r, "read COVE_KEY_FILE='%.120s'", path);
	return remote_key_check(cove->key, "the file of COVE_KEY_FILE", e);
}

static int make(struct cove **ret, const struct cove_options *options, struct err *e)
{
	const char *host = setting("COVE_HOST"), *ca = setting("COVE_CA");
	struct cove_options o;
	struct cove *cove;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	if (r < 0)
		return r;
	if (!host)
		return err_set(e, ERR_INVALID, EINVAL, "COVE_HOST names no server");
	cove = calloc(1, sizeof(*cove));
	if (!cove || ev_new(&cove->ev) < 0) {
		free(cove);
		return err_errno(e, ENOMEM, "start Cove");
	}
	cove->on_event = o.on_event;
	cove->arg = o.arg;
	r = remote_host_parse(&cove->host, host, e);
	if (r == 0)
		r = take_key(cove, e);
	if (r == 0 && ca && access(ca, R_OK) < 0)
		r = err_errno(e, errno, "read COVE_CA='%.120s'", ca);
	/* net/roots.h takes it from there, in place of the host's store. */
	if (r == 0 && ca && setenv("SSL_CERT_FILE", ca, 1) < 0)
		r = err_errno(e, errno, "use COVE_CA");
	if (r < 0)
		cove_free(cove);
	else
		*ret = cove;
	return r;
}

int cove_new(struct cove **ret, const struct cove_options *options, struct cove_error *err)
{
	struct err e = {0};

	log_init();
	return remote_return(make(ret, options, &e), &e, err);
}

void cove_free(struct cove *cove)
{
	if (!cove)
		return;
	remote_conn_free(cove->idle);
	ev_free(cove->ev);
	tls_free(cove->tls);
	if (cove->key)
		explicit_bzero(cove->key, strlen(cove->key));
	free(cove->key);
	free(cove);
}

/* No keeper is ever started here. */
void spawn_as_children(struct cove *cove)
{
}
