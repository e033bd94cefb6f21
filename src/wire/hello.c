/* HELLO; see hello.h. */
#include "wire/hello.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	enum wire_feature bit;
} features[] = {
	{"token", WIRE_FEATURE_TOKEN}, {"events", WIRE_FEATURE_EVENTS},
	{"copy", WIRE_FEATURE_COPY},   {"shells", WIRE_FEATURE_SHELLS},
	{"merge", WIRE_FEATURE_MERGE}, {"times", WIRE_FEATURE_TIMES},
	{"tools", WIRE_FEATURE_TOOLS}, {"ranges", WIRE_FEATURE_RANGES},
};

struct wire_hello wire_hello_ours(void)
{
	static const char names[] = "token\0events\0copy\0shells\0merge\0times\0tools\0ranges";

	return (struct wire_hello){
		.lowest = WIRE_VERSION_MIN,
		.highest = WIRE_VERSION_MAX,
		.features = {.data = names, .bytes = sizeof(names), .count = 8},
	};
}

int wire_hello_agree(const struct wire_hello *theirs, const char *who, const char *remedy,
		     struct wire_peer *ret, struct err *e)
{
	uint64_t highest = theirs->highest ? theirs->highest : theirs->lowest;
	uint32_t pos = 0;
	const char *name;

	if (theirs->lowest == 0 || highest < theirs->lowest)
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "%s says HELLO with an impossible range of versions", who);
	if (theirs->lowest > WIRE_VERSION_MAX || highest < WIRE_VERSION_MIN)
		return err_set(e, ERR_UNSUPPORTED, EPROTO,
			       "%s speaks versions %llu to %llu of Cove's wire, and this Cove %u "
			       "to %u: %s",
			       who, (unsigned long long)theirs->lowest, (unsigned long long)highest,
			       WIRE_VERSION_MIN, WIRE_VERSION_MAX, remedy);
	*ret = (struct wire_peer){
		.version = highest < WIRE_VERSION_MAX ? (uint32_t)highest : WIRE_VERSION_MAX,
	};
	while ((name = wire_list_next(&theirs->features, &pos)))
		for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++)
			if (strcmp(name, features[i].name) == 0)
				ret->features |= features[i].bit;
	return 0;
}

int wire_unknown_encode(struct buf *out, const struct wire_frame *f)
{
	struct wire_error m = {.kind = ERR_UNSUPPORTED, .code = EOPNOTSUPP};
	char text[80];

	snprintf(text, sizeof(text), "a frame of type %u is not known to this Cove",
		 (unsigned)f->type);
	m.msg = text;
	return f->id ? wire_error_encode(out, f->id, 0, &m) : 0;
}
