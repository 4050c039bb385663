/* Processes count each other, however they end; children, programs that they start, and files of others do not. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/neighbours.h"

static char path[] = "/tmp/braid_neighbours_XXXXXX";

/* A process that joins and stays, or `runs` another program after that. Returns when it has joined. */
static pid_t start(bool runs)
{
    int pipes[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        byte = braid_neighbours_join(path) == 0 ? 'y' : 'n';
        if (write(pipes[1], &byte, 1) != 1)
            _exit(1);
        if (runs)
            execl("/bin/sleep", "sleep", "60", (char *)NULL);
        pause();
        _exit(0);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    if (runs) /* until the other program runs */
        assert_int_equal(read(pipes[0], &byte, 1), 0);
    close(pipes[0]);
    return pid;
}

static void end(pid_t pid, int signal)
{
    assert_int_equal(kill(pid, signal), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void all_are_counted(void **state)
{
    pid_t pids[20];

    assert_int_equal(braid_neighbours_count(), 0);
    assert_int_equal(braid_neighbours_join(path), 0);
    assert_int_equal(braid_neighbours_count(), 1);
    for (int i = 0; i < 20; i++) {
        pids[i] = start(false);
        assert_int_equal(braid_neighbours_count(), 2 + i);
    }
    for (int i = 0; i < 20; i++) { /* from the middle, too */
        end(pids[(7 * i) % 20], i % 2 == 0 ? SIGKILL : SIGTERM);
        assert_int_equal(braid_neighbours_count(), 20 - i);
    }
    braid_neighbours_leave();
    assert_int_equal(braid_neighbours_count(), 0);
    braid_neighbours_leave();
}

static void leaving_frees_the_place(void **state)
{
    pid_t other;

    assert_int_equal(braid_neighbours_join(path), 0);
    other = start(false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(braid_neighbours_join(path), 0);
        assert_int_equal(braid_neighbours_count(), 2);
    }
    end(other, SIGKILL);
    assert_int_equal(braid_neighbours_count(), 1);
    braid_neighbours_leave();
}

static void children_do_not_count(void **state)
{
    int status;
    pid_t pid;

    assert_int_equal(braid_neighbours_join(path), 0);
    pid = fork();
    if (pid == 0)
        _exit((int)braid_neighbours_count()); /* which knows that it is none */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(braid_neighbours_count(), 1);
    pid = start(true);
    assert_int_equal(braid_neighbours_count(), 1);
    end(pid, SIGKILL);
    braid_neighbours_leave();
}

static void what_cannot_be_opened_is_said(void **state)
{
    char link[sizeof(path) + 8];

    snprintf(link, sizeof(link), "%s.link", path);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(braid_neighbours_join(link), -ELOOP);
    unlink(link);
    assert_int_equal(braid_neighbours_join("/nosuch/folder/file"), -ENOENT);
    assert_int_equal(braid_neighbours_join("/dev/null"), -EPERM);
    assert_int_equal(braid_neighbours_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_counted), cmocka_unit_test(leaving_frees_the_place),
        cmocka_unit_test(children_do_not_count), cmocka_unit_test(what_cannot_be_opened_is_said)};
    int fd = mkstemp(path), failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
