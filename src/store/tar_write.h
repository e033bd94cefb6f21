/*
 * Headers of tar streams: ustar, with a pax header before it for what does not fit. No I/O: bytes
 * go to a buffer. The same entry always gives the same bytes.
 */
#pragma once

#include "base/buf.h"
#include "store/tar.h"

/* The header, and for a file its size; the caller appends the data, then tar_write_pad. A directory
 * gets its slash here; "" is the root, "./". -ENOBUFS or -ENOMEM. */
int tar_write_entry(struct buf *out, const struct tar_entry *entry);

/* Zeros up to the next block after so many bytes of data. */
int tar_write_pad(struct buf *out, uint64_t size);

/* The two blocks at the end. */
int tar_write_end(struct buf *out);
