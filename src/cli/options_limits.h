/* Rows of the table in options.h: what a box may use. */
#pragma once

/* clang-format off */
#define OPTIONS_LIMITS(X) \
	X(MEM, "mem", 0, LIMIT_SIZE, box.mem_bytes, "SIZE", \
		"memory, page cache and tmpfs included (512M, 1.5GiB); default 2G") \
	X(CPUS, "cpus", 0, LIMIT_CPUS, box.cpu_milli, "N", \
		"processors' worth of time (0.5, 2); default 2") \
	X(PIDS, "pids", 0, LIMIT_COUNT, box.pids, "N", "processes and threads; default 1024") \
	X(DISK, "disk", 0, LIMIT_SIZE, box.disk_bytes, "SIZE", \
		"all that it writes, and a named workspace as much; default 10G") \
	X(FILES, "files", 0, LIMIT_COUNT, box.files, "N", \
		"open files of one process; default 65536") \
	X(IO, "io", 0, LIMIT_SIZE, box.io_bytes, "SIZE", \
		"bytes read, and bytes written, per second; default none") \
	X(TTL, "ttl", 0, LIMIT_MS, box.ttl_ms, "TIME", \
		"end the box so long after its start; default never") \
	X(IDLE, "idle", 0, LIMIT_MS, box.idle_ms, "TIME", \
		"end it after so long without a command; default never") \
	X(EXPIRE, "expire", 0, TEXT, box.expire, "stop|remove|pause", \
		"what --ttl and --idle do with the box; default stop") \
	X(NET_BYTES, "net-bytes", 0, LIMIT_SIZE, box.net_bytes, "SIZE", \
		"through its network door, both ways together; default none") \
	X(NET_CONNS, "net-conns", 0, LIMIT_COUNT, box.net_conns, "N", \
		"connections through that door at once; default 1024") \
	X(STORAGE, "storage", 0, TEXT, box.storage, "KIND", \
		"where writes live: plain (a directory), loop (a disk in a file), tmpfs, pool") \
	X(BEST_EFFORT, "best-effort", 0, FLAG, box.best_effort, NULL, \
		"go without what this host cannot enforce; `cove inspect` lists it") \
	X(CTL, "ctl", 0, TEXT, box.ctl, "WHAT", \
		"what its programs may ask: info,budget,snapshot[=N]") \
	X(STRICT, "strict", 0, FLAG, box.strict, NULL, \
		"no new privileges and no root inside: sudo does not work")
/* clang-format on */
