/* The processor time of boxes by their names, for a process that made none of their groups. */
#include "cgroup/reader.h"
#include "cgroup/parts.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct cgroup_reader {
	struct layout layout;
};

int cgroup_reader_new(struct cgroup_reader **ret)
{
	struct cgroup_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	layout_find(&r->layout);
	*ret = r;
	return 0;
}

void cgroup_reader_free(struct cgroup_reader *r)
{
	free(r);
}

static int read_group(const struct cgroup_reader *r, enum layout_tree t, const char *box,
		      const char *file, char *ret, size_t size)
{
	char path[LAYOUT_PATH_MAX + 128];
	autoclose int fd = -1;

	if (!layout_has(&r->layout, t) || !layout_path(&r->layout, t, box, "", path, sizeof(path)))
		return -ENOENT;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : knob_get(fd, file, ret, size);
}

int cgroup_reader_cpu_us(const struct cgroup_reader *r, const char *box, uint64_t *ret)
{
	char text[KNOB_TEXT_MAX];

	if (read_group(r, LAYOUT_V2, box, "cpu.stat", text, sizeof(text)) == 0) {
		*ret = knob_field(text, "usage_usec");
		return 0;
	}
	if (read_group(r, LAYOUT_CPUACCT, box, "cpuacct.usage", text, sizeof(text)) < 0)
		return -ENOENT;
	*ret = strtoull(text, NULL, 10) / 1000;
	return 0;
}
