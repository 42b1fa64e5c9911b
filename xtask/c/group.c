/* The least that a daemon has to do for durable messages, without fmail: the yardstick of `cargo xtask bench --daemon`.
 *
 * group DIRECTORY WAY SIZE SECONDS prints how many messages a second were stored, in groups of SIZE. For each group the
 * project's lock is taken, every message becomes a file of its own under its final name, and the index is added to; a
 * message counts when it would survive a power cut. The ways to see to that:
 *
 *   single    each file synced in turn, then its directory
 *   parallel  the files synced side by side by SIZE threads, then linked, then the directory
 *   syncfs    the files, then one syncfs
 *   growing   appended to a journal that grows, which is synced; then the files
 *   reserved  a journal whose blocks are reserved with fallocate, written in place and synced; then the files
 *   journal   a journal that was filled with zeroes once, written in place and synced; then the files
 *   none      the files, and nothing is synced
 *
 * With a journal, a thread makes the files safe beside that (one syncfs for a quarter of the journal), and no part of the
 * journal is used again before the messages in it are safe.
 *
 * How a file comes to its name can be chosen by a letter behind the way: `journal-link` (written under another name and
 * linked, as `single` and `parallel` always do), `journal-rename` (written under another name and renamed, the default),
 * `journal-unnamed` (written without a name and linked) and `journal-direct` (created under its name).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL (16 * 1024 * 1024)
#define MESSAGE 350
#define MOST 256

static void must(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Threads that sync the files of a group side by side. */
static int files[MOST];
static pthread_barrier_t begin, end;

static void *helper(void *number) {
    for (;;) {
        pthread_barrier_wait(&begin);
        must(fdatasync(files[(intptr_t)number]) == 0, "fdatasync");
        pthread_barrier_wait(&end);
    }
    return NULL;
}

/* The thread that makes safe what stands in the journal. Positions count all bytes that were ever written there. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static off_t written, safe;
static int journal, mailbox;

static void *keeper(void *nothing) {
    pthread_mutex_lock(&guard);
    for (;;) {
        while (written - safe < JOURNAL / 4)
            pthread_cond_wait(&changed, &guard);
        off_t until = written;
        pthread_mutex_unlock(&guard);
        must(syncfs(mailbox) == 0 && fdatasync(journal) == 0, "syncfs");
        pthread_mutex_lock(&guard);
        safe = until;
        pthread_cond_broadcast(&changed);
    }
    return nothing;
}

int main(int argc, char **argv) {
    if (argc != 5 || (mkdir(argv[1], 0755) != 0 && errno != EEXIST) || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: group DIRECTORY WAY SIZE SECONDS\n");
        return 2;
    }
    char *way = argv[2];
    char *how = strchr(way, '-') ? strchr(way, '-') + 1 : "rename";
    size_t length = strcspn(way, "-");
    int size = atoi(argv[3]);
    double span = atof(argv[4]);
#define IS(name) (length == strlen(name) && strncmp(way, name, length) == 0)
    int parallel = IS("parallel"), single = IS("single"), linked = parallel || single || strcmp(how, "link") == 0;
    int unnamed = strcmp(how, "unnamed") == 0;
    int journaled = IS("growing") || IS("reserved") || IS("journal");
    must(size >= 1 && size <= MOST, "size");
    mkdir("tmp", 0700), mkdir("topics", 0755), mkdir("topics/bench", 0755);
    int tmp = open("tmp", O_RDONLY | O_DIRECTORY);
    mailbox = open("topics/bench", O_RDONLY | O_DIRECTORY);
    int lock = open("lock", O_RDWR | O_CREAT, 0600), index = open("index", O_RDWR | O_CREAT | O_TRUNC, 0600);
    journal = open("journal", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(tmp >= 0 && mailbox >= 0 && lock >= 0 && index >= 0 && journal >= 0, "open");
    if (IS("reserved"))
        must(posix_fallocate(journal, 0, JOURNAL) == 0, "fallocate");
    if (IS("journal")) {
        static char zeroes[1 << 20];
        for (off_t at = 0; at < JOURNAL; at += sizeof zeroes)
            must(pwrite(journal, zeroes, sizeof zeroes, at) == (ssize_t)sizeof zeroes, "pwrite");
    }
    must(fsync(journal) == 0 && fsync(open(".", O_RDONLY)) == 0, "fsync");
    if (parallel) {
        pthread_barrier_init(&begin, NULL, size + 1), pthread_barrier_init(&end, NULL, size + 1);
        for (intptr_t number = 0; number < size; number++) {
            pthread_t thread;
            must(pthread_create(&thread, NULL, helper, (void *)number) == 0, "pthread_create");
        }
    }

    pthread_t thread;
    if (journaled)
        must(pthread_create(&thread, NULL, keeper, NULL) == 0, "pthread_create");

    static char records[MOST * MESSAGE], entries[MOST * 64];
    memset(records, 'x', sizeof records), memset(entries, 1, sizeof entries);
    off_t at = 0, indexed = 0;
    long stored = 0;
    double started = now(), passed;
    while ((passed = now() - started) < span) {
        must(flock(lock, LOCK_EX) == 0, "lock");
        if (journaled) {
            if (!IS("growing") && at + size * MESSAGE > JOURNAL)
                at = 0;
            pthread_mutex_lock(&guard);
            /* The end of the journal may be left free once a round. */
            while (written - safe > JOURNAL - 2 * size * MESSAGE)
                pthread_cond_wait(&changed, &guard);
            pthread_mutex_unlock(&guard);
            must(pwrite(journal, records, size * MESSAGE, at) == size * MESSAGE, "pwrite");
            must(fdatasync(journal) == 0, "fdatasync");
            at += size * MESSAGE;
        }
        char name[MOST][32], final[MOST][48];
        for (int number = 0; number < size; number++) {
            snprintf(final[number], sizeof final[0], "20260110-%09ld.json", stored + number);
            snprintf(name[number], sizeof name[0], "message-%d", number);
            int direct = strcmp(how, "direct") == 0;
            int file = unnamed ? openat(mailbox, ".", O_WRONLY | O_TMPFILE, 0644)
                               : openat(direct ? mailbox : tmp, direct ? final[number] : name[number],
                                        O_WRONLY | O_CREAT | O_EXCL, 0644);
            must(file >= 0 && write(file, records, MESSAGE) == MESSAGE, "write");
            files[number] = file;
            if (single)
                must(fdatasync(file) == 0, "fdatasync");
            if (unnamed)
                must(linkat(file, "", mailbox, final[number], AT_EMPTY_PATH) == 0, "link");
            if (!parallel)
                close(file);
            if (!linked && !direct && !unnamed)
                must(renameat2(tmp, name[number], mailbox, final[number], RENAME_NOREPLACE) == 0, "rename");
        }
        if (parallel)
            pthread_barrier_wait(&begin), pthread_barrier_wait(&end);
        for (int number = 0; linked && number < size; number++) {
            if (parallel)
                close(files[number]);
            must(linkat(tmp, name[number], mailbox, final[number], 0) == 0, "link");
            must(unlinkat(tmp, name[number], 0) == 0, "unlink");
        }
        must(pwrite(index, entries, size * 64, 4096 + indexed) == size * 64, "pwrite");
        must(pwrite(index, entries, 64, 64) == 64 && pwrite(index, entries, 64, 0) == 64, "pwrite");
        indexed += size * 64;
        must(flock(lock, LOCK_UN) == 0, "unlock");
        if (parallel || single)
            must(fsync(mailbox) == 0, "fsync");
        if (IS("syncfs"))
            must(syncfs(mailbox) == 0, "syncfs");
        stored += size;
        if (journaled) {
            pthread_mutex_lock(&guard);
            written += size * MESSAGE;
            if (written - safe >= JOURNAL / 4)
                pthread_cond_broadcast(&changed);
            pthread_mutex_unlock(&guard);
        }
    }
    printf("%.0f\n", stored / passed);
    return 0;
}
