/* What makes the host run something; see guarded.h. */
#include "store/guarded.h"

#include <string.h>

const struct guarded guarded_list[] = {
	{NULL, ".git", true}, /* of a worktree: it names the repository */
	{".git", ".git/hooks", false},	{".git", ".git/config", false},
	{NULL, ".husky", false},	{NULL, ".vscode", false},
	{NULL, ".idea", false},		{NULL, ".zed", false},
	{NULL, ".devcontainer", false}, {NULL, ".exrc", false},
	{NULL, ".nvim.lua", false},	{NULL, ".envrc", false},
	{NULL, ".claude", false},	{NULL, ".mcp.json", false},
	{NULL, ".cursor", false},	{NULL, ".codex", false},
	{NULL, ".gemini", false},	{NULL, ".bashrc", false},
	{NULL, ".bash_profile", false}, {NULL, ".profile", false},
	{NULL, ".zshrc", false},	{NULL, ".zshenv", false},
	{NULL, ".ssh", false},		{0}};

/* Also these do not come back; as files of a shared directory they are too many to be pinned. */
static const char *const more_names[] = {".bash_aliases",
					 ".bash_login",
					 ".bash_logout",
					 ".bazelrc",
					 ".bundle",
					 ".cargo",
					 ".continue",
					 ".devcontainer.json",
					 ".dir-locals.el",
					 ".dir-locals-2.el",
					 ".fleet",
					 ".gdbinit",
					 ".gitconfig",
					 ".gvimrc",
					 ".irbrc",
					 ".jj",
					 ".kiro",
					 ".lldbinit",
					 ".lvimrc",
					 ".mise",
					 ".mise.local.toml",
					 ".mise.toml",
					 ".npmrc",
					 ".nvimrc",
					 ".opencode",
					 ".pdbrc",
					 ".pnpmfile.cjs",
					 ".pnpmfile.mjs",
					 ".pryrc",
					 ".Renviron",
					 ".roo",
					 ".Rprofile",
					 ".run",
					 ".rvmrc",
					 ".theia",
					 ".vimrc",
					 ".windsurf",
					 ".yarnrc",
					 ".yarnrc.yml",
					 ".zlogin",
					 ".zprofile",
					 "mise.local.toml",
					 "mise.toml",
					 "opencode.json",
					 "opencode.jsonc"};

/* Of these directories only this; the rest of them is a history, or plain data. */
static const struct {
	const char *dir, *name;
} more_below[] = {{".hg", "hgrc"},
		  {".hg", "hgrc-not-shared"},
		  {".hg", "sharedpath"}, /* it names the repository, settings and all */
		  {".github", "hooks"}};

/* Some file systems do not tell capitals from small letters. */
static bool is_name(const char *part, size_t len, const char *name)
{
	return strlen(name) == len && strncasecmp(part, name, len) == 0;
}

static bool is_guarded_name(const char *part, size_t len)
{
	for (const struct guarded *g = guarded_list; g->path; g++)
		if (!g->parent && !g->file_only && is_name(part, len, g->path))
			return true;
	for (size_t i = 0; i < sizeof(more_names) / sizeof(more_names[0]); i++)
		if (is_name(part, len, more_names[i]))
			return true;
	return false;
}

/* The parts of a path as they stand: the first of `len` bytes, the second behind its slash. */
static bool is_guarded_below(const char *part, size_t len)
{
	const char *next = part[len] ? part + len + 1 : part + len;

	for (size_t i = 0; i < sizeof(more_below) / sizeof(more_below[0]); i++)
		if (is_name(part, len, more_below[i].dir) &&
		    is_name(next, strcspn(next, "/"), more_below[i].name))
			return true;
	return false;
}

/* Hooks and settings, what says that those of another directory are to be used, and commands of a
 * rebase that goes on. */
static bool is_guarded_in_git(const char *part, size_t len)
{
	static const char *const names[] = {"hooks",	    "config",	    "config.worktree",
					    "commondir",    "gitdir",	    "info",
					    "rebase-apply", "rebase-merge", "sequencer"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_name(part, len, names[i]))
			return true;
	return false;
}

bool guarded_is_in_git(const char *path)
{
	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");

		if (is_name(part, len, ".git"))
			return true;
		part += len + (part[len] == '/');
	}
	return false;
}

size_t guarded_in_repository(const char *path)
{
	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");

		if (part > path && is_guarded_in_git(part, len))
			return (size_t)(part - path) - 1;
		part += len + (part[len] == '/');
	}
	return 0;
}

bool guarded_is(const char *path)
{
	bool in_git = false;

	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");
		bool is_last = part[len] == 0;

		if (is_guarded_name(part, len) || is_guarded_below(part, len))
			return true;
		if (in_git && is_guarded_in_git(part, len))
			return true;
		/* With that a directory of any name is a repository, settings and all. */
		if (!in_git && is_last && is_name(part, len, "HEAD"))
			return true;
		/* By itself it is a repository's directory, which is nothing, or what names one
		 * elsewhere; the caller knows which. */
		in_git |= is_name(part, len, ".git");
		part += len + !is_last;
	}
	return false;
}
