/* Files that go with a command, against a box that lies and callers that are wrong. */
#include "core_peer.h"
#include "tap.h"

#include "base/limits.h"

#include <fcntl.h>
#include <sys/stat.h>

static char top[64];

static const char *at(const char *name)
{
	static char paths[8][128];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	return path;
}

static void make_place(void)
{
	int fd;

	snprintf(top, sizeof(top), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(top));
	fd = open(at("in"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "hello", 5), 5);
	close(fd);
	CHECK_EQ(mkdir(at("d"), 0700), 0);
}

static void remove_place(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", top, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Any request of the client's ends the script, and with it the connection. */
static void hear_nothing(struct peer *p, void *arg)
{
	(void)arg;
	peer_expect(p, WIRE_SAY);
}

static int put(struct cove_box *box, struct cove_transfer *in, size_t ins,
	       struct cove_transfer *out, size_t outs, struct cove_error *err)
{
	struct cove_files files = {.size = sizeof(files),
				   .inputs = in,
				   .input_count = ins,
				   .outputs = out,
				   .output_count = outs};

	return cove_put_files(box, &files, err);
}

TEST(what_a_caller_has_wrong_is_said_before_anything_is_sent)
{
	static struct cove_transfer many[TRANSFERS_MAX + 1];
	struct cove_box *box = peer_box(hear_nothing, NULL);
	struct cove_transfer in[2] = {{.size = sizeof(in[0]), .to = "x"},
				      {.size = sizeof(in[0]), .to = "y"}};
	struct cove_transfer out[2] = {{.size = sizeof(in[0]), .from = "x"},
				       {.size = sizeof(in[0]), .from = "y"}};
	struct cove_error err;

	make_place();
	for (size_t i = 0; i <= TRANSFERS_MAX; i++)
		many[i] = (struct cove_transfer){.size = sizeof(*many), .from = "x", .to = top};
	CHECK_EQ(put(box, many, TRANSFERS_MAX + 1, NULL, 0, &err), -E2BIG);
	CHECK_EQ(put(box, NULL, 0, many, TRANSFERS_MAX + 1, &err), -E2BIG);
	CHECK_EQ(err.kind, COVE_LIMIT);
	many[0].size = 0;
	CHECK_EQ(put(box, many, 1, NULL, 0, &err), -EINVAL);
	many[0].size = SIZE_MAX;
	CHECK_EQ(put(box, NULL, 0, many, 2, &err), -EINVAL);
	many[0] = (struct cove_transfer){.size = sizeof(*many), .from = at("in")};
	CHECK_EQ(put(box, many, 1, NULL, 0, &err), -EINVAL); /* no place in the box */
	many[0].to = "";
	CHECK_EQ(put(box, many, 1, NULL, 0, &err), -EINVAL);
	many[0].from = "";
	many[0].to = top;
	CHECK_EQ(put(box, NULL, 0, many, 1, &err), -EINVAL);
	many[0].from = "x";
	many[0].to = "";
	CHECK_EQ(put(box, NULL, 0, many, 1, &err), -EINVAL);
	/* Descriptors: none, and one for two. */
	in[0].fd = -1;
	CHECK_EQ(put(box, in, 1, NULL, 0, &err), -EBADF);
	in[0].fd = in[1].fd = 1;
	CHECK_EQ(put(box, in, 2, NULL, 0, &err), -EINVAL);
	out[0].fd = -1;
	CHECK_EQ(put(box, NULL, 0, out, 1, &err), -EBADF);
	out[0].fd = out[1].fd = 1;
	CHECK_EQ(put(box, NULL, 0, out, 2, &err), -EEXIST);
	CHECK_EQ(out[1].error.kind, COVE_INTERRUPTED);
	/* On the host. */
	in[0].from = at("none");
	CHECK_EQ(put(box, in, 1, NULL, 0, &err), -ENOENT);
	out[0].to = at("none/out");
	CHECK_EQ(put(box, NULL, 0, out, 1, &err), -ENOENT);
	out[0].to = at("none/");
	CHECK_EQ(put(box, NULL, 0, out, 1, &err), -ENOENT);
	cove_box_free(box);
	remove_place();
}

TEST(one_place_on_the_host_has_many_names)
{
	static const char *const same[][2] = {{"o", "o"},    {"o", "d/../o"}, {"o", ".//o"},
					      {"d", "d/./"}, {"d", "l"},      {"d/x", "l"}};
	struct cove_box *box = peer_box(hear_nothing, NULL);
	struct cove_transfer out[2] = {{.size = sizeof(out[0]), .from = "/a/x"},
				       {.size = sizeof(out[0]), .from = "/b/x/"}};
	struct cove_error err;

	make_place();
	CHECK_EQ(symlink("d", at("l")), 0);
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		out[0].to = at(same[i][0]);
		out[1].to = at(same[i][1]);
		CHECK_EQ(put(box, NULL, 0, out, 2, &err), -EEXIST);
		CHECK_EQ(err.kind, COVE_INVALID);
	}
	out[0].to = at("o");
	CHECK_EQ(put(box, NULL, 0, out, 2, &err), 0); /* nothing to be put */
	cove_box_free(box);
	remove_place();
}

/* Says that nothing is where the inputs go, twice, and takes them. */
static void take_inputs(struct peer *p, void *arg)
{
	const char *const *paths = arg;
	struct wire_file m;

	for (int i = 0; i < 4; i++) {
		struct wire_frame f = peer_expect(p, WIRE_FILE);

		CHECK_EQ(wire_file_decode(&f, &m), 0);
		if (i < 2) {
			peer_error(p, f.id, ENOENT, "not there");
		} else if (strcmp(m.path, paths[i - 2]) != 0) {
			peer_error(p, f.id, EDOM, "another path");
		} else {
			peer_expect(p, WIRE_ENTRY);
			peer_expect(p, WIRE_EOF);
			peer_expect(p, WIRE_ENTRY);
			peer_send(p, WIRE_OK, 0, f.id);
		}
		peer_flush(p);
	}
	peer_expect(p, WIRE_SAY);
}

/* A caller's struct may be longer than ours. */
struct longer {
	struct cove_transfer t;
	char more[40];
};

TEST(inputs_go_where_they_should)
{
	static const char *const paths[] = {"/cwd/made/in", "/cwd/as"};
	struct cove_box *box = peer_box(take_inputs, (void *)(uintptr_t)paths);
	struct longer in[2] = {{.t = {.size = sizeof(in[0])}, .more = {1}},
			       {.t = {.size = sizeof(in[0])}, .more = {2}}};
	struct cove_files files = {
		.size = sizeof(files), .inputs = &in[0].t, .input_count = 2, .cwd = "/cwd"};
	struct cove_error err;

	make_place();
	in[0].t.from = in[1].t.from = at("in");
	in[0].t.to = "made/";
	in[1].t.to = "as";
	CHECK_EQ(cove_put_files(box, &files, &err), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(in[i].t.error.kind, COVE_OK);
		CHECK_EQ(in[i].t.bytes, 5);
		CHECK_EQ(in[i].t.files, 1);
		CHECK_EQ(in[i].more[0], i + 1);
	}
	cove_box_free(box);
	remove_place();
}

TEST(one_place_in_the_box_is_found_as_text)
{
	static const char *const same[][2] = {
		{"a", "a"}, {"./a", ".//a"}, {"/x/./a", "/x//a"}, {"/", "/."}, {"~/a", "~//a"}};
	struct cove_transfer in[2] = {{.size = sizeof(in[0]), .fd = 0},
				      {.size = sizeof(in[0]), .fd = 1}};
	struct cove_box *box = peer_box(hear_nothing, NULL);
	struct cove_error err;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		in[0].to = same[i][0];
		in[1].to = same[i][1];
		CHECK_EQ(put(box, in, 2, NULL, 0, &err), -EEXIST);
	}
	cove_box_free(box);
}

/* One that is not there, one that is, one that is cut, one that is not asked for any more. */
static void send_outputs(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	(void)arg;
	peer_error(p, id, ENOENT, "not there");
	peer_flush(p);
	id = peer_expect(p, WIRE_FILE).id;
	peer_entry(p, id, 'f', "", NULL);
	peer_data(p, id, WIRE_STDOUT, "whole", 5);
	peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	id = peer_expect(p, WIRE_FILE).id;
	peer_entry(p, id, 'f', "", NULL);
	peer_data(p, id, WIRE_STDOUT, "half", 4);
	peer_flush(p); /* and is gone */
}

TEST(each_output_is_for_itself)
{
	struct cove_box *box = peer_box(send_outputs, NULL);
	struct cove_transfer out[4];
	struct cove_files files = {.size = sizeof(files), .outputs = out, .output_count = 4};
	struct cove_error err;
	struct stat st;

	make_place();
	for (int i = 0; i < 4; i++)
		out[i] = (struct cove_transfer){.size = sizeof(out[0]),
						.from = "/x",
						.to = at((char[]){(char)('0' + i), 0})};
	CHECK_EQ(cove_get_files(box, &files, &err), 3);
	CHECK_EQ(out[0].error.code, ENOENT);
	CHECK_EQ(out[1].error.kind, COVE_OK);
	CHECK_EQ(out[1].bytes, 5);
	CHECK_EQ(out[1].files, 1);
	CHECK(out[2].error.kind != COVE_OK && out[3].error.kind != COVE_OK);
	CHECK_EQ(stat(at("1"), &st), 0);
	CHECK_EQ(st.st_size, 5);
	CHECK(stat(at("0"), &st) < 0 && stat(at("2"), &st) < 0 && stat(at("3"), &st) < 0);
	cove_box_free(box);
	remove_place();
}

/* Lets the first calls pass. */
static bool give_up(void *arg, uint64_t bytes, uint64_t files)
{
	unsigned *left = arg;

	(void)bytes;
	(void)files;
	return *left > 0 && (*left)-- > 0;
}

/* More than a pipe takes. */
static void send_much(struct peer *p, void *arg)
{
	static char data[WIRE_DATA_MAX];
	uint32_t id = peer_expect(p, WIRE_FILE).id;

	(void)arg;
	peer_entry(p, id, 'f', "", NULL);
	for (unsigned i = 0; i < WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_data(p, id, WIRE_STDOUT, data, sizeof(data));
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(a_reader_that_takes_nothing_can_be_left)
{
	struct cove_box *box = peer_box(send_much, NULL);
	struct cove_transfer out[2] = {{.size = sizeof(out[0]), .from = "/x"},
				       {.size = sizeof(out[0]), .from = "/y"}};
	unsigned left = 1;
	struct cove_copy how = {.size = sizeof(how), .progress = give_up, .arg = &left};
	struct cove_files files = {
		.size = sizeof(files), .outputs = out, .output_count = 2, .how = &how};
	struct cove_error err;
	int fds[2];

	CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
	make_place();
	out[0].fd = fds[1];
	out[1].to = at("never");
	CHECK_EQ(cove_get_files(box, &files, &err), 2);
	CHECK_EQ(out[0].error.code, ECANCELED);
	CHECK_EQ(out[1].error.kind, COVE_INTERRUPTED);
	CHECK_EQ(access(at("never"), F_OK), -1);
	cove_box_free(box);
	remove_place();
	close(fds[0]);
	close(fds[1]);
}

/* A stream's beginning; it is to be taken back. */
static void take_half(struct peer *p, void *arg)
{
	struct wire_frame f = peer_expect(p, WIRE_FILE);

	(void)arg;
	peer_error(p, f.id, ENOENT, "not there");
	peer_flush(p);
	peer_expect(p, WIRE_FILE);
	peer_expect(p, WIRE_ENTRY);
	peer_expect(p, WIRE_CANCEL);
	_exit(7);
}

TEST(a_writer_that_says_nothing_can_be_left)
{
	struct cove_box *box = peer_box(take_half, NULL);
	struct cove_transfer in = {.size = sizeof(in), .to = "/x"};
	unsigned left = 1;
	struct cove_copy how = {.size = sizeof(how), .progress = give_up, .arg = &left};
	struct cove_files files = {
		.size = sizeof(files), .inputs = &in, .input_count = 1, .how = &how};
	struct cove_error err;
	int fds[2], status;

	CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
	CHECK_EQ(write(fds[1], "half", 4), 4);
	in.fd = fds[0];
	CHECK_EQ(cove_put_files(box, &files, &err), -ECANCELED);
	CHECK_EQ(in.error.kind, COVE_INTERRUPTED);
	CHECK(wait(&status) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	cove_box_free(box);
	close(fds[0]);
	close(fds[1]);
}

TEST(paths_in_json_are_exact)
{
	struct cove_transfer out = {.size = sizeof(out), .from = "a\"\n", .to = "b\xff"};
	struct cove_files files = {.size = sizeof(files), .outputs = &out, .output_count = 1};
	struct cove_result result = {.files = &files};
	char *json = cove_result_json(&result);

	CHECK(json);
	CHECK(strstr(json, "\"inputs\":[],\"outputs\":[{\"path\":\"a\\\"\\n\","));
	CHECK(!strstr(json, "path_base64") && strstr(json, "\"to_base64\":\"Yv8=\""));
	free(json);
	result.files = NULL;
	json = cove_result_json(&result);
	CHECK(json && !strstr(json, "inputs"));
	free(json);
}

TAP_MAIN
