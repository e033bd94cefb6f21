/* make-presets OUTPUT FILE.yaml...: the presets as C text, when Cove is built. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int put_file(FILE *out, const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	FILE *in = fopen(path, "r");
	int c;

	if (!in)
		return -errno;
	fprintf(out, "\t{\"%.*s\",\n\t \"", (int)strcspn(base, "."), base);
	while ((c = getc(in)) != EOF) {
		if (c == '\n')
			fputs("\\n\"\n\t \"", out);
		else if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else
			putc(c, out);
	}
	fprintf(out, "\",\n\t %s},\n", strstr(path, "/groups/") ? "true" : "false");
	c = ferror(in);
	fclose(in);
	return c ? -EIO : 0;
}

int main(int argc, char **argv)
{
	FILE *out = argc > 2 ? fopen(argv[1], "w") : NULL;
	int r = out ? 0 : -EINVAL;

	if (out)
		fputs("#include \"door/presets.h\"\n\nconst struct preset presets[] = {\n", out);
	for (int i = 2; i < argc && r == 0; i++)
		r = put_file(out, argv[i]);
	if (out) {
		fputs("\t{0},\n};\n", out);
		if (fclose(out) != 0)
			r = -errno;
	}
	if (r < 0)
		fprintf(stderr, "make-presets: %s\n", strerror(-r));
	return r < 0;
}
