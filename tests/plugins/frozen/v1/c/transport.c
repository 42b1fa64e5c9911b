/* A transport over a Unix socket in the plugin's own directory: one connection for each request, in C99.
 *
 * A client writes two lines, who asks and what; the server answers with lines of a word and JSON: `answer`, or `head` and
 * then `item`s, or `error`, and closes.  Each connection has a thread; no function of the host is called under the lock. */
#define _GNU_SOURCE /* struct ucred: who is at the other end of a socket */
#include "fmail_plugin.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef struct transport transport;
enum kind { SERVE, REQUEST, PEER };
enum { LONGEST = 16 << 20 }; /* bytes of a line */

/* One thread: the server, a request of our client's side, or a connection that is served. */
typedef struct work {
  struct work *next;
  transport *t;
  enum kind kind;
  uint64_t id;      /* the host's call that it answers; of a PEER, our own call of the host */
  int fd;           /* its socket, -1 while it has none */
  char *context, *request;
  uint32_t credits; /* how many items the host wants */
  int streaming;    /* a PEER whose answer is a stream */
  int over;         /* nobody waits any more, or all was said */
  char *said;       /* what the host has said and the client has not got yet, as lines */
  uint32_t items;   /* how many items are among that */
} work;

struct transport {
  const fm_host *host;
  struct sockaddr_un address;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  work *all;
  uint64_t calls, destroying; /* our last call of the host; the host's `destroy` */
  int ending;                 /* no new connections */
};

static char *copy(fm_bytes bytes) {
  char *text = calloc(1, bytes.len + 1);
  if (text && bytes.len) memcpy(text, bytes.ptr, bytes.len);
  return text;
}

static work *find(transport *t, uint64_t id, int ours) {
  work *w = t->all;
  while (w && !(w->id == id && (w->kind == PEER) == ours)) w = w->next;
  return w;
}

/* The last thread of an instance that is being destroyed says that nothing of it is left. */
static void gone(transport *t) {
  const fm_host *host = t->host;
  uint64_t id = t->destroying;
  pthread_cond_destroy(&t->changed), pthread_mutex_destroy(&t->lock), free(t);
  host->done(host, id, FM_OK, fm_str(""));
}

static void finish(work *w) {
  transport *t = w->t;
  pthread_mutex_lock(&t->lock);
  for (work **at = &t->all; *at; at = &(*at)->next)
    if (*at == w) { *at = w->next; break; }
  int last = t->destroying && !t->all;
  if (w->fd >= 0) close(w->fd);
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  free(w->context), free(w->request), free(w->said), free(w);
  if (last) gone(t);
}

/* Starts a thread for some work, which it owns from now on; false when that cannot be. */
static int start(transport *t, work made, void *(*run)(void *)) {
  pthread_t thread;
  work *w = calloc(1, sizeof *w);
  if (!w) return free(made.context), free(made.request), close(made.fd), 0;
  *w = made, w->t = t;
  pthread_mutex_lock(&t->lock);
  if (w->kind == PEER) w->id = ++t->calls;
  if (w->kind == PEER && t->ending) shutdown(w->fd, SHUT_RD); /* it came too late to ask */
  w->next = t->all, t->all = w;
  pthread_mutex_unlock(&t->lock);
  if (w->fd < 0 || pthread_create(&thread, NULL, run, w) != 0) return finish(w), 0;
  return pthread_detach(thread), 1;
}

/* Waits until the host wants an item; false when nobody waits any more. */
static int credit(work *w) {
  pthread_mutex_lock(&w->t->lock);
  while (!w->credits && !w->over) pthread_cond_wait(&w->t->changed, &w->t->lock);
  int wanted = !w->over;
  if (wanted) w->credits--;
  pthread_mutex_unlock(&w->t->lock);
  return wanted;
}

static int write_all(int fd, const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    ssize_t wrote = send(fd, text, left, MSG_NOSIGNAL);
    if (wrote < 0 && errno != EINTR) return 0;
    if (wrote > 0) text += wrote, left -= (size_t)wrote;
  }
  return 1;
}

/* A line without its end; NULL when there is none, or one that is longer than any request. */
static char *line(FILE *in) {
  char *text = NULL, *more;
  size_t room = 0, length = 0;
  for (int c; (c = getc(in)) != EOF; text[length++] = (char)c) {
    if (length == room) {
      if (room >= LONGEST || !(more = realloc(text, room = room ? 2 * room : 256))) break;
      text = more;
    }
    if (c == '\n') return text[length] = 0, text;
  }
  return free(text), NULL;
}

/* Asks the host what a client asks.  The kernel says who it is; a client that says so itself is refused by the host. */
static int ask(work *w) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  FILE *in = fdopen(dup(w->fd), "r");
  char *context = in ? line(in) : NULL, *request = context ? line(in) : NULL;
  if (in) fclose(in);
  int fits = request && context[0] == '{' && getsockopt(w->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (fits && (w->context = malloc(strlen(context) + 64)) != NULL) {
    const char *rest = context + 1 + strspn(context + 1, " \t");
    sprintf(w->context, "{\"principal\":{\"user\":%u}%s%s", (unsigned)peer.uid, *rest == '}' ? "" : ",", rest);
    w->t->host->call(w->t->host, w->id, fm_str("request"), fm_str(w->context), fm_str(request));
    w->t->host->pull(w->t->host, w->id, 64);
  } else fits = 0;
  free(context), free(request);
  return fits;
}

/* What a client does wrong, or its end, concerns nobody else. */
static void *serve_one(void *self) {
  work *w = self;
  transport *t = w->t;
  int asked = ask(w), goes_on = asked;
  while (goes_on) {
    struct timespec until;
    char probe;
    clock_gettime(CLOCK_REALTIME, &until), until.tv_sec++;
    pthread_mutex_lock(&t->lock);
    int late = !w->said && !w->over && pthread_cond_timedwait(&t->changed, &t->lock, &until) == ETIMEDOUT;
    late &= !t->ending; /* then we have closed its end ourselves, and it still waits for its answer */
    char *said = w->said;
    uint32_t items = w->items;
    w->said = NULL, w->items = 0, goes_on = said || !w->over;
    pthread_mutex_unlock(&t->lock);
    if (said && !write_all(w->fd, said)) goes_on = 0;
    if (late && recv(w->fd, &probe, 1, MSG_PEEK | MSG_DONTWAIT) == 0) goes_on = 0; /* it has gone */
    if (items) t->host->pull(t->host, w->id, items);
    free(said);
  }
  if (asked) t->host->cancel(t->host, w->id);
  return finish(w), NULL;
}

static int ends(transport *t) {
  pthread_mutex_lock(&t->lock);
  int ending = t->ending;
  pthread_mutex_unlock(&t->lock);
  return ending;
}

/* The head says that clients can connect. */
static void *serve(void *self) {
  work *w = self;
  transport *t = w->t;
  char head[sizeof t->address.sun_path + 32];
  unlink(t->address.sun_path); /* a killed daemon has left it behind */
  if (bind(w->fd, (struct sockaddr *)&t->address, sizeof t->address) != 0 || listen(w->fd, 64) != 0) {
    t->host->done(t->host, w->id, FM_E_UNAVAILABLE, fm_str(strerror(errno)));
    return finish(w), NULL;
  }
  snprintf(head, sizeof head, "{\"endpoint\":\"unix:%s\"}", t->address.sun_path);
  if (credit(w)) t->host->item(t->host, w->id, fm_str(head));
  for (int peer; !ends(t) && ((peer = accept(w->fd, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED);)
    if (peer >= 0) start(t, (work){.kind = PEER, .fd = peer}, serve_one);
  unlink(t->address.sun_path);
  pthread_mutex_lock(&t->lock); /* this one is the last to go, since it has to tell of the end */
  for (int busy = 1; busy;) {
    busy = 0;
    for (work *other = t->all; other; other = other->next) busy |= other->kind == PEER;
    if (busy) pthread_cond_wait(&t->changed, &t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  t->host->done(t->host, w->id, FM_END, fm_str(""));
  return finish(w), NULL;
}

/* The client's side: carries one request, and brings what is said to it. */
static void *carry(void *self) {
  work *w = self;
  const fm_host *host = w->t->host;
  FILE *in = fdopen(dup(w->fd), "r");
  int status = FM_E_UNAVAILABLE;
  char *text = NULL;
  if (in && w->context && w->request &&
      connect(w->fd, (struct sockaddr *)&w->t->address, sizeof w->t->address) == 0 && write_all(w->fd, w->context) &&
      write_all(w->fd, "\n") && write_all(w->fd, w->request) && write_all(w->fd, "\n")) {
    for (; (text = line(in)) != NULL; free(text)) {
      if (strncmp(text, "answer ", 7) == 0) { status = FM_OK; break; }
      if (strncmp(text, "error ", 6) == 0) { status = FM_E_INTERNAL; break; }
      status = credit(w) && host->item(host, w->id, fm_str(text + 5)) == 0 ? FM_END : FM_E_CANCELLED;
      if (status == FM_E_CANCELLED) break;
    }
  }
  if (status == FM_E_UNAVAILABLE) host->done(host, w->id, status, fm_str("nobody answers on the socket"));
  else host->done(host, w->id, status, fm_str(status == FM_OK ? text + 7 : status == FM_E_INTERNAL ? text + 6 : ""));
  free(text);
  if (in) fclose(in);
  return finish(w), NULL;
}

/* Ends the server: who has not asked yet is sent away, streams end, other calls are answered. */
static void wind_up(transport *t, int all) {
  pthread_mutex_lock(&t->lock);
  t->ending = 1;
  for (work *w = t->all; w; w = w->next) {
    if (w->kind == PEER && !all) shutdown(w->fd, SHUT_RD), w->over |= w->streaming;
    else shutdown(w->fd, SHUT_RDWR), w->over |= all;
  }
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

static void call(void *self, uint64_t id, fm_bytes method, fm_bytes context, fm_bytes request) {
  transport *t = self;
  int serves = fm_is(method, "serve");
  if (fm_is(method, "shutdown")) {
    wind_up(t, 0);
    t->host->done(t->host, id, FM_OK, fm_str("{}"));
  } else if (serves || fm_is(method, "request")) {
    work made = {.kind = serves ? SERVE : REQUEST, .id = id, .fd = socket(AF_UNIX, SOCK_STREAM, 0),
                 .context = copy(context), .request = copy(request)};
    if (!start(t, made, serves ? serve : carry))
      t->host->done(t->host, id, FM_E_UNAVAILABLE, fm_str("there is no thread, no socket or no memory for it"));
  } else {
    t->host->done(t->host, id, FM_E_UNSUPPORTED, fm_str("no such method"));
  }
}

static void pull(void *self, uint64_t id, uint32_t credits) {
  transport *t = self;
  pthread_mutex_lock(&t->lock);
  work *w = find(t, id, 0);
  if (w) w->credits += credits;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

static void cancel(void *self, uint64_t id) {
  transport *t = self;
  pthread_mutex_lock(&t->lock);
  work *w = find(t, id, 0);
  if (w) w->over = 1, shutdown(w->fd, SHUT_RDWR);
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

/* The host says something about a call of ours: it waits as a line for the thread of its client. */
static int heard(transport *t, uint64_t id, int over, const char *word, fm_bytes body) {
  pthread_mutex_lock(&t->lock);
  work *w = find(t, id, 1);
  if (w && !w->over && word) {
    size_t had = w->said ? strlen(w->said) : 0;
    char *said = realloc(w->said, had + body.len + 16);
    if (said) {
      if (!over) word = w->streaming ? "item" : "head", w->streaming = 1, w->items++;
      if (!over) over = t->ending; /* a stream that begins while we end has its head and no more */
      int at = sprintf(said + had, "%s ", word);
      if (body.len) memcpy(said + had + at, body.ptr, body.len);
      memcpy(said + had + at + body.len, "\n", 2);
      w->said = said;
    } else over = 1;
  }
  if (w) w->over |= over;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  return w == NULL || over;
}

static void done(void *self, uint64_t id, int32_t status, fm_bytes body) {
  heard(self, id, 1, status < 0 ? "error" : status == FM_END ? NULL : "answer", body);
}

static int32_t item(void *self, uint64_t id, fm_bytes body) { return heard(self, id, 0, "item", body); }

static void *create(const fm_host *host, uint64_t id, fm_bytes envelope) {
  transport *t = calloc(1, sizeof *t);
  char *text = copy(envelope), *from = text ? strstr(text, "\"data_dir\":\"") : NULL;
  size_t at = 0;
  if (t && from) {
    t->host = host, t->address.sun_family = AF_UNIX;
    for (from += 12; *from && *from != '"' && at < sizeof t->address.sun_path - 8; from++)
      if (*from != '\\' || *++from) t->address.sun_path[at++] = *from; /* \" and \\ */
    strcpy(t->address.sun_path + at, "/socket");
    pthread_mutex_init(&t->lock, NULL), pthread_cond_init(&t->changed, NULL);
  }
  int fits = t && from && *from == '"';
  free(text);
  if (!fits) free(t), t = NULL;
  host->done(host, id, fits ? FM_OK : FM_E_INVALID, fm_str(fits ? "" : "the data_dir is missing, or too long for a socket"));
  return t;
}

static void destroy(void *self, uint64_t id) {
  transport *t = self;
  wind_up(t, 1);
  pthread_mutex_lock(&t->lock);
  t->destroying = id;
  int idle = t->all == NULL;
  pthread_mutex_unlock(&t->lock);
  if (idle) gone(t);
}

const fm_plugin fmail_plugin_v1 = {
  .magic = FM_MAGIC, .abi_major = FM_ABI_MAJOR, .abi_minor = FM_ABI_MINOR, .size = sizeof(fm_plugin),
  .manifest = "{\"name\":\"example-transport\",\"version\":\"1.0.0\",\"kind\":\"transport\"}",
  .create = create, .call = call, .pull = pull, .cancel = cancel, .destroy = destroy, .done = done, .item = item,
};
