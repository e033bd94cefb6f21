/* A directory as a tar stream; see pack.h. */
#include "oci/pack.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

struct pack_shared {
	int code;
	struct err err;
};

struct packer {
	const struct ids *ids;
	struct pack_shared *shared;
	int root_fd, out_fd, in_fd;
	enum layer_tar_form form;
};

static int run_packer(void *arg)
{
	struct packer *p = arg;
	const struct layer_tar_how how = {.form = p->form};
	struct layer_tar_result result;

	/* Else it would never find out that its reader has gone. */
	fd_close(&p->in_fd);
	p->shared->code = layer_tar_pack_as(p->ids, &p->root_fd, 1, p->out_fd, &how, &result,
					    &p->shared->err);
	return p->shared->code < 0;
}

int pack_open(const struct ids *ids, int root_fd, enum layer_tar_form form, struct pack_stream *ret,
	      struct err *e)
{
	struct packer p = {.ids = ids, .root_fd = root_fd, .form = form};
	int ends[2], r;

	*ret = (struct pack_stream){.fd = -1};
	p.shared = mmap(NULL, sizeof(*p.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (p.shared == MAP_FAILED)
		return err_errno(e, errno, "pack a directory");
	if (pipe2(ends, O_CLOEXEC) < 0) {
		r = err_errno(e, errno, "pack a directory");
		munmap(p.shared, sizeof(*p.shared));
		return r;
	}
	p.shared->code = -ECHILD;
	p.in_fd = ends[0];
	p.out_fd = ends[1];
	r = child_fork(run_packer, &p, &ret->child);
	fd_close(&ends[1]);
	ret->fd = ends[0];
	ret->shared = p.shared;
	ret->runs = r == 0;
	if (r < 0) {
		pack_close(ret, r, NULL);
		return err_errno(e, -r, "pack a directory");
	}
	return 0;
}

void pack_stop(struct pack_stream *p)
{
	if (p->runs)
		kill(p->child.pid, SIGKILL);
}

int pack_verdict(const struct pack_stream *p, int r, struct err *e)
{
	int code = p->shared->code;

	if (code == 0 || code == -EPIPE || (code == -ECHILD && r < 0))
		return r;
	if (p->shared->err.kind == ERR_NONE)
		return err_set(e, ERR_INTERNAL, -code, "the process that packs died");
	if (e)
		*e = p->shared->err;
	return code;
}

int pack_close(struct pack_stream *p, int r, struct err *e)
{
	fd_close(&p->fd);
	if (r < 0)
		pack_stop(p);
	if (p->runs) {
		child_forked_wait(&p->child);
		r = pack_verdict(p, r, e);
	}
	p->runs = false;
	if (p->shared)
		munmap(p->shared, sizeof(*p->shared));
	p->shared = NULL;
	return r;
}
