/*
 * What is told of a shell's text. The head is whole lines that expand nothing, and only they decide
 * it; a text in braces has more than one line and something in them.
 */
#include "fuzz.h"

#include "init/shell_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});
	size_t head = text_head_len(text);
	bool braces = text_needs_braces(text, false);

	MUST(head <= strlen(text));
	MUST(head == 0 || text[head - 1] == '\n');
	if (text_needs_braces(text, true))
		MUST(braces);
	if (braces)
		MUST(strchr(text, '\n') && text[head] != '\0');
	MUST(text_part_len(text) < strlen(text) || !*text);
	MUST(text_part_len(text) == 0 || text[text_part_len(text)] == '\n');
	text_defines_abort(text);
	text_sets_nounset(text);
	text[head] = '\0';
	MUST(text_head_len(text) == head);
	for (char *line = text; *line; line += strcspn(line, "\n") + 1)
		if (line[strspn(line, " \t")] != '#')
			MUST(strcspn(line, "\n") <= strcspn(line, "$`\\\"<>|&(){}"));
	free(text);
	return 0;
}
