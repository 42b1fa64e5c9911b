/* The least that a durable send has to do, without fmail: the yardstick of `cargo xtask bench`.
 *
 * The same file operations in the same order as fmail's files store: take the project's lock, write a temporary, make
 * its content durable, link it to its final name, add to the index, remove the temporary, release the lock, make the
 * name durable. The directory has to exist, with `tmp`, `topics/bench` and empty files `lock` and `index` in it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void must(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: send DIRECTORY\n");
        return 2;
    }
    int lock = open("lock", O_RDWR | O_CLOEXEC);
    must(lock >= 0 && flock(lock, LOCK_EX) == 0, "lock");

    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char temporary[64], final[80], message[200];
    snprintf(temporary, sizeof temporary, "tmp/%d", (int)getpid());
    snprintf(final, sizeof final, "topics/bench/%lld-%09ld.json", (long long)now.tv_sec, now.tv_nsec);
    memset(message, ' ', sizeof message);
    int length = snprintf(message, sizeof message, "{\"id\":\"%lld\",\"from\":\"bench\",\"to\":\"bench\",\"body\":\"",
                          (long long)now.tv_sec);
    memset(message + length, 'x', sizeof message - length - 3);
    memcpy(message + sizeof message - 3, "\"}\n", 3);

    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    must(file >= 0, temporary);
    must(write(file, message, sizeof message) == (ssize_t)sizeof message, "write");
    must(fdatasync(file) == 0, "fdatasync");
    close(file);
    must(link(temporary, final) == 0, final);

    int index = open("index", O_RDWR | O_CLOEXEC);
    struct stat status;
    must(index >= 0 && fstat(index, &status) == 0, "index");
    char entry[64];
    memset(entry, 1, sizeof entry);
    for (int part = 0; part < 3; part++) {
        off_t at = status.st_size + part * (off_t)sizeof entry;
        must(pwrite(index, entry, sizeof entry, at) == (ssize_t)sizeof entry, "pwrite");
    }
    close(index);

    must(unlink(temporary) == 0, "unlink");
    must(flock(lock, LOCK_UN) == 0, "unlock");
    int directory = open("topics/bench", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(directory >= 0 && fsync(directory) == 0, "fsync");
    return 0;
}
