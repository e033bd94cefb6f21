/* A file system of so many mebibytes and 64 files, seen by this test and what it starts. */
#pragma once

enum { SMALL_DISK_PATH = 32 };

/* Makes a directory for it. Skips the test where nothing may be mounted. */
void small_disk_mount(char ret_path[SMALL_DISK_PATH], unsigned mib);
void small_disk_unmount(const char *path);
