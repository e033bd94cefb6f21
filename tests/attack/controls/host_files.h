/*
 * File operations done the wrong way, by walking a box's paths on the host. They exist so that the
 * attack suite can show that it notices (control "host-files"); see
 * tools/controls.
 */
#pragma once

#include "core/core.h"
#include "wire/msg_file.h"

/* All return -ENOSYS for what is left to the right way: directories, relative paths. */
int host_put(struct cove_box *box, const char *host_path, const char *box_path, struct err *e);
int host_put_fd(struct cove_box *box, int fd, const char *box_path, struct err *e);
int host_get(struct cove_box *box, const char *box_path, const char *host_path, struct err *e);
int host_get_fd(struct cove_box *box, const char *box_path, int fd, struct err *e);
int host_put_data(struct cove_box *box, const void *data, size_t len, const char *box_path,
		  struct err *e);
/* At most max bytes; *ret is the caller's to free. */
int host_get_data(struct cove_box *box, const char *box_path, size_t max, void **ret,
		  size_t *ret_len, struct err *e);
int host_stat(struct cove_box *box, const char *box_path, struct cove_file_info *ret,
	      struct err *e);
int host_list(struct cove_box *box, const char *box_path, struct cove_file_info **ret,
	      struct err *e);
/* mkdir, move, chmod and remove. */
int host_change(struct cove_box *box, const struct wire_file *m, struct err *e);
