/*
 * Does a box speak HTTP? Read byte by byte as it comes, until its first line has said so: a method,
 * a space, and "HTTP/" before the line ends; or, as requests were before they named a version, a
 * method, a space, and a target ("/...", "scheme://...", "*") in a line that ends. Servers differ
 * in what they forgive, so whatever one of them might take for a request is one here: empty lines
 * before it, any method in any case, odd spaces. How the bytes are cut does not change what is
 * found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sniff_found {
	SNIFF_OPEN,   /* nothing but what might be a method so far */
	SNIFF_LIKELY, /* a method and a space, all of it text: its line should be awaited */
	SNIFF_HTTP,
	SNIFF_OTHER,
};

struct sniff {
	enum { SNIFF_BEFORE, SNIFF_METHOD, SNIFF_LINE, SNIFF_KNOWN } at;
	enum sniff_found found;
	unsigned matched; /* of "http/" */
	enum {
		TARGET_BEFORE,
		TARGET_SCHEME,
		TARGET_COLON,
		TARGET_SLASH,
		TARGET_FOUND, /* there is one: its line is a request when it ends */
		TARGET_NONE,
	} target;
};

/* A struct of zeros is the beginning. */
enum sniff_found sniff_feed(struct sniff *s, const uint8_t *p, size_t n);
