/* Bodies that are read by work: JSON, forms, files. */
#pragma once

#include "api/api.h"

/*
 * form.c, work of a route whose body is bytes and that streams: a body as JSON, or as a form of
 * parts (multipart/form-data) that are files without a name. It ends when the client goes.
 */
#define API_PART_SECRET "secret." /* how names of parts begin that are never on a disk */
enum { API_PARTS_MAX = 300, API_SECRET_MAX = 64 << 10 };
struct api_part {
	const char *name, *filename; /* in the call's memory; filename may be NULL */
	int fd;			     /* owned; where it was written to its end */
	uint64_t size;
	bool is_secret;
};
struct api_form {
	struct api_part parts[API_PARTS_MAX];
	size_t count;
};
bool api_body_is(const struct api_call *c, const char *type);
int api_body_json(struct api_call *c, size_t max, json_t **ret, struct err *e);
/* What a request may put on the disk beside boxes: max, and for a key no more than its quota of
 * disk. api_body_spool and api_form_read hold to it themselves, and to the host's reserve. */
uint64_t api_spool_max(const struct api_call *c, uint64_t max);
/* As bytes, into a file. */
int api_body_spool(struct api_call *c, struct cove *cove, int fd, uint64_t max, struct err *e);
int api_form_read(struct api_call *c, struct cove *cove, uint64_t bytes_max, struct api_form *ret,
		  struct err *e);
const struct api_part *api_form_find(const struct api_form *f, const char *name);
/* A part's JSON, borrowed from the call. NULL where there is none. */
int api_part_json(struct api_call *c, const struct api_part *p, json_t **ret, struct err *e);
void api_form_done(struct api_form *f);
/* A file without a name beside what Cove keeps, or memory for a secret. */
int api_spool_open(struct cove *cove, bool is_secret, struct err *e);
/* The content of such a file into a descriptor; -EPIPE: the client has gone. */
int api_spool_copy(int fd, int to, struct err *e);
/* The same as the answer, of known length. */
int api_spool_send(struct api_call *c, int fd, const char *type, struct err *e);
