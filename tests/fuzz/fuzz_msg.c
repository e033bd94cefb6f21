/*
 * Control messages. The first byte chooses the message, the rest is its payload. What decodes must
 * encode, and decoding that gives the same again: encode(decode(encode(decode(x)))) is
 * encode(decode(x)).
 */
#include "fuzz.h"

#include "base/limits.h"
#include "wire/msg.h"

static void check_list(const struct wire_list *l)
{
	uint32_t pos = 0, count = 0;

	while (wire_list_next(l, &pos))
		count++;
	MUST(count == l->count && pos == l->bytes);
}

static struct wire_frame frame_of(enum wire_type type, const uint8_t *p, size_t n)
{
	return (struct wire_frame){.type = type, .payload = p, .len = (uint32_t)n};
}

static struct wire_frame payload_of(const struct buf *b, enum wire_type type)
{
	MUST(buf_len(b) >= WIRE_HEADER && buf_data(b)[4] == (uint8_t)type);
	return frame_of(type, buf_data(b) + WIRE_HEADER, buf_len(b) - WIRE_HEADER);
}

/* A state that was left out is said: "running". */
enum { STATE_BYTES = 16 };

#define TARGET(name, frame_type, tag)                                \
	static void try_##name(const uint8_t *p, size_t n)           \
	{                                                            \
		struct wire_frame f = frame_of(frame_type, p, n);    \
		struct tag m, again;                                 \
		struct buf one, two;                                 \
		if (wire_##name##_decode(&f, &m) < 0)                \
			return;                                      \
		buf_init(&one, n + WIRE_HEADER + STATE_BYTES);       \
		buf_init(&two, n + WIRE_HEADER + STATE_BYTES);       \
		MUST(wire_##name##_encode(&one, 7, 1, &m) == 0);     \
		f = payload_of(&one, frame_type);                    \
		MUST(wire_##name##_decode(&f, &again) == 0);         \
		MUST(wire_##name##_encode(&two, 7, 1, &again) == 0); \
		must_equal(&one, &two);                              \
		buf_done(&one);                                      \
		buf_done(&two);                                      \
	}
WIRE_MESSAGES(TARGET)

#define ENTRY(name, frame_type, tag) try_##name,
static void (*const targets[])(const uint8_t *p, size_t n) = {WIRE_MESSAGES(ENTRY)};

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct wire_exec m;
	struct wire_frame f;

	if (n == 0 || n > WIRE_CONTROL_MAX)
		return 0;
	f = frame_of(WIRE_EXEC, p + 1, n - 1);
	if (wire_exec_decode(&f, &m) == 0) {
		check_list(&m.argv);
		check_list(&m.env);
	}
	targets[p[0] % (sizeof(targets) / sizeof(targets[0]))](p + 1, n - 1);
	return 0;
}
