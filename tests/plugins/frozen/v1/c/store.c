/* A store for fmail that keeps its project in memory: the log profile, the whole plugin. See docs/plugins/guide.md. */
#define _POSIX_C_SOURCE 200809L
#include "fmail_plugin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct store {
  const fm_host *host;
  pthread_mutex_t lock; /* around the entries; never held across a call to the host (rule 6) */
  char **entries;       /* by position, from 1; NULL where one was dropped */
  uint64_t last;        /* the last position */
} store;

static void *create(const fm_host *host, uint64_t id, fm_bytes envelope) {
  store *s = calloc(1, sizeof *s);
  if (s) s->host = host, pthread_mutex_init(&s->lock, NULL), (void)envelope;
  host->done(host, id, s ? FM_OK : FM_E_UNAVAILABLE, fm_str(s ? "" : "out of memory"));
  return s;
}

/* "<position> <entry>": at the next position, or not at all. */
static int append(store *s, char *request) {
  char *entry, **entries = s->entries;
  uint64_t at = strtoull(request, &entry, 10);
  if (at != s->last + 1) return FM_E_CONFLICT;
  if ((at & (at - 1)) == 0 && !(entries = realloc(entries, 2 * at * sizeof *entries))) return FM_E_UNAVAILABLE;
  s->entries = entries; /* twice as large at 1, 2, 4, 8 ... */
  if (*entry != ' ' || !(entry = strdup(entry + 1))) return FM_E_UNAVAILABLE;
  return s->entries[++s->last] = entry, FM_OK;
}

/* "<after> <limit> <max bytes>": what follows, as lines of "<position> <entry>"; one at least, if there is one. */
static int read_entries(store *s, char *request, char **body) {
  uint64_t at = strtoull(request, &request, 10), limit = strtoull(request, &request, 10);
  uint64_t most = strtoull(request, NULL, 10), used = 0;
  size_t size;
  FILE *out = open_memstream(body, &size);
  if (!out) return FM_E_UNAVAILABLE;
  while (limit > 0 && used <= most && at < s->last)
    if (s->entries[++at]) used += fprintf(out, "%llu %s\n", (unsigned long long)at, s->entries[at]), limit--;
  return fclose(out) ? FM_E_UNAVAILABLE : FM_OK;
}

/* "<position> <position> ...": these may be forgotten. */
static int drop(store *s, char *request) {
  for (uint64_t at; (at = strtoull(request, &request, 10)) != 0;)
    if (at <= s->last) free(s->entries[at]), s->entries[at] = NULL;
  return FM_OK;
}

static void call(void *self, uint64_t id, fm_bytes method, fm_bytes context, fm_bytes request) {
  store *s = self;
  char *body = NULL, *text = calloc(1, request.len + 1); /* the request is borrowed, and not ended by a zero */
  int status = text ? FM_E_UNSUPPORTED : FM_E_UNAVAILABLE;
  if (text && request.len) memcpy(text, request.ptr, request.len), (void)context;
  pthread_mutex_lock(&s->lock);
  if (text && fm_is(method, "append")) status = append(s, text);
  if (text && fm_is(method, "read")) status = read_entries(s, text, &body);
  if (text && fm_is(method, "drop")) status = drop(s, text);
  pthread_mutex_unlock(&s->lock);
  s->host->done(s->host, id, status, fm_str(body ? body : status == FM_E_CONFLICT ? "not the next position" : ""));
  free(text), free(body);
}

static void destroy(void *self, uint64_t id) {
  store *s = self;
  const fm_host *host = s->host;
  for (; s->last; s->last--) free(s->entries[s->last]);
  free(s->entries), pthread_mutex_destroy(&s->lock), free(s), host->done(host, id, FM_OK, fm_str(""));
}

static void pull(void *self, uint64_t id, uint32_t credits) { (void)self, (void)id, (void)credits; }
static void cancel(void *self, uint64_t id) { (void)self, (void)id; } /* every call is over when it returns */

const fm_plugin fmail_plugin_v1 = {
  .magic = FM_MAGIC, .abi_major = FM_ABI_MAJOR, .abi_minor = FM_ABI_MINOR, .size = sizeof(fm_plugin),
  .manifest = "{\"name\":\"example-c\",\"version\":\"1.0.0\",\"kind\":\"store\",\"profile\":\"log\"}",
  .create = create, .call = call, .pull = pull, .cancel = cancel, .destroy = destroy,
};
