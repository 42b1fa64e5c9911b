/* A relay that keeps all projects of one daemon in step, in C99: what is sent in one is imported into the others.
 *
 * It has no threads: everything happens in answers of the host.  The number of a call of ours says what it is about, so
 * that nothing has to be looked up.  No function of the host is called under the lock. */
#define _POSIX_C_SOURCE 200809L
#include "fmail_plugin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PROJECTS, FOLLOW, IMPORT }; /* what a call asks for */
enum { MOST = 256 };               /* projects */

typedef struct peer {
  char *project; /* its id, as JSON */
  char *problem; /* what it answered last that was an error, as JSON */
  uint64_t duplicates, refused, relocated;
} peer;

typedef struct relay {
  const fm_host *host;
  pthread_mutex_t lock;
  uint64_t run, destroying; /* the host's calls of `run` and `destroy`, 0 when there is none */
  uint64_t calls, *open;    /* how many calls we have made; those that are not answered yet */
  size_t waiting, room;     /* how many these are, and for how many there is room */
  size_t busy;              /* how many functions of ours are under way */
  uint32_t credits;    /* how many states the host wants to hear */
  int begun, changed;
  char since[32];      /* when it began */
  peer peers[MOST];
  size_t count;
} relay;

static char *copy(fm_bytes bytes) {
  char *text = calloc(1, bytes.len + 1);
  if (text && bytes.len) memcpy(text, bytes.ptr, bytes.len);
  return text;
}

/* Where a JSON value ends that begins here. */
static const char *behind(const char *at, const char *end) {
  int depth = 0, quoted = 0;
  for (; at < end; at++) {
    if (quoted) {
      if (*at == '\\') at++;
      else if (*at == '"') quoted = 0;
    } else if (*at == '"') quoted = 1;
    else if (*at == '{' || *at == '[') depth++;
    else if ((*at == '}' || *at == ']') && --depth < 0) return at;
    else if (*at == ',' && depth == 0) return at;
  }
  return end;
}

/* The value of a member of an object in compact JSON, which is what the host writes; empty when there is none. */
static fm_bytes member(fm_bytes object, const char *key) {
  const char *at = (const char *)object.ptr + 1, *end = (const char *)object.ptr + object.len;
  size_t length = strlen(key);
  for (const char *next; object.len && at < end; at = next + 1) {
    next = behind(at, end);
    if ((size_t)(next - at) > length && memcmp(at, key, length) == 0)
      return (fm_bytes){(const uint8_t *)at + length, (size_t)(next - at) - length};
  }
  return (fm_bytes){NULL, 0};
}

/* Notes a call of ours; 0 when it cannot be made any more. */
static uint64_t number(relay *r, int what, size_t about) {
  if (r->waiting == r->room) {
    uint64_t *more = realloc(r->open, (2 * r->room + 64) * sizeof *more);
    if (!more) return 0;
    r->open = more, r->room = 2 * r->room + 64;
  }
  return !r->run ? 0 : (r->open[r->waiting++] = ++r->calls << 16 | (uint64_t)what << 12 | about);
}

/* Asks the host for something about a project. */
static void ask(relay *r, int what, size_t about, const char *method, const char *request) {
  char *context = NULL;
  size_t size;
  FILE *out = open_memstream(&context, &size);
  pthread_mutex_lock(&r->lock);
  uint64_t id = out ? number(r, what, about) : 0;
  if (id && what != PROJECTS) fprintf(out, "{\"project\":%s}", r->peers[about].project);
  pthread_mutex_unlock(&r->lock);
  if (out) fclose(out);
  if (id) r->host->call(r->host, id, fm_str(method), fm_str(context), fm_str(request));
  if (id && what == FOLLOW) r->host->pull(r->host, id, 64);
  free(context);
}

/* Tells the state of every link, if it has changed and the host wants to hear of it. */
static void tell(relay *r) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  pthread_mutex_lock(&r->lock);
  uint64_t run = out && r->changed && r->credits ? r->run : 0;
  if (run) r->credits--, r->changed = 0, fputs("{\"links\":[", out);
  for (size_t at = 0; run && at < r->count; at++) {
    peer *p = &r->peers[at];
    fprintf(out, "%s{\"peer\":%s,\"connected\":%s,\"since\":\"%s\",\"authenticated\":true,\"problem\":%s,\"queued\":0,"
            "\"counts\":{\"duplicates\":%llu,\"refused\":%llu,\"relocated\":%llu}}", at ? "," : "", p->project,
            p->problem ? "false" : "true", r->since, p->problem ? p->problem : "null", (unsigned long long)p->duplicates,
            (unsigned long long)p->refused, (unsigned long long)p->relocated);
  }
  if (run) fputs("]}", out);
  pthread_mutex_unlock(&r->lock);
  if (out) fclose(out);
  if (run && text) r->host->item(r->host, run, fm_str(text));
  free(text);
}

/* A peer has answered: an error is its problem, and nobody else's. */
static void note(relay *r, size_t about, int32_t status, fm_bytes body) {
  fm_bytes message = member(body, "\"message\":"), imported = member(body, "\"imported\":");
  pthread_mutex_lock(&r->lock);
  peer *p = &r->peers[about];
  if (status < 0) {
    free(p->problem);
    p->problem = message.len ? copy(message) : strdup("\"it does not answer\"");
    r->changed = 1;
  } else if (imported.len) {
    p->duplicates += fm_is(imported, "\"duplicate\"");
    p->relocated += member(imported, "\"relocated\":").len > 0;
    if (member(imported, "\"refused\":").len) p->refused++, r->changed = 1;
  }
  pthread_mutex_unlock(&r->lock);
  tell(r);
}

/* Follows every project, from its beginning. */
static void begin(relay *r, fm_bytes answer) {
  fm_bytes list = member(answer, "\"projects\":");
  const char *at = (const char *)list.ptr + 1, *end = (const char *)list.ptr + list.len;
  size_t count = 0;
  pthread_mutex_lock(&r->lock);
  for (const char *next; list.len && at < end && *at == '"' && r->count < MOST; at = next + 1) {
    next = behind(at, end);
    r->peers[r->count++].project = copy((fm_bytes){(const uint8_t *)at, (size_t)(next - at)});
  }
  count = r->count, r->changed = 1;
  pthread_mutex_unlock(&r->lock);
  for (size_t from = 0; from < count; from++)
    ask(r, FOLLOW, from, "request", "{\"cmd\":\"relay\",\"agent\":\"example-relay\",\"since\":\"1970-01-01T00:00:00Z\"}");
  tell(r);
}

/* A message goes to all others.  It comes back from there and is a duplicate here: nothing goes round for ever. */
static void spread(relay *r, size_t from, fm_bytes message) {
  char *request = NULL;
  size_t size;
  FILE *out = open_memstream(&request, &size);
  if (!out) return;
  fputs("{\"cmd\":\"import\",\"agent\":\"example-relay\",\"msg\":", out);
  fwrite(message.ptr, 1, message.len, out), fputs("}", out);
  fclose(out);
  for (size_t to = 0; request && to < r->count; to++)
    if (to != from) ask(r, IMPORT, to, "request", request);
  free(request);
}

/* Nothing is asked any more and all is answered: lets go of everything, and says so. */
static void gone(relay *r) {
  const fm_host *host = r->host;
  uint64_t id = r->destroying;
  for (size_t at = 0; at < r->count; at++) free(r->peers[at].project), free(r->peers[at].problem);
  pthread_mutex_destroy(&r->lock), free(r->open), free(r);
  host->done(host, id, FM_OK, fm_str(""));
}

/* Around whatever the host makes us do: the instance goes when nothing is under way any more. */
static void enter(relay *r) {
  pthread_mutex_lock(&r->lock);
  r->busy++;
  pthread_mutex_unlock(&r->lock);
}

static void leave(relay *r, uint64_t answered) {
  pthread_mutex_lock(&r->lock);
  for (size_t at = 0; at < r->waiting; at++)
    if (r->open[at] == answered) { r->open[at] = r->open[--r->waiting]; break; }
  int last = --r->busy == 0 && r->waiting == 0 && r->destroying;
  pthread_mutex_unlock(&r->lock);
  if (last) gone(r);
}

static void done(void *self, uint64_t id, int32_t status, fm_bytes body) {
  relay *r = self;
  enter(r);
  int projects = (id >> 12 & 15) == PROJECTS;
  if (projects && status == FM_OK) begin(r, body);
  else if (projects) r->host->log(r->host, FM_ERROR, fm_str("relay"), body, fm_str(""));
  else if (status != FM_E_CANCELLED) note(r, id & 4095, status, body); /* that one was on our own wish */
  leave(r, id);
}

static int32_t item(void *self, uint64_t id, fm_bytes body) {
  relay *r = self;
  fm_bytes message = member(body, "\"msg\":");
  enter(r);
  if (message.len) spread(r, id & 4095, message);
  r->host->pull(r->host, id, 1);
  leave(r, 0);
  return 0;
}

/* Ends `run`, if it runs, and asks for nothing more. */
static void end(relay *r, int status) {
  pthread_mutex_lock(&r->lock);
  uint64_t run = r->run, *open = malloc(r->waiting * sizeof *open + 1);
  size_t waiting = open ? r->waiting : 0;
  if (waiting) memcpy(open, r->open, waiting * sizeof *open);
  r->run = 0;
  pthread_mutex_unlock(&r->lock);
  for (size_t at = 0; at < waiting; at++) r->host->cancel(r->host, open[at]);
  free(open);
  if (run) r->host->done(r->host, run, status, fm_str(""));
}

static void call(void *self, uint64_t id, fm_bytes method, fm_bytes context, fm_bytes request) {
  relay *r = self;
  (void)context, (void)request;
  if (fm_is(method, "run")) {
    pthread_mutex_lock(&r->lock);
    r->run = id;
    pthread_mutex_unlock(&r->lock);
  } else if (fm_is(method, "shutdown")) {
    r->host->done(r->host, id, FM_OK, fm_str("{}"));
    end(r, FM_END);
  } else {
    r->host->done(r->host, id, FM_E_UNSUPPORTED, fm_str("a relay runs and is shut down"));
  }
}

static void pull(void *self, uint64_t id, uint32_t credits) {
  relay *r = self;
  pthread_mutex_lock(&r->lock);
  int first = id == r->run && !r->begun;
  if (id == r->run) r->credits += credits - (first ? 1 : 0), r->begun = 1;
  pthread_mutex_unlock(&r->lock);
  if (first) {
    r->host->item(r->host, id, fm_str("{\"links\":[]}"));
    ask(r, PROJECTS, 0, "projects", "{}");
  }
  tell(r);
}

static void cancel(void *self, uint64_t id) {
  relay *r = self;
  pthread_mutex_lock(&r->lock);
  int runs = id == r->run;
  pthread_mutex_unlock(&r->lock);
  if (runs) end(r, FM_E_CANCELLED);
}

static void *create(const fm_host *host, uint64_t id, fm_bytes envelope) {
  relay *r = calloc(1, sizeof *r);
  time_t now = time(NULL);
  struct tm utc;
  (void)envelope;
  if (r) r->host = host, pthread_mutex_init(&r->lock, NULL);
  if (r && gmtime_r(&now, &utc)) strftime(r->since, sizeof r->since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  host->done(host, id, r ? FM_OK : FM_E_UNAVAILABLE, fm_str(r ? "" : "out of memory"));
  return r;
}

/* What is still open was cancelled, which answers it; the last answer ends the instance. */
static void destroy(void *self, uint64_t id) {
  relay *r = self;
  end(r, FM_E_CANCELLED);
  enter(r);
  r->destroying = id;
  leave(r, 0);
}

const fm_plugin fmail_plugin_v1 = {
  .magic = FM_MAGIC, .abi_major = FM_ABI_MAJOR, .abi_minor = FM_ABI_MINOR, .size = sizeof(fm_plugin),
  .manifest = "{\"name\":\"example-relay\",\"version\":\"1.0.0\",\"kind\":\"relay\"}",
  .create = create, .call = call, .pull = pull, .cancel = cancel, .destroy = destroy, .done = done, .item = item,
};
