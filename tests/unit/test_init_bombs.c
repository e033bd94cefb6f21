/*
 * Commands that try to outlive their end or to keep init from its work: each ends with one kill of
 * its tree, and init answers others meanwhile. With real groups, within a limit of processes.
 */
#include "group_rig.h"
#include "shell_client.h"
#include "tap.h"

enum { PIDS = 200 };

static struct rig rig;

static struct client *begin(void)
{
	rig_make(&rig, 0, PIDS);
	return shells_begin_with(&rig.inherited, rig.args);
}

static void end(struct client *c)
{
	shells_end(c);
	rig_remove(&rig);
}

#define BOMB_TEST(name) \
	TEST_IN(name, (struct client * c), struct client *made = begin(); body(made); end(made);)

static void check_nobody(const struct run *r)
{
	char name[16];

	snprintf(name, sizeof(name), "e%u", (unsigned)r->id);
	CHECK(!rig_has(&rig, name));
}

/* Kills it and makes sure that nobody is left of it, nor its groups. */
static void end_run(struct client *c, struct run *r)
{
	run_signal(c, r, SIGKILL, true);
	run_wait(c, r);
	CHECK_STR(r->cause, "killed");
	run_wait_eof(c, r);
	run_check_exit(run_finished(c, "exit 5"), 5);
	check_nobody(r); /* its groups went after its answer, before that of another command */
}

/* It has begun, and init still answers: a command ends, or is told that there is no place. */
static void check_answers(struct client *c, struct run *bomb)
{
	struct run *r;

	run_wait_text(c, bomb, "go");
	for (int i = 0; i < 5; i++) {
		r = run_finished(c, "exit 5");
		if (r->code == 0 && r->exit.has_exit && r->exit.exit_code == 5)
			continue;
		CHECK(r->code == EAGAIN || strcmp(r->cause, "pids") == 0);
	}
}

BOMB_TEST(a_fork_bomb)
{
	struct run *r = run_line(c, "echo go; b() { b | b & b; }; b 2>/dev/null; wait");

	check_answers(c, r);
	end_run(c, r);
}

BOMB_TEST(a_storm_of_daemons)
{
	struct run *r =
		run_line(c, "trap '' TERM HUP INT; echo go; while :; do "
			    "(setsid sh -c 'setsid sleep 1000 & exit' &) ; done 2>/dev/null");

	check_answers(c, r);
	end_run(c, r);
}

BOMB_TEST(a_stopped_tree)
{
	struct run *r = run_line(c, "(setsid sh -c 'kill -STOP $$' &); (sh -c 'kill -STOP $$' &); "
				    "echo go; kill -STOP $$");

	check_answers(c, r);
	end_run(c, r);
}

TEST(a_bomb_of_threads)
{
	struct client *c;
	struct run *r;

	if (access("/usr/bin/python3", X_OK) < 0)
		SKIP("no python3 to make threads with");
	c = begin();
	r = run_line(c, "exec python3 -c '\n"
			"import threading, time\n"
			"print(\"go\", flush=True)\n"
			"while True:\n"
			"    try:\n"
			"        threading.Thread(target=time.sleep, args=(1000,)).start()\n"
			"    except RuntimeError:\n"
			"        pass\n'");
	check_answers(c, r);
	end_run(c, r);
	end(c);
}

/* In a shell everything but the shell has to end, however fast it forks. */
BOMB_TEST(bombs_in_a_line)
{
	static const char *const bombs[] = {
		"b() { b | b & b; }; (b) 2>/dev/null",
		"while :; do (setsid sleep 1000 &) ; done 2>/dev/null",
		"(setsid sh -c 'kill -STOP $$' &); sh -c 'kill -STOP $$'; sleep 1000",
	};
	struct run *r;

	mark(c);
	for (size_t i = 0; i < sizeof(bombs) / sizeof(*bombs); i++) {
		r = ask(c, bombs[i], 500);
		run_wait(c, r);
		CHECK_STR(r->cause, "timeout");
		if (r->exit.shell_state != SHELL_KEPT) {
			printf("# line %zu cost the shell\n", i);
			mark(c);
		}
		check_mark(c);
	}
	/* What was left has gone: a line's group is the shell's own. */
	r = line(c, "ps -e >/dev/null 2>&1; :");
	CHECK_EQ(r->exit.has_exit, 1);
}

/* Many commands that each leave a daemon, all at once: groups stay while those live, and go. */
BOMB_TEST(many_daemons_are_swept)
{
	enum { MANY = 40 };
	struct run *runs[MANY];

	for (int i = 0; i < MANY; i++)
		runs[i] = run_line(c, "setsid sleep 1000 >/dev/null 2>&1 & echo $!");
	for (int i = 0; i < MANY; i++) {
		run_wait(c, runs[i]);
		run_wait_eof(c, runs[i]);
		run_check_exit(runs[i], 0);
	}
	CHECK(rig_count(&rig, runs[MANY - 1]->id) >= MANY);
	for (int i = 0; i < MANY; i++)
		kill(atoi(run_out(runs[i])), SIGKILL);
	for (int i = 0; rig_count(&rig, runs[MANY - 1]->id) > 0; i++) {
		CHECK(i < 2000);
		client_pump(c, false);
		poll(NULL, 0, 10);
	}
}

TAP_MAIN
