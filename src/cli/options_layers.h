/* Rows of the table in options.h: what boxes start from, what they changed, and where that goes. */
#pragma once

/* clang-format off */
#define OPTIONS_LAYERS(X) \
	X(COPY, "copy", 0, FLAG, box.copy, NULL, \
		"with --workspace DIR: work on a copy; `cove merge` brings changes back") \
	X(STAT, "stat", 0, FLAG, stat, NULL, "how many lines were added and removed, and a sum") \
	X(TEXT, "text", 0, FLAG, text, NULL, "what changed in files, line by line") \
	X(WORKSPACE_ONLY, "workspace", 0, FLAG, workspace_only, NULL, \
		"only what is at /workspace") \
	X(PULL_NAME, "name", 0, TEXT, image_name, "NAME", \
		"what to call the image; default: as it was typed, without :latest") \
	X(PLATFORM, "platform", 0, TEXT, platform, "OS/ARCH[/VARIANT]", \
		"which of an image's platforms; default this machine's") \
	X(CA, "ca", 0, TEXT, ca, "FILE", \
		"trust the certificates in FILE, beside those that this host trusts") \
	X(INSECURE, "insecure", 0, FLAG, insecure, NULL, \
		"also without TLS, and whatever its certificate; it can be changed on the way") \
	X(STALL, "stall", 0, MS, stall_ms, "TIME", \
		"try again when hardly anything comes for so long; default 60s") \
	X(PULL_QUIET, "quiet", 'q', FLAG, quiet, NULL, "only the image's name") \
	X(IMPORT_NAME, "name", 0, TEXT, image_name, "NAME", \
		"what to call the image; default: as the archive says, or as the file") \
	X(MAX_SIZE, "max-size", 0, LIMIT_SIZE, max_size, "SIZE", \
		"refuse one whose files hold more; default 256G, and 200 times its own size") \
	X(THEIRS, "theirs", 0, FLAG, theirs, NULL, "in a conflict take what the first box has") \
	X(OURS, "ours", 0, FLAG, ours, NULL, "in a conflict leave what is there") \
	X(MERGE_TRUST, "trust-dir", 0, FLAG, box.trust_dir, NULL, \
		"also .git/hooks, .vscode and such, and links that lead out of the directory") \
	X(FORMAT, "format", 0, TEXT, format, "FORMAT", \
		"oci, oci-dir, docker or tar; default oci, and oci-dir for a directory")
/* clang-format on */
